"""What a fit needs, made from a file as people have them: features, targets, chains of rows, and a word on the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from multireplay.cli.data_file import DataFile
from multireplay.cli.options import Missing, ModelKind
from multireplay.cli.targets import alike, check_target, twins
from multireplay.errors import InputError
from multireplay.tables import ChainedRows, Design, Kind, Look, Recipe, Times, as_times, chained, look_at
from multireplay.tables.cells import as_classes, as_labels, as_lists, as_numbers
from multireplay.tables.formula import FormulaRecipe
from multireplay.tables.recipe import LARGEST, dropped_in_words

FEWEST = 4
"""Rows of a fit, without which nothing can be said on how neighbours depend on each other."""
INDEX = ("", "Unnamed: 0", "__index_level_0__", "index")
"""What a column is called that only numbers the rows, as pandas writes it."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a file: columns by name, and what to do with rows that have nothing in one of them."""

    target: str
    kind: ModelKind
    features: tuple[str, ...] | None = None
    formula: str | None = None
    categorical: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    missing: Missing = Missing.error
    also: tuple[str, ...] = ()
    """Columns that are no features though they are numbers: an offset, weights."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows ready to be fitted, in the order of their chains."""

    matrix: NDArray[Any]
    targets: NDArray[Any]
    recipe: Recipe | FormulaRecipe
    chains: ChainedRows
    time: str | None
    also: dict[str, NDArray[Any]]
    left_out: dict[str, str]
    """Columns that are not used, and why."""
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The number of the chain that each row is in."""
        return np.cumsum(self.chains.starts) - 1

    def sentences(self) -> list[str]:
        """What a person should know about the rows."""
        found = list(self.chains.sentences)
        if self.dropped:
            total = sum(self.dropped.values())
            found.append(f"Dropped {total} rows: {dropped_in_words(self.dropped)}. A chain ends at each.")
        return found


def prepare(file: DataFile, wanted: Wanted) -> Prepared:
    """Read the columns, see what they hold, turn them into numbers, and drop or refuse rows that cannot be used."""
    for name in filter(None, (wanted.target, wanted.time, wanted.group, *wanted.categorical, *wanted.also)):
        if name not in file.names and name not in file.features:
            file.refuse(name)
    for what, other in (("time", wanted.time), ("group", wanted.group)):
        if other == wanted.target:
            raise InputError(f"the target {other!r} cannot be the {what} too")
    if wanted.formula is not None:
        return _from_formula(file, wanted)
    aside = set(filter(None, (wanted.target, file.column_of(wanted.target), wanted.time, wanted.group, *wanted.also)))
    asked = wanted.features
    names = [name for name in file.names if name not in aside] if asked is None else list(asked)
    table = file.table(dict.fromkeys([*map(file.column_of, names), *map(file.column_of, aside)]))
    looks = {name: _look(table, file, name, wanted.categorical) for name in names}
    time = wanted.time
    left_out: dict[str, str] = {}
    if asked is None:
        time, looks, left_out = told_apart(
            time, looks, lambda look: not_used(file, table, look) or same_in_all(table, look)
        )
    if not looks:
        unused = f": {', '.join(f'{name!r} {why}' for name, why in left_out.items())}" if left_out else ""
        besides = "" if time is None else f" besides the time {time!r}"
        raise InputError(f"{file.path} has no column to predict {wanted.target!r} from{besides}{unused}")
    recipe = _recipe(file, looks)
    return _finished(file, table, recipe, wanted, (time, left_out))


def told_apart(
    time: str | None, looks: dict[str, Look], why_not: Callable[[Look], str]
) -> tuple[str | None, dict[str, Look], dict[str, str]]:
    """Of columns that nobody asked for: the time (the one of dates, if none is given), those to use, and the others."""
    dates = [name for name, look in looks.items() if look.kind is Kind.date]
    if time is None and len(dates) == 1:
        time = dates[0]
    left_out = {name: why for name, look in looks.items() if name != time and (why := why_not(look))}
    return time, {name: look for name, look in looks.items() if name != time and name not in left_out}, left_out


def _from_formula(file: DataFile, wanted: Wanted) -> Prepared:
    table = file.table(file.names)
    assert wanted.formula is not None
    recipe = FormulaRecipe.of(wanted.formula, table, wanted.categorical)
    if not recipe.intercept:
        raise InputError(f"the formula {wanted.formula!r} leaves the intercept out, which is not taken here; "
                         "MERRegressor.from_formula does")  # fmt: skip
    used = {recipe.target, wanted.time, wanted.group, *recipe.columns}
    others = look_at(table.select([name for name in table.column_names if name not in used]))
    dates = [name for name, look in others.items() if look.kind is Kind.date]
    time = wanted.time or (dates[0] if len(dates) == 1 else None)
    return _finished(file, table, recipe, wanted, (time, {}))


def _look(table: Any, file: DataFile, name: str, categorical: tuple[str, ...]) -> Look:
    column = file.column_of(name)
    return look_at(table.select([column]), categorical)[column]


def not_used(file: DataFile, table: Any, look: Look) -> str:
    """Why a column that was not asked for is left out; text among numbers is an error instead."""
    if look.kind is Kind.mixed:
        raise InputError(
            f"{file.path}: column {look.name!r} {look.about}. Say what that is: --na TEXT for nothing there, "
            f"--categorical {look.name} for categories, --features without it, or remove such rows"
        )
    if look.kind not in (Kind.number, Kind.category):
        return look.about
    if look.kind is Kind.category and len(look.levels) == 1:
        return f"is {look.levels[0]!r} in all rows"
    column = table.column(look.name)
    first = look.name == table.field(0).name or look.name == INDEX[2]
    if look.name in INDEX and first and pa.types.is_integer(column.type) and not column.null_count:
        values = column.to_numpy()
        if len(values) and (np.diff(values) == 1).all() and values[0] in (0, 1):
            return "numbers the rows"
    return ""


def same_in_all(table: Any, look: Look) -> str:
    """A word on a column of numbers that are all the same, from which nothing can be predicted."""
    column = table.column(look.name)
    if look.kind is not Kind.number or pa.types.is_nested(column.type) or look.missing:
        return ""
    values = as_numbers(column, look.name)
    return f"is {values[0]:g} in all rows" if len(values) > 1 and values.min() == values.max() else ""


def _recipe(file: DataFile, looks: dict[str, Look]) -> Recipe:
    """One term a column, or one a number of a list where only that is asked for."""
    from multireplay.tables.recipe import Term

    terms = []
    for name, look in looks.items():
        column, place = file.features.get(name, (name, None))
        if look.kind is Kind.mixed:
            raise InputError(f"{file.path}: column {look.name!r} {look.about}. Say what that is: --na TEXT for nothing "
                             f"there, or --categorical {look.name} for categories")  # fmt: skip
        if look.kind is Kind.category and len(look.levels) == 1:
            raise InputError(f"{file.path}: column {name!r} is {look.levels[0]!r} in all rows, so that nothing can be "
                             "predicted from it; leave it out of --features")  # fmt: skip
        if place is not None:
            terms.append(Term(column, place))
        else:
            terms += Recipe.of({name: look}, file.widths).terms
    return Recipe(tuple(terms))


def _finished(
    file: DataFile, table: Any, recipe: Recipe | FormulaRecipe, wanted: Wanted, found: tuple[str | None, dict[str, str]]
) -> Prepared:
    time, left_out = found
    design = recipe.design(table)
    targets = _targets(file, table, wanted, design)
    also = {name: as_numbers(table.column(name), name) for name in wanted.also}
    for name, values in also.items():
        design.leave_out(~np.isfinite(values) & design.usable, f"nothing in {name!r}")
    if design.reasons and wanted.missing is Missing.error:
        row = int(np.argmin(design.usable))
        raise InputError(
            f"{file.path}: {(~design.usable).sum()} of {len(design.usable)} rows cannot be used, the first at "
            f"{file.source.at(row)} (counting from 0): {dropped_in_words(design.reasons)}. "
            "Leave them out with --missing drop, or mend the file"
        )
    times = None if time is None else times_of(file, table, time)
    groups = None if wanted.group is None else labels_of(file, table, wanted.group)
    chains = chained(design.usable, groups, times, file.source.at)
    if len(chains.rows) < 2:
        raise too_few(file, len(chains.rows), design.reasons)
    matrix, target = _taken(design.matrix, chains), _taken(targets, chains)
    doubts = check_target(file, wanted, target, chains.rows)
    doubts += twins(wanted.target, target, dict(zip(recipe.names, matrix.T, strict=True)))
    doubts += alike(recipe)
    return Prepared(
        matrix, target, recipe, replace(chains, sentences=(*chains.sentences, *doubts)), time,
        {name: _taken(values, chains) for name, values in also.items()}, left_out, design.reasons,
    )  # fmt: skip


def too_few(file: DataFile, count: int, reasons: Counter[str]) -> InputError:
    """Why there is no fit to so few rows."""
    why = f" ({dropped_in_words(reasons)})" if reasons else ""
    return InputError(f"{file.path} has {count} rows that can be used{why}, and a fit needs {FEWEST}")


def _taken(values: NDArray[Any], chains: ChainedRows) -> NDArray[Any]:
    """The rows of the chains; without a copy where these are all rows as they are."""
    same = len(chains.rows) == len(values) and bool((chains.rows == np.arange(len(values))).all())
    return values if same else values[chains.rows]


def times_of(file: DataFile, table: Any, name: str) -> Times:
    try:
        return as_times(table.column(name), name)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from None


def labels_of(file: DataFile, table: Any, name: str) -> NDArray[Any]:
    """The group of every row."""
    try:
        return as_labels(table.column(name), name)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from None


def _targets(file: DataFile, table: Any, wanted: Wanted, design: Design) -> NDArray[Any]:
    """The target of every row; rows without one cannot be used."""
    name = wanted.target
    column, place = file.features.get(name, (name, None))
    if wanted.kind is ModelKind.logistic:
        if look_at(table.select([column]))[column].kind is Kind.nothing:
            raise InputError(f"{file.path}: the target {name!r} is empty in all rows")
        values, empty = as_classes(table.column(column), name)
    elif place is not None:
        values, empty = as_lists(table.column(column), column)
        values = values[:, place]
    elif column in file.widths:
        raise InputError(f"{file.path}: the target {name!r} has several numbers a row; name one, as {name}[0]")
    else:
        look = look_at(table.select([column]))[column]
        if look.kind is not Kind.number:
            hint = "; classes are for --model logistic" if look.kind is Kind.category else ""
            raise InputError(f"{file.path}: the target {name!r} {look.about or 'holds text'}{hint}")
        values = as_numbers(table.column(column), name)
        empty = np.isnan(values)
        design.leave_out(np.isinf(values) & design.usable, f"infinity in {name!r}")
        design.leave_out((np.abs(values) > LARGEST) & design.usable, f"a number beyond {LARGEST:g} in {name!r}")
    design.leave_out(empty & design.usable, f"nothing in {name!r}")
    return values
