"""What is diagnosed: columns of numbers, the chains that their rows are in, and a word on what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multireplay._check import one_a_row
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.names import refuse_twice
from multireplay.diagnose.chains import Lengths
from multireplay.errors import InputError


class ChainedColumns(NamedTuple):
    """Columns by name, the order in which their rows are taken (None: as they are), and the chains in that order."""

    columns: dict[str, Any]
    rows: NDArray[np.int64] | None = None
    lengths: Lengths = ()
    about: tuple[str, ...] = ()
    """What a person should know of the rows and of columns that are left out."""
    places: NDArray[np.int64] | None = None
    """How many steps after the beginning of its group a row is, if that is known: gaps count."""


def as_record(source: Any, groups: Any = None, time: Any = None) -> ChainedColumns:
    """The columns of a buffer, a mapping, a data frame or an array; groups and times by name or one a row."""
    if isinstance(source, ChainedColumns):
        return source
    if _is_frame(source):
        refuse_twice(source)
        return _of_frame(source, groups, time)
    columns = named_columns(source)
    when = time if isinstance(time, str) else "time"
    groups, time = (_taken(columns, what) for what in (groups, time))
    if groups is None and time is None:
        chains = source.chains if isinstance(source, Buffer) else None
        if chains is None or chains.count == 1:
            return ChainedColumns(columns)
        return ChainedColumns(columns, None, chains.lengths, chains.sentences)
    return _chained(columns, groups, None if time is None else _times(when, time), ())


def named_columns(source: Buffer | Mapping[str, ArrayLike] | ArrayLike) -> dict[str, Any]:
    """The columns of a buffer or of a mapping by name; a bare array becomes one column, ``series``."""
    columns = source if isinstance(source, Mapping) else getattr(source, "columns", None)
    if not hasattr(columns, "items"):  # a bare array, or a table whose ``columns`` are only labels
        return {"series": cast(ArrayLike, source)}
    return {str(name): values for name, values in cast(Mapping[str, ArrayLike], columns).items()}


def _is_frame(source: Any) -> bool:
    """Whether this is a data frame of pandas or polars, or an Arrow table."""
    return hasattr(source, "iloc") or hasattr(source, "to_arrow") or hasattr(source, "combine_chunks")


def _of_frame(frame: Any, groups: Any, time: Any) -> ChainedColumns:
    """Its numbers; texts are left out, and its one column (or index) of dates is the time."""
    from multireplay.estimators.usable import as_table
    from multireplay.tables import Kind, as_times, look_at
    from multireplay.tables.cells import as_labels

    table = as_table(frame)
    for name in (groups, time):
        if isinstance(name, str) and name not in table.column_names:
            raise InputError(f"there is no column {name!r}; there are {', '.join(table.column_names)}")
    aside = [name for name in (groups, time) if isinstance(name, str)]
    looks = look_at(table.select([name for name in table.column_names if name not in aside]))
    for look in looks.values():
        if look.kind is Kind.mixed:
            raise look.refuse()
    index: Any = getattr(frame, "index", None)
    if time is None and getattr(getattr(index, "dtype", None), "kind", "") == "M":
        time = (index.name or "index"), index.to_numpy()
    dates = [name for name, look in looks.items() if look.kind is Kind.date]
    if time is None and len(dates) == 1:
        time, looks = dates[0], {name: look for name, look in looks.items() if name != dates[0]}
    kept = [name for name, look in looks.items() if look.kind is Kind.number]
    if not kept:
        raise InputError(f"there is no column of numbers to diagnose among {', '.join(table.column_names)}")
    left = [name for name in looks if name not in kept]
    about = (f"Left out, because they are not numbers: {', '.join(left)}.",) if left else ()
    whole = len(kept) == len(table.column_names)
    columns = {"series": frame if whole else frame[kept] if hasattr(frame, "iloc") else frame.select(kept)}
    if groups is None and time is None:
        return ChainedColumns(columns, about=about)
    labels = as_labels(table.column(groups), groups) if isinstance(groups, str) else groups
    if isinstance(time, str):
        return _chained(columns, labels, as_times(table.column(time), time), about)
    named = time if isinstance(time, tuple) else ("time", time)
    return _chained(columns, labels, None if time is None else _times(*named), about)


def _taken(columns: dict[str, Any], what: Any) -> Any:
    """A column of labels or times by its name, which then is no series, or the values given."""
    if not isinstance(what, str):
        return what
    if what not in columns:
        raise InputError(f"there is no column {what!r}; there are {', '.join(columns)}")
    return columns.pop(what)


def _times(name: str, values: Any) -> Any:
    import pyarrow as pa

    from multireplay.tables import as_times

    try:
        return as_times(pa.array(np.asarray(values)), name)
    except pa.ArrowException as error:
        raise InputError(f"{name!r} cannot be read as times: {error}") from None


def _chained(columns: dict[str, Any], groups: Any, times: Any, about: tuple[str, ...]) -> ChainedColumns:
    from multireplay.tables import chained

    if not columns:
        raise InputError("There are no columns to diagnose.")
    shape = np.shape(next(iter(columns.values())))
    count = shape[0] if shape else 0
    labels = None if groups is None else np.asarray(groups)
    for name, found in (("groups", labels), ("time", None if times is None else times.values)):
        if found is not None:
            one_a_row(name, found.shape, count, "the record")
    chains = chained(np.ones(count, dtype=bool), labels, times)
    straight = bool((chains.rows == np.arange(count)).all())
    said = (*chains.sentences, *about)
    return ChainedColumns(columns, None if straight else chains.rows, chains.lengths, said, chains.places)
