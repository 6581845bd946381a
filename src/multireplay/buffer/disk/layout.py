"""Layouts: which stored columns make up the columns that a problem reads (`columns=`), and how they are filled."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk.memory import pages
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.buffer.foreign import first_not_finite, first_true
from multireplay.buffer.names import Names, distinct, listed, place_in_words
from multireplay.errors import InputError

BARE = "samples"
"""The name of the one array in a bare .npy file."""
_CHECKED = 2**20


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

    def feature_names(self, source: Source) -> Names | None:
        """Names of the features: those that were saved, or of the stored columns side by side, if they can serve."""
        names: list[str] = []
        for part in self.parts:
            width = source.field(part.name).width
            if part.name in source.feature_names:
                names += source.feature_names[part.name]
            elif width is None:
                names.append(part.name)
            elif len(self.parts) > 1:
                names += [f"{part.name}[{place}]" for place in range(width)]
        return distinct(names)

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


def resolve(columns: Any, source: Source, aside: tuple[Any, ...] = ()) -> dict[str, MappedColumn]:
    """The columns that are asked for, or all stored ones but those aside (time, groups) under their own names."""
    if columns is None:
        for name, reason in source.refused.items():
            if name not in aside:
                raise InputError(f"{reason}. Choose columns without it: columns={{'features': ..., 'targets': ...}}")
        columns = {name: name for name in source.fields if name not in aside}
    if not isinstance(columns, Mapping) or not columns:
        example = "{'features': ['a', 'b'], 'targets': 'y'}"
        raise InputError(f"columns must be a dictionary such as {example}: {columns!r}")
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
    listed = wanted if isinstance(wanted, list) and wanted else [wanted]
    if all(isinstance(part, str) for part in listed):
        for part in listed:
            _find(part, source, fields)
        return Layout(tuple(map(Part, listed)), False)
    if isinstance(wanted, slice) or all(map(_is_number, listed)):
        picked = _picked(name, wanted if isinstance(wanted, slice) else listed, source)
        return Layout((Part(BARE, picked),), flat=_is_number(wanted))
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
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise InputError(f"no column {name!r} in {source.label}; {guess}It has {listed(there, 20)}")


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


class Assembly:
    """How the stored columns of a source fill some layouts: straight into place where possible, else by a copy.

    Every value is checked on the way.
    """

    def __init__(self, source: Source, layouts: Sequence[Layout]) -> None:
        self.source = source
        self.fields = {layout: layout.field(source) for layout in layouts}
        parts = [part for layout in self.fields for part in layout.parts]
        uses = Counter(part.name for part in parts)
        self.names = tuple(uses)
        self._copied = {part.name for part in parts if uses[part.name] > 1 or part.pick is not None}
        self._scratch: dict[str, Array] = {}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the layouts."""
        return sum(field.row_bytes for field in self.fields.values())

    @property
    def scratch_bytes(self) -> int:
        """Bytes of a row of the copies."""
        return self.source.row_bytes(self._copied)

    def read(self, reader: Reader, filled: Mapping[Layout, Array], first: int) -> None:
        """Fill the arrays, all of one length, with the reader's next rows, of which row `first` is the first."""
        self._fill(reader.read, filled)
        self._check(filled, first)

    def take(self, rows: Positions, verified: bool = True) -> dict[Layout, Array]:
        """These rows, which are ascending and distinct, out of what was found to be as it was saved."""
        if verified:
            self.source.verify(self.names, rows)
        filled = {layout: pages(field, len(rows)) for layout, field in self.fields.items()}
        self._fill(partial(self.source.take, rows=rows), filled)
        self._check(filled, rows)
        return filled

    def _fill(self, fetch: Callable[[Mapping[str, Array]], None], filled: Mapping[Layout, Array]) -> None:
        copies = {name: self._copy(name, len(next(iter(filled.values())))) for name in self._copied}
        strips = [both for layout, array in filled.items() for both in self._strips(layout, array)]
        fetch({part.name: strip for part, strip in strips} | copies)
        for part, strip in strips:
            if part.name not in copies:
                continue
            values = copies[part.name]
            if part.pick is None:
                strip[...] = values
            else:  # a fancy index would make another copy
                np.take(values, part.pick, axis=1, out=strip.reshape(len(values), -1), mode="clip")

    def _strips(self, layout: Layout, array: Array) -> Iterator[tuple[Part, Array]]:
        """The parts of a layout, each with the place it fills, of as many dimensions as its stored column."""
        start = 0
        for part in layout.parts:
            field = self.source.field(part.name)
            stop = start + Layout.width_of(part, field)
            if array.ndim == 1:
                yield part, array
            else:
                yield part, array[:, start] if field.width is None else array[:, start:stop]
            start = stop

    def _copy(self, name: str, count: int) -> Array:
        if name not in self._scratch or len(self._scratch[name]) < count:
            field = self.source.field(name)
            self._scratch[name] = pages(field, count)
        return self._scratch[name][:count]

    def _check(self, block: Mapping[Layout, Array], rows: int | Positions) -> None:
        """Raise if a value is not finite, or no boolean; `rows` is the number of the first row, or of every row."""
        for layout, array in block.items():
            step = max(1, _CHECKED // max(1, self.fields[layout].row_bytes))
            for start in range(0, len(array), step):
                place = _first_bad(array[start : start + step])
                if place is not None:
                    at, feature = start + place[0], place[1]
                    row = rows + at if isinstance(rows, int) else int(rows[at])
                    raise self._bad(layout, row, feature, array[at] if array.ndim == 1 else array[at, feature])

    def _bad(self, layout: Layout, row: int, feature: int, value: object) -> InputError:
        widths = [Layout.width_of(part, self.source.field(part.name)) for part in layout.parts]
        name = layout.parts[np.repeat(range(len(widths)), widths)[feature]].name
        file, inside = self.source.place(name, row)
        wide = not layout.flat and len(layout.parts) == 1
        where = place_in_words((inside, feature)[: 1 + wide], layout.feature_names(self.source))
        if isinstance(value, np.bool_):
            return InputError(f"{file} is corrupt: a byte at {where} is no boolean")
        return InputError(f"{file} holds {value} in column {name!r} at {where}; all values must be finite")


def _first_bad(block: Array) -> tuple[int, int] | None:
    """Row and feature of the first value that is not finite, or no boolean."""
    if block.dtype.kind == "b":
        return first_true(block.view(np.uint8) > 1)
    return None if block.dtype.kind in "iu" else first_not_finite(block)
