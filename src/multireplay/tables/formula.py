"""A formula such as ``load ~ temp + C(weekday) + log(hour)``, read by formulaic, as a recipe.

Only column names, C(column), arithmetic and the functions listed here are taken: a formula in a model file can then be
trusted as little as the rest of it, since nothing in it is run as a program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.tables.cells import as_chunked, as_numbers, texts
from multireplay.tables.looks import Kind, Look, look_at
from multireplay.tables.recipe import Design

FUNCTIONS = {
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin,
    "cos": np.cos,
}  # fmt: skip
_TAKEN = (
    ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub,
    ast.UAdd, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
LARGEST = 10
"""The largest power."""


@dataclass(frozen=True)
class FormulaRecipe:
    """The right side of a formula, with the levels of its categories as the fit has seen them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"load": [1.0, 2.0] * 4, "heat": [1.0, 2.0] * 4, "day": ["Mon", "Tue"] * 4})
    >>> recipe = FormulaRecipe.of("load ~ heat + {heat**2} + C(day)", table)
    >>> recipe.target, recipe.names
    ('load', ('heat', 'heat ** 2', 'C(day)[T.Tue]'))
    """

    formula: str
    target: str
    levels: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    intercept: bool = True

    def __hash__(self) -> int:
        return hash((self.formula, self.names))

    @classmethod
    def of(cls, formula: str, table: Any, categorical: tuple[str, ...] = ()) -> FormulaRecipe:
        """Read a formula for a table that has its columns."""
        return cls.seen(formula, table.slice(0, 1), lambda names, few: look_at(table.select(names), few), categorical)

    @classmethod
    def seen(
        cls, formula: str, table: Any, look: Callable[..., Mapping[str, Look]], categorical: tuple[str, ...] = ()
    ) -> FormulaRecipe:
        """Read a formula for a table of which this is the first row; `look` tells what some columns hold."""
        parsed = _parsed(formula)
        target = str(parsed.lhs).strip() if getattr(parsed, "lhs", None) is not None else ""
        sides = _names_in(parsed.rhs)
        for name in (target, *sides):
            if name not in table.column_names:
                raise InputError(f"the formula {formula!r} names {name or 'nothing'!r}, which is no column: there are "
                                 f"{', '.join(table.column_names)}")  # fmt: skip
        if not sides:
            raise InputError(f"the formula {formula!r} has no column on the right")
        if target in sides:
            raise InputError(f"the target {target!r} is also on the right of the formula {formula!r}")
        wanted = (*_categories(parsed.rhs), *categorical)
        looks = look(list(sides), wanted)
        levels = {name: look.levels for name, look in looks.items() if _usable(look).kind is Kind.category}
        for name, found in levels.items():
            if len(found) == 1:
                raise InputError(f"the formula {formula!r} has {name!r}, which is {found[0]!r} in all rows")
        bare = cls(formula, target, levels, tuple(sides), (), _has_intercept(parsed.rhs))
        return replace(bare, names=bare._matrix(table)[1])

    def only(self, names: Iterable[str]) -> FormulaRecipe:
        """What makes these features: all of it."""
        return self

    def design(self, table: Any) -> Design:
        """The features of all rows of an Arrow table or batch."""
        found = Design(np.full((table.num_rows, len(self.names)), np.nan), np.ones(table.num_rows, dtype=bool))
        for name in self.columns:
            column = as_chunked(table.column(name))
            if name not in self.levels:
                values = as_numbers(column, name)
                found.leave_out(~np.isfinite(values), f"nothing in {name!r}")
                continue
            cells = np.array(texts(column).to_pylist(), dtype=object)
            empty = np.array([cell is None for cell in cells], dtype=bool)
            found.leave_out(empty, f"nothing in {name!r}")
            for level in set(cells[~empty]) - set(self.levels[name]):
                found.leave_out(cells == level, f"{level!r} in {name!r}, which the fit has not seen")
        rows = np.flatnonzero(found.usable)
        if not len(rows):
            return found
        matrix = self._matrix(table.take(rows) if len(rows) < table.num_rows else table)[0]
        found.matrix[rows] = matrix
        bad = np.zeros_like(found.usable)
        bad[rows] = ~np.isfinite(matrix).all(axis=1)
        found.leave_out(bad, "no finite value of the formula")
        return found

    def _matrix(self, table: Any) -> tuple[Any, tuple[str, ...]]:
        """The model matrix without the intercept, and what its columns are called."""
        import pandas as pd

        frame = {}
        for name in self.columns:
            column = as_chunked(table.column(name))
            if name in self.levels:
                frame[name] = pd.Categorical(texts(column).to_pylist(), categories=list(self.levels[name]))
            else:
                frame[name] = as_numbers(column, name)
        right = _parsed(self.formula).rhs
        with np.errstate(all="ignore"):
            made = right.get_model_matrix(pd.DataFrame(frame), context=FUNCTIONS, na_action="ignore", output="pandas")
        kept = [place for place, name in enumerate(made.columns) if name != "Intercept"]
        return made.to_numpy(dtype=np.float64)[:, kept], tuple(str(made.columns[place]) for place in kept)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return {"formula": self.formula, "levels": {name: list(found) for name, found in self.levels.items()}}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], names: tuple[str, ...]) -> FormulaRecipe:
        """A recipe from its plain values and the names that its features had."""
        formula = str(found["formula"])
        levels = {str(name): tuple(map(str, some)) for name, some in found["levels"].items()}
        parsed = _parsed(formula)
        return cls(formula, str(parsed.lhs), levels, tuple(_names_in(parsed.rhs)), names, _has_intercept(parsed.rhs))


def _usable(look: Look) -> Look:
    if look.kind not in (Kind.number, Kind.category):
        raise look.refuse()
    return look


def _parsed(formula: str) -> Any:
    """The two sides of a formula, all parts of which are of the kinds that are taken."""
    try:
        from formulaic import Formula, SimpleFormula
        from formulaic.errors import FormulaicError
    except ImportError:
        raise InputError("a formula needs the package formulaic: pip install 'multireplay[formula]'") from None
    if "~" not in formula:
        raise InputError(f"a formula is 'target ~ column + C(column) + …', not {formula!r}")
    try:
        parsed = Formula(formula)
    except (FormulaicError, SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"the formula {formula!r} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(getattr(parsed, "rhs", None), SimpleFormula):
        raise InputError(f"the formula {formula!r} has several parts; only target ~ columns is taken")
    left: Any = getattr(parsed, "lhs", ())
    if len(left) != 1 or len(left[0].factors) != 1 or left[0].factors[0].eval_method.value != "lookup":
        raise InputError(f"on the left of ~ in {formula!r} there must be one column")
    for expression in _expressions(parsed.rhs):
        _check(expression, formula)
    return parsed


def _factors(side: Any) -> list[Any]:
    return [factor for term in side for factor in term.factors]


def _expressions(side: Any) -> list[str]:
    return [factor.expr for factor in _factors(side) if factor.eval_method.value == "python"]


def _has_intercept(side: Any) -> bool:
    return any(factor.expr == "1" and factor.eval_method.value == "literal" for factor in _factors(side))


def _names_in(side: Any) -> list[str]:
    """The columns on one side, in the order in which they come."""
    found: dict[str, None] = {}
    for factor in _factors(side):
        if factor.eval_method.value == "lookup":
            found[factor.expr] = None
        elif factor.eval_method.value == "python":
            tree = ast.parse(factor.expr, mode="eval")
            called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
            found |= dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in called)
    return list(found)


def _categories(side: Any) -> list[str]:
    """The columns inside C()."""
    trees = [ast.parse(expression, mode="eval").body for expression in _expressions(side)]
    return [tree.args[0].id for tree in trees if _is_category(tree)]  # type: ignore[attr-defined]


def _is_category(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C"


def _check(expression: str, formula: str) -> None:
    """Raise unless an expression is made of columns, numbers, arithmetic and the functions that are taken."""
    tree = ast.parse(expression, mode="eval").body
    refused = InputError(
        f"the formula {formula!r} has {expression!r}; taken are columns, C(column), numbers, + - * / ** and "
        f"comparisons, and the functions {', '.join(FUNCTIONS)}"
    )
    if _is_category(tree):
        inner = tree.args  # type: ignore[attr-defined]
        if len(inner) != 1 or not isinstance(inner[0], ast.Name) or tree.keywords:  # type: ignore[attr-defined]
            raise refused
        return
    for node in ast.walk(tree):
        fine = isinstance(node, _TAKEN)
        fine |= isinstance(node, ast.Constant) and type(node.value) in (int, float)
        if isinstance(node, ast.Call):
            known = isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS
            fine = known and len(node.args) == 1 and not node.keywords
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            power = node.right.value if isinstance(node.right, ast.Constant) else None
            fine = isinstance(power, int | float) and abs(power) <= LARGEST
            fine &= any(isinstance(inner, ast.Name) for inner in ast.walk(node.left))
        if not fine:
            raise refused
