"""How a row of texts, numbers and marks becomes numbers, for `multireplay watch`: fixed when a stream begins."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from multireplay.errors import InputError
from multireplay.streaming.given import moment
from multireplay.streaming.store.checked import load, save
from multireplay.tables import Kind, Look, Recipe, Term, look_at
from multireplay.tables.looks import CODE
from multireplay.tables.recipe import LARGEST

FILE = "watch.json"
SOME, FIRST = 10, 100
"""More targets of a wrong kind, and more than a quarter of so many, are no matter of single rows."""
FEW = 12
"""Groups that are named."""
TRUTH = {"true": True, "false": False}


class Nothing(InputError):
    """A cell that is needed is empty."""


class WrongKind(InputError):
    """The target is a number that the model is not for."""


@dataclass(frozen=True)
class Watched:
    """What is asked for: columns by name (all but target, time and group are features by default), and levels."""

    target: str
    model: str
    features: tuple[str, ...] | None = None
    time: str | None = None
    group: str | None = None
    categorical: tuple[str, ...] = ()
    """Columns that are categories though they hold numbers."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Declared levels; those of other categories are learnt from so many rows."""
    learn: int = 1000

    def __post_init__(self) -> None:
        if self.target in (self.features or ()):
            raise InputError(f"the target {self.target!r} is among the features")

    def named(self) -> Iterator[str]:
        """All columns that are named."""
        yield from filter(None, (self.target, self.time, self.group))
        yield from (*(self.features or ()), *self.categorical, *self.levels)

    def chosen(self, names: Sequence[str]) -> list[str]:
        """The features among these columns."""
        return list(self.features or [name for name in names if name not in (self.target, self.time, self.group)])

    def told_by(self, row: Mapping[str, Any]) -> bool:
        """Whether one row tells what the columns hold: numbers, all of them, where levels are not declared."""
        read = [*self.chosen(list(row)), *[self.target] * (self.model == "logistic")]
        numbers = all(isinstance(value_of(row.get(name)), int | float) for name in read if name not in self.levels)
        return numbers and set(self.categorical) <= set(self.levels)


