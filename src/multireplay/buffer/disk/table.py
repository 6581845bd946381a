"""Columns of Arrow tables as arrays: what is numbers, how wide a row is, and where something is missing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multireplay._check import Positions
from multireplay.buffer.columns import Array, kept_type
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.errors import InputError

BATCH_BYTES = 2**21
"""About how much of a table is decoded at a time."""


class Batch(NamedTuple):
    """Some rows of one file of a table; the first is number `first` of the file and `start` of the whole record."""

    label: str
    first: int
    start: int
    data: Any


class TableSource(Source):
    """Tables whose batches come in order."""

    in_tables = True

    @abstractmethod
    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        """Batches of at most `size` rows from the one that holds row `first` on."""

    def batches_of(self, names: Sequence[str], rows: Positions, size: int) -> Generator[Batch, None, None]:
        """Batches that hold these rows, ascending, and possibly others."""
        return self.batches(names, int(rows[0]), size)

    def sort_out(self, label: object, schema: Any) -> None:
        """Which columns are numbers, which are dates, and which are neither."""
        if len(set(schema.names)) < len(schema.names):
            twice = next(name for name in schema.names if schema.names.count(name) > 1)
            blank = "cells without a name in its first line: put the names there, and remove titles above them"
            raise InputError(f"{label} has {f'two columns called {twice!r}: rename one' if twice else blank}")
        fields = {column.name: field_of(column.type) for column in schema}
        self.fields = {name: field for name, field in fields.items() if field is not None}
        self.times = {column.name: Field(np.dtype(np.int64), None) for column in schema if is_date(column.type)}
        self.refused = {
            column.name: f"column {column.name!r} of {label} holds {column.type}, which is not real numbers"
            for column in schema
            if column.name not in self.fields
        }

    def reader(self, names: Sequence[str], first: int) -> Reader:
        def values(batch: Batch) -> dict[str, Array]:
            return {name: values_of(batch, name, self.field(name)) for name in names}

        batches = self.batches(names, first, self.batch_rows(names))
        return BatchReader(((batch.start, batch) for batch in batches), values, first)

    def take(self, targets: Mapping[str, Array], rows: Positions) -> None:
        names = tuple(targets)
        with closing(self.batches_of(names, rows, self.batch_rows(names))) as batches:
            for batch in batches:
                low, high = np.searchsorted(rows, (batch.start, batch.start + batch.data.num_rows))
                for name in names if high > low else ():
                    values = values_of(batch, name, self.field(name))
                    targets[name][low:high] = values[rows[low:high] - batch.start]
        give_back_memory()

    def batch_rows(self, names: Sequence[str]) -> int:
        return max(1, BATCH_BYTES // self.row_bytes(names))


class StackedSource(TableSource):
    """Several tables, one after the other: files, or partitions."""

    def sort_out(self, label: object, schema: Any) -> None:
        super().sort_out(label, schema)
        if not self.fields:
            raise InputError(f"{self.label} has no columns of numbers; it has {', '.join(schema.names) or 'none'}")

    def stack(self, lengths: Sequence[int]) -> None:
        """Take tables of these lengths together."""
        self.starts = np.cumsum([0, *lengths])
        self.rows = int(self.starts[-1])
        if self.rows == 0:
            raise InputError(f"{self.label} is empty: it has no rows")

    @abstractmethod
    def name_of(self, index: int) -> str:
        """What one of the tables is called."""

    def index_of(self, row: int) -> int:
        """The table that a row is in."""
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    def holding(self, rows: Positions) -> list[int]:
        """The tables that these rows, ascending, are in."""
        return [int(index) for index in np.flatnonzero(np.diff(np.searchsorted(rows, self.starts)))]

    def place(self, name: str, row: int) -> tuple[str, int]:
        index = self.index_of(row)
        return self.name_of(index), row - int(self.starts[index])

    def at(self, row: int) -> str:
        table, inside = self.place("", row)
        return f"row {inside}" if len(self.starts) == 2 else f"row {inside} of {table}"


class BatchReader(Reader):
    """Reads batches one after the other, each as arrays by name; the first may begin before the row that is wanted."""

    def __init__(
        self,
        batches: Generator[tuple[int, Any], None, None],
        values: Callable[[Any], Mapping[str, Array]],
        first: int,
    ) -> None:
        self._batches, self._made, self._row = batches, values, first
        self._values: Mapping[str, Array] = {}
        self._start = self._end = first

    def read(self, targets: Mapping[str, Array]) -> None:
        done, count = 0, len(next(iter(targets.values())))
        while done < count:
            while self._row >= self._end:
                self._values = {}
                self._start, batch = next(self._batches)
                self._values = self._made(batch)
                self._end = self._start + len(next(iter(self._values.values())))
            inside, step = self._row - self._start, min(count - done, self._end - self._row)
            for name, target in targets.items():
                target[done : done + step] = self._values[name][inside : inside + step]
            done += step
            self._row += step

    def close(self) -> None:
        self._values = {}
        self._batches.close()
        give_back_memory()


def give_back_memory() -> None:
    """Give the system what Arrow's allocator keeps: every reading thread leaves its own, and passes would add up."""
    pa.default_memory_pool().release_unused()


def field_of(kind: Any) -> Field | None:
    """The numbers that a column of this Arrow type holds, or None where it holds none.

    A list of any length has width 0 until its first row has been seen.
    """
    if pa.types.is_dictionary(kind):
        return field_of(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = field_of(kind.value_type)
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
        return Field(inner.dtype, width) if inner is not None and inner.width is None else None
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype = kept_type(np.dtype(kind.to_pandas_dtype()))
        return Field(dtype, None) if dtype is not None else None
    return Field(np.dtype(np.float64), None) if pa.types.is_decimal(kind) else None


def as_arrow(values: Array) -> Any:
    """An array as Arrow has it: with several numbers a row, lists of one length."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat


def is_date(kind: Any) -> bool:
    """Whether a column of this type can say the order of rows, though it holds no numbers."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind))


def values_of(batch: Batch, name: str, field: Field) -> Array:
    """A column of a batch as an array, checked: nothing missing, and every row as wide as the field says."""
    column = batch.data.column(name)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    _check_nulls(batch, name, column)
    if is_date(kind):
        wide = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
        return np.asarray(column.cast(wide).to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    if field.width is None:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if not pa.types.is_fixed_size_list(column.type):
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        other = np.flatnonzero(lengths != field.width)
        if len(other):
            raise InputError(
                f"{batch.label} holds a list of {lengths[other[0]]} numbers in column {name!r} at row "
                f"{batch.first + other[0]} (counting from 0), where the rows before it hold {field.width}"
            )
    flat = column.flatten()
    if pa.types.is_decimal(flat.type):
        flat = flat.cast(pa.float64())
    _check_nulls(batch, name, flat, field.width)
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, field.width)


def _check_nulls(batch: Batch, name: str, column: Any, width: int = 1) -> None:
    if column.null_count:
        row = batch.first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) // width
        raise InputError(
            f"{batch.label} has nothing in column {name!r} at row {row} (counting from 0); fill or drop such rows"
        )
