"""The `columns` argument: which stored columns make up the columns that a problem reads."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay.buffer.disk.source import Field, Source
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
class Column:
    """What the problem sees: a layout, `shift` rows further on."""

    layout: Layout
    shift: int = 0


def resolve(columns: Any, source: Source, time: Any = None) -> dict[str, Column]:
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
    return {name: Column(column.layout, column.shift - lowest) for name, column in found.items()}


def resolve_time(time: Any, source: Source) -> Layout:
    """The column that says the order of the rows."""
    layout = _layout("time", time, source, {**source.fields, **source.times})
    if not layout.flat:
        raise InputError(f"time={time!r} in {source.label} has several numbers a row; it needs one")
    return layout


def _column(name: str, wanted: Any, source: Source) -> Column:
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
    return Column(_layout(name, wanted, source, source.fields), int(shift))


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
