"""Layouts: which stored columns make up the columns that a problem reads (`columns=`), and how they are filled."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk.memory import pages
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.errors import InputError

BARE = "samples"
"""The name of the one array in a bare .npy file."""


@dataclass(frozen=True)
class Part:
    """One stored column, or some of its features."""

    name: str
    pick: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Layout:
    """Stored columns side by side; `flat` is a single number a row, as a one-dimensional column."""

    parts: tuple[Part, ...]
    flat: bool

    def field(self, source: Source) -> Field:
        fields = [source.field(part.name) for part in self.parts]
        dtype = np.result_type(*(field.dtype for field in fields))
        return Field(dtype, None if self.flat else sum(map(self.width_of, self.parts, fields)))

    @staticmethod
    def width_of(part: Part, field: Field) -> int:
        """How many features the part, out of a stored column with that field, takes up."""
        return len(part.pick) if part.pick is not None else (1 if field.width is None else field.width)


@dataclass(frozen=True)
class MappedColumn:
    """What the problem sees: a layout, `shift` rows further on."""

    layout: Layout
    shift: int = 0

    def identity(self) -> list[object]:
        """What tells the column from another one of the same source, in what JSON can say."""
        return [self.shift, self.layout.flat, [[part.name, part.pick] for part in self.layout.parts]]


def resolve(columns: Any, source: Source, time: Any = None) -> dict[str, MappedColumn]:
    """The columns that are asked for, or all stored ones but the time under their own names."""
    if columns is None:
        refused = {name: reason for name, reason in source.refused.items() if name != time}
        if refused:
            reason = next(iter(refused.values()))
            raise InputError(f"{reason}. Choose columns without it: columns={{'features': ..., 'targets': ...}}")
        columns = {name: name for name in source.fields if name != time}
    if not isinstance(columns, Mapping) or not columns:
        raise InputError(
            f"columns must be a dictionary such as {{'features': ['a', 'b'], 'targets': 'y'}}: {columns!r}"
        )
    for name in columns:
        if not isinstance(name, str):
            raise InputError(f"a column's name must be text, not {name!r}, in columns={columns!r}")
    found = {name: _column(name, wanted, source) for name, wanted in columns.items()}
    lowest = min(0, *(column.shift for column in found.values()))
    return {name: MappedColumn(column.layout, column.shift - lowest) for name, column in found.items()}


def resolve_time(time: Any, source: Source) -> Layout:
    """The column that says the order of the rows."""
    layout = _layout("time", time, source, {**source.fields, **source.times})
    if not layout.flat:
        raise InputError(f"time={time!r} in {source.label} has several numbers a row; it needs one")
    return layout


def _column(name: str, wanted: Any, source: Source) -> MappedColumn:
    shift = 0
    if isinstance(wanted, tuple):
        if len(wanted) != 2 or not _is_number(wanted[1]):
            raise InputError(
                f"column {name!r} is {wanted!r}: a pair means (what, shift by rows), as in ('psi', +1); "
                "several columns side by side are a list"
            )
        wanted, shift = wanted
    if abs(shift) >= source.rows:
        raise InputError(f"column {name!r} is shifted by {shift} rows, but {source.label} has {source.rows}")
    return MappedColumn(_layout(name, wanted, source, source.fields), int(shift))


def _layout(name: str, wanted: Any, source: Source, fields: Mapping[str, Field]) -> Layout:
    if isinstance(wanted, str):
        return Layout((Part(wanted),), _find(wanted, source, fields).width is None)
    if _is_number(wanted):
        return Layout((Part(BARE, _picked(name, [wanted], source)),), True)
    if isinstance(wanted, slice):
        return Layout((Part(BARE, _picked(name, wanted, source)),), False)
    if isinstance(wanted, list) and wanted and all(isinstance(part, str) for part in wanted):
        for part in wanted:
            _find(part, source, fields)
        return Layout(tuple(map(Part, wanted)), False)
    if isinstance(wanted, list) and wanted and all(map(_is_number, wanted)):
        return Layout((Part(BARE, _picked(name, wanted, source)),), False)
    raise InputError(
        f"column {name!r} is {wanted!r}; it needs the name of a stored column, a list of names, "
        "or, for one array in a .npy file, a number, a slice or a list of numbers"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _find(name: str, source: Source, fields: Mapping[str, Field]) -> Field:
    if name in fields:
        return fields[name]
    if name in source.refused:
        raise InputError(source.refused[name])
    close = difflib.get_close_matches(name, fields, n=3)
    there = [*close, *(other for other in fields if other not in close)]
    more = f" and {len(there) - 20} more" if len(there) > 20 else ""
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise InputError(f"no column {name!r} in {source.label}; {guess}It has {', '.join(there[:20])}{more}")


def _picked(name: str, wanted: Any, source: Source) -> tuple[int, ...]:
    if list(source.fields) != [BARE]:
        raise InputError(
            f"column {name!r} is {wanted!r}, but numbers pick features of the one array in a .npy file; "
            f"{source.label} has columns with names: {', '.join(list(source.fields)[:20])}"
        )
    width = source.fields[BARE].width
    if width is None:
        raise InputError(f"column {name!r} picks features, but the array in {source.label} is one-dimensional")
    try:
        found = tuple(range(width)[wanted]) if isinstance(wanted, slice) else tuple(range(width)[i] for i in wanted)
    except IndexError:
        there = f"the features 0 to {width - 1} of {source.label}"
        raise InputError(f"column {name!r} picks {wanted!r}, which is not among {there}") from None
    if not found:
        raise InputError(f"column {name!r} picks no features: {wanted!r} of the {width} in {source.label}")
    return found


@dataclass(frozen=True)
class _Use:
    layout: Layout
    start: int
    stop: int
    pick: tuple[int, ...] | None
    single: bool


class Assembly:
    """How the stored columns of a source fill some layouts."""

    def __init__(self, source: Source, layouts: Sequence[Layout]) -> None:
        self._source = source
        self.fields = {layout: layout.field(source) for layout in layouts}
        self._uses: dict[str, list[_Use]] = {}
        for layout in self.fields:
            start = 0
            for part in layout.parts:
                field = source.field(part.name)
                stop = start + Layout.width_of(part, field)
                use = _Use(layout, start, stop, part.pick, field.width is None)
                self._uses.setdefault(part.name, []).append(use)
                start = stop
        self.names = tuple(self._uses)
        self._copied = [name for name, uses in self._uses.items() if len(uses) > 1 or uses[0].pick is not None]
        self._scratch: dict[str, Array] = {}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the layouts."""
        return sum(field.row_bytes for field in self.fields.values())

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a row of the copies."""
        return sum(self._source.field(name).row_bytes for name in self._copied)

    def read(self, reader: Reader, filled: Mapping[Layout, Array]) -> None:
        """Fill the arrays, all of one length, with the reader's next rows."""
        count = len(next(iter(filled.values())))
        targets = {
            name: self._copy(name, count) if name in self._copied else _strip(filled, uses[0])
            for name, uses in self._uses.items()
        }
        reader.read(targets)
        self._spread({name: targets[name] for name in self._copied}, filled)

    def take(self, rows: Positions) -> dict[Layout, Array]:
        """These rows, which are ascending and distinct."""
        stored = self._source.take(self.names, rows)
        filled = {}
        for layout, field in self.fields.items():
            alone = layout.parts[0].name
            whole = len(layout.parts) == 1 and alone not in self._copied and field == self._source.field(alone)
            filled[layout] = stored.pop(alone) if whole else pages(field, len(rows))
        self._spread(stored, filled)
        return filled

    def _spread(self, stored: Mapping[str, Array], filled: Mapping[Layout, Array]) -> None:
        for name, values in stored.items():
            for use in self._uses[name]:
                strip = _strip(filled, use)
                if use.pick is None:
                    strip[...] = values
                elif strip.ndim == 1:
                    strip[...] = values[:, use.pick[0]]
                elif use.pick == tuple(range(use.pick[0], use.pick[-1] + 1)):
                    strip[...] = values[:, use.pick[0] : use.pick[-1] + 1]
                else:  # one feature after the other: a fancy index would make another copy
                    for place, feature in enumerate(use.pick):
                        strip[:, place] = values[:, feature]

    def _copy(self, name: str, count: int) -> Array:
        if name not in self._scratch or len(self._scratch[name]) < count:
            field = self._source.field(name)
            self._scratch[name] = np.empty(field.shape(count), field.dtype)
        return self._scratch[name][:count]

    def stored_place(self, layout: Layout, feature: int) -> str:
        """The stored column that a feature of the layout comes from."""
        for name, uses in self._uses.items():
            for use in uses:
                if use.layout == layout and use.start <= feature < use.stop:
                    return name
        raise IndexError(feature)


def _strip(filled: Mapping[Layout, Array], use: _Use) -> Array:
    """The part of the layout's array that a stored column fills, with as many dimensions as that column has."""
    array = filled[use.layout]
    if array.ndim == 1:
        return array
    return array[:, use.start] if use.single else array[:, use.start : use.stop]
