"""What a fit needs, made from a file as people have them: features, targets, chains of rows, and a word on the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay.cli.data_file import DataFile
from multireplay.cli.designed import Response
from multireplay.cli.options import Missing, ModelKind
from multireplay.cli.targets import TargetFacts, alike, check_target, twins
from multireplay.errors import InputError
from multireplay.tables import ChainedRows, Design, Kind, Look, Recipe, Times, as_times, chained, look_at
from multireplay.tables.cells import as_labels
from multireplay.tables.formula import FormulaRecipe
from multireplay.tables.recipe import dropped_in_words

Tell = Callable[[list[str], tuple[str, ...]], dict[str, Look]]
"""What some columns hold, by name, given those that are categories whatever they hold."""
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
        return [*self.chains.sentences, *on_dropped(self.dropped)]


def on_dropped(reasons: Counter[str]) -> list[str]:
    """A word on rows that are left out, if there are any."""
    said = f"Dropped {reasons.total()} rows: {dropped_in_words(reasons)}. A chain ends at each."
    return [said] if reasons else []


class Plan(NamedTuple):
    """What is made of the columns of a file: features, the target, what says when rows were, and what is not used."""

    recipe: Any
    response: Response
    time: str | None
    left_out: dict[str, str]


def needed(file: DataFile, wanted: Wanted) -> list[str]:
    """The columns that may be used; names that are none raise."""
    for name in filter(None, (wanted.target, wanted.time, wanted.group, *wanted.categorical, *wanted.also)):
        if name not in file.names and name not in file.features:
            file.refuse(name)
    for what, other in (("time", wanted.time), ("group", wanted.group)):
        if other == wanted.target:
            raise InputError(f"the target {other!r} cannot be the {what} too")
    if wanted.formula is not None or wanted.features is None:
        return list(file.names)
    aside = filter(None, (wanted.target, wanted.time, wanted.group, *wanted.also))
    return [*dict.fromkeys([*map(file.column_of, (*wanted.features, *aside)), *([] if wanted.time else file.datable)])]


def planned(file: DataFile, wanted: Wanted, look: Tell, row: Any) -> Plan:
    """What is made of the columns, by what they hold as `look` tells it; `row` is the first row of all of them."""
    if wanted.formula is not None:
        recipe: Any = FormulaRecipe.seen(wanted.formula, row, look, wanted.categorical)
        if not recipe.intercept:
            raise InputError(f"the formula {wanted.formula!r} leaves the intercept out, which is not taken here; "
                             "MERRegressor.from_formula does")  # fmt: skip
        used = {recipe.target, wanted.time, wanted.group, *recipe.columns}
        looks = look([name for name in file.names if name == wanted.target or name not in used], ())
        time = the_time(wanted.time, {name: one for name, one in looks.items() if name != wanted.target})
        return Plan(recipe, _response(file, wanted, looks[file.column_of(wanted.target)]), time, {})
    aside = set(filter(None, (wanted.target, file.column_of(wanted.target), wanted.time, wanted.group, *wanted.also)))
    asked, target = wanted.features, file.column_of(wanted.target)
    names = [name for name in file.names if name not in aside] if asked is None else list(asked)
    read = dict.fromkeys([target, *map(file.column_of, names)])
    dates = [] if asked is None or wanted.time else [name for name in file.datable if name not in {*read, *aside}]
    found = look([*read, *dates], wanted.categorical)
    looks, time = {name: found[file.column_of(name)] for name in names}, wanted.time
    left_out: dict[str, str] = {}
    if asked is not None:
        time = the_time(time, {name: found[name] for name in dates})
    else:
        first = next(iter(looks), "")
        time, looks, left_out = told_apart(time, looks, lambda one: not_used(file, one, first) or same_in_all(one))
    if not looks:
        unused = f": {', '.join(f'{name!r} {why}' for name, why in left_out.items())}" if left_out else ""
        besides = "" if time is None else f" besides the time {time!r}"
        raise InputError(f"{file.path} has no column to predict {wanted.target!r} from{besides}{unused}")
    return Plan(_recipe(file, looks), _response(file, wanted, found[target]), time, left_out)


def _response(file: DataFile, wanted: Wanted, look: Look) -> Response:
    """How the target is read, or why it cannot be."""
    name, kind = wanted.target, wanted.kind
    column, place = file.features.get(name, (name, None))
    exposure = wanted.also[0] if wanted.also else None
    if kind is ModelKind.logistic:
        if look.kind is Kind.nothing:
            raise InputError(f"{file.path}: the target {name!r} is empty in all rows")
        return Response(name, kind, column, worded=look.worded and look.missing > 0)
    if place is None and column in file.widths:
        raise InputError(f"{file.path}: the target {name!r} has several numbers a row; name one, as {name}[0]")
    if place is None and look.kind is not Kind.number:
        hint = "; classes are for --model logistic" if look.kind is Kind.category else ""
        raise InputError(f"{file.path}: the target {name!r} {look.about or 'holds text'}{hint}")
    return Response(name, kind, column, place, exposure=exposure)


def prepare(file: DataFile, wanted: Wanted) -> Prepared:
    """Read the columns, see what they hold, turn them into numbers, and drop or refuse rows that cannot be used."""
    table = file.table(needed(file, wanted))
    plan = planned(file, wanted, lambda names, few: look_at(table.select(names), few), table.slice(0, 1))
    design = plan.recipe.design(table)
    targets = plan.response.read(table, design)
    also = {name: plan.response.spans(table, design) for name in wanted.also}
    chains = in_chains(file, table, design, (wanted.group, plan.time), wanted.missing)
    if len(chains.rows) < 2:
        raise too_few(file, len(chains.rows), design.reasons)
    matrix, target = _taken(design.matrix, chains), _taken(targets, chains)
    doubts = check_target(file, wanted, TargetFacts.of(wanted.kind, target, chains.rows))
    doubts += twins(wanted.target, target, dict(zip(plan.recipe.names, matrix.T, strict=True)))
    doubts += alike(plan.recipe)
    return Prepared(
        matrix, target, plan.recipe, replace(chains, sentences=(*chains.sentences, *doubts)), plan.time,
        {name: _taken(values, chains) for name, values in also.items()}, plan.left_out, design.reasons,
    )  # fmt: skip


def in_chains(
    file: DataFile, table: Any, design: Design, by: tuple[str | None, str | None], missing: Missing
) -> ChainedRows:
    """The rows that can be used in chains by group and time, if these are given; an error if all have to be."""
    if design.reasons and missing is Missing.error:
        raise not_usable(file, int((~design.usable).sum()), int(np.argmin(design.usable)), design.reasons)
    group, time = by
    times = None if time is None else times_of(file, table, time)
    try:
        labels = None if group is None else as_labels(table.column(group), group)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from None
    return chained(design.usable, labels, times, file.source.at)


def not_usable(file: DataFile, count: int, first: int, reasons: Counter[str]) -> InputError:
    """Why rows cannot be used, and what to do."""
    return InputError(
        f"{file.path}: {count} of {file.source.rows} rows cannot be used, the first at "
        f"{file.source.at(first)} (counting from 0): {dropped_in_words(reasons)}. "
        "Leave them out with --missing drop, or mend the file"
    )


def the_time(time: str | None, looks: dict[str, Look]) -> str | None:
    """What says when rows were: the one column of dates, if none is given."""
    dates = [name for name, look in looks.items() if look.kind is Kind.date]
    return dates[0] if time is None and len(dates) == 1 else time


def told_apart(
    time: str | None, looks: dict[str, Look], why_not: Callable[[Look], str]
) -> tuple[str | None, dict[str, Look], dict[str, str]]:
    """Of columns that nobody asked for: the time (the one of dates, if none is given), those to use, and the others."""
    time = the_time(time, looks)
    left_out = {name: why for name, look in looks.items() if name != time and (why := why_not(look))}
    return time, {name: look for name, look in looks.items() if name != time and name not in left_out}, left_out


def not_used(file: DataFile, look: Look, first: str) -> str:
    """Why a column that was not asked for is left out, of which one is first; text among numbers is an error."""
    if look.kind is Kind.mixed:
        raise InputError(
            f"{file.path}: column {look.name!r} {look.about}. Say what that is: --na TEXT for nothing there, "
            f"--categorical {look.name} for categories, --features without it, or remove such rows"
        )
    if look.kind not in (Kind.number, Kind.category):
        return look.about
    if look.kind is Kind.category and len(look.levels) == 1:
        return f"is {look.levels[0]!r} in all rows"
    at_first = look.name in (first, INDEX[2])
    return "numbers the rows" if look.name in INDEX and at_first and look.counts else ""


def same_in_all(look: Look) -> str:
    """A word on a column of numbers that are all the same, from which nothing can be predicted."""
    return "" if look.same is None else f"is {look.same:g} in all rows"


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