@dataclass
class RowReading:
    """What is read of a row: the target, the features, the time and the group. It is kept in the store."""

    target: str
    recipe: Recipe
    classes: tuple[str, ...] = ()
    """The two labels of the target, if it has labels: that of 0, and that of 1."""
    time: str | None = None
    group: str | None = None
    groups: list[str] = field(default_factory=list)
    """The groups so far, whose place here is their number."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Columns that are not used, and why."""
    first: int | None = None
    """The checksum of the first row's line."""
    model: str = "linear"

    def __post_init__(self) -> None:
        self._kept: Any = None
        self._read = self._wrong = 0
        self._numbers = {name: number for number, name in enumerate(self.groups)}

    @classmethod
    def of(cls, wanted: Watched, rows: Sequence[Mapping[str, Any]]) -> RowReading:
        """From the first rows; an error says what cannot be used, or what is to be declared."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        for name in wanted.named():
            if name not in names:
                raise InputError(f"no row has a column {name!r}; they have {', '.join(names)}")
        cells = {name: [value_of(row.get(name)) for row in rows] for name in [*wanted.chosen(names), wanted.target]}
        looks = look_at(pa.table({name: _column(found) for name, found in cells.items()}), wanted.categorical)
        terms, left_out = [], {}
        for name in wanted.chosen(names):
            numbers = any(isinstance(cell, int | float) for cell in cells[name])
            found = _term(looks[name], wanted.levels.get(name, ()), numbers)
            if isinstance(found, Term):
                terms.append(found)
            elif wanted.features is not None:
                raise InputError(f"column {name!r} {found}")
            else:
                left_out[name] = found
        if not terms:
            why = "".join(f"; {name!r} {found}" for name, found in left_out.items())
            raise InputError(f"there is no column to predict {wanted.target!r} from{why}")
        classes = _classes(wanted, cells[wanted.target]) if wanted.model == "logistic" else ()
        reading = cls(wanted.target, Recipe(tuple(terms)), classes, wanted.time, wanted.group, left_out=left_out)
        reading.model = wanted.model
        given = enumerate([] if classes else cells[wanted.target])
        wrong = [(at, why) for at, cell in given if isinstance(cell, int | float) and (why := reading._misfit(cell))]
        if 2 * len(wrong) > len(rows):
            raise InputError("row {} (counting from 0): {}".format(*wrong[0]))
        return reading

    @classmethod
    def load(cls, folder: Path) -> RowReading | None:
        """What a store was made with; None where it was not made by `watch`."""
        if not (folder / FILE).exists():
            return None
        found = load(folder / FILE)
        found |= {"recipe": Recipe.from_dict(found["recipe"]), "classes": tuple(found["classes"])}
        return cls(**found)

    def keep(self, folder: Path) -> None:
        """Write it to the store, if it is not there as it is now."""
        now = len(self.groups), self.first
        if self._kept != now:
            save(folder / FILE, {**asdict(self), "recipe": self.recipe.to_dict()})
            self._kept = now

    def beside(self, wanted: Watched) -> dict[str, tuple[Any, Any]]:
        """What is so here, and what is asked for, by what it is."""
        pairs = {f"the {what}": (getattr(self, what), getattr(wanted, what)) for what in ("target", "time", "group")}
        pairs["the features"] = self.recipe.columns, wanted.features or self.recipe.columns
        levels = {term.column: term.levels for term in self.recipe.terms if term.levels} | {self.target: self.classes}
        return pairs | {f"the levels of {name!r}": (levels.get(name), found) for name, found in wanted.levels.items()}

    def sentences(self) -> Iterator[str]:
        """What the levels are that rows may have."""
        for term in self.recipe.terms:
            if term.levels:
                yield f"{term.column!r} is one of {', '.join(term.levels)}, compared with {term.levels[0]}."
        if self.classes:
            yield f"{self.target!r} is 0 for {self.classes[0]}, 1 for {self.classes[1]}."
        if self.groups:
            named = ", ".join(self.groups[:FEW]) + " …" * (len(self.groups) > FEW)
            yield f"{len(self.groups)} groups by {self.group!r}: {named}."
        yield from (f"{name!r} is not used: it {why}." for name, why in self.left_out.items())

    def read(self, row: Any) -> dict[str, Any] | InputError:
        """A row as numbers, or an error that names the column."""
        try:
            if isinstance(row, InputError):
                return row
            features = [number for term in self.recipe.terms for number in _numbers(row, term)]
            found = {"features": [*features, 1.0], "targets": self._target(row)}
            found |= {} if self.time is None else {"time": _moment(row, self.time)}
            return found | ({} if self.group is None else {"group": self._group(row)})
        except InputError as error:
            return error

    def _target(self, row: Mapping[str, Any]) -> float:
        if self.classes:
            return float(_level(row, self.target, self.classes))
        value, self._read = _number(row, self.target), self._read + 1
        if why := self._misfit(value):
            self._wrong += self._read <= FIRST
            raise WrongKind(why)
        return value

    def _misfit(self, value: float) -> str:
        """Why the model is not for a target, if it is not."""
        about = f"the target {self.target!r} is {value:g}"
        if self.model == "logistic" and value not in (0, 1):
            two = f"0 or 1, or one of two with --levels {self.target}=..."
            return f"{about}, which is no class: {two}; numbers are for --model linear"
        return f"{about}; counts are at least 0" if self.model == "poisson" and value < 0 else ""

    @property
    def is_doubtful(self) -> bool:
        """Whether the model is not for many of the first targets."""
        return self._wrong > max(SOME, min(self._read, FIRST) / 4)

    def _group(self, row: Mapping[str, Any]) -> int:
        name = _text(_something(row, self.group or ""))
        if name not in self._numbers:
            self._numbers[name] = len(self.groups)
            self.groups.append(name)
        return self._numbers[name]


def _term(look: Look, levels: tuple[str, ...], numbers: bool) -> Term | str:
    """How a column is read, or why it cannot be; text in a few cells of a column of numbers is a matter of those."""
    if not levels and (look.kind is Kind.number or (look.kind is Kind.mixed and numbers)):
        return Term(look.name)
    levels = levels or look.levels
    if len(levels) > 1:
        return Term(look.name, levels=levels)
    if levels:
        return f"is {levels[0]!r} in all rows so far: declare what it may be, with --levels {look.name}=..."
    return look.about


def _classes(wanted: Watched, cells: Sequence[Any]) -> tuple[str, ...]:
    """The labels of a target: none where it has numbers, or marks."""
    found = wanted.levels.get(wanted.target) or tuple(sorted({_text(cell) for cell in cells if cell is not None}))
    if wanted.target not in wanted.levels and not any(isinstance(cell, str) for cell in cells):
        return ()
    if len(found) != 2:
        said = f"the target {wanted.target!r} has {len(found)} different labels ({', '.join(found[:5])})"
        raise InputError(f"{said}, and needs two: declare them with --levels {wanted.target}=...")
    return found


def value_of(cell: Any) -> Any:
    """A cell as it is meant: nothing, a number, a mark, or a text (also 007, which is a name)."""
    if isinstance(cell, str):
        cell = cell.strip()
        if cell.lower() in TRUTH:
            return TRUTH[cell.lower()]
        if not re.match(CODE, cell) and "_" not in cell:
            with suppress(ValueError):
                cell = int(cell) if cell.lstrip("+-").isdigit() else float(cell)
    return None if cell == "" or cell != cell else cell


def _text(value: Any) -> str:
    """A value as the name of a level: 1.0 and 1 are one."""
    return (
        f"{value}".lower() if isinstance(value, bool) else f"{value:.12g}" if isinstance(value, float) else f"{value}"
    )


def _column(cells: Sequence[Any]) -> Any:
    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds <= {bool} and not kinds <= {int, float}:
        return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
    with suppress(OverflowError):
        return pa.array(cells, pa.bool_() if kinds <= {bool} else pa.int64() if kinds == {int} else pa.float64())
    return pa.array([None if cell is None else float(cell) for cell in cells])


def _something(row: Mapping[str, Any], name: str) -> Any:
    value = value_of(row.get(name))
    if value is None:
        raise Nothing(f"{name!r} is not there")
    return value


def _numbers(row: Mapping[str, Any], term: Term) -> list[float]:
    if not term.levels:
        return [_number(row, term.column)]
    at = _level(row, term.column, term.levels)
    return [float(place == at) for place in range(1, len(term.levels))]


def _level(row: Mapping[str, Any], name: str, levels: tuple[str, ...]) -> int:
    level = _text(_something(row, name))
    if level not in levels:
        raise InputError(f"{name!r} is {level!r}, which is none of {', '.join(levels)}")
    return levels.index(level)


def _number(row: Mapping[str, Any], name: str) -> float:
    value = _something(row, name)
    if not isinstance(value, int | float):
        raise InputError(f"{name!r} is {value!r}, which is no number")
    if not abs(value) <= LARGEST:
        raise InputError(f"{name!r} is {reprlib.repr(value)}, which is beyond {LARGEST:g}")
    return float(value)


def _moment(row: Mapping[str, Any], name: str) -> float:
    value = _something(row, name)
    return moment(value, repr(name)) if isinstance(value, str) else _number(row, name)
