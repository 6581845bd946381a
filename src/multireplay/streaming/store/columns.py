"""The rows that a store still has as columns of a buffer, read in place: the parts of its journal are mapped.

A part of a journal is only ever added to, or removed as a whole, which a map of it outlives: whoever has opened the
rows keeps those of that moment.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.errors import InputError
from multireplay.streaming.store.checked import Damaged
from multireplay.streaming.store.journal import SIZE, JournalRecord, RecordKind, Torn, records, segments
from multireplay.streaming.store.replay import Schema, check_folder

GROUPS = "groups"
"""The column that numbers the chains, where rows came in groups or with gaps."""
TRIES = 5


class RecordRun(NamedTuple):
    """Records of equal length one after the other, in a mapped part of the journal."""

    first: int
    """The number of their first row."""
    records: int
    each: int
    """Rows of a record."""
    data: Array
    start: int
    """Byte of the first payload; that of the next is `stride` further on."""
    stride: int
    schema: Schema

    @property
    def rows(self) -> int:
        return self.records * self.each

    def column(self, name: str) -> Array:
        """A column of these rows, in place: by record and row."""
        before = 0
        for found, kind, shape in self.schema.columns:
            dtype, count = np.dtype(kind), math.prod(shape)
            if found == name:
                inner = (dtype.itemsize * count, dtype.itemsize)[: 1 + len(shape)]
                place: tuple[Any, ...] = self.start + before * self.each, (self.stride, *inner)
                return np.ndarray((self.records, self.each, *shape), dtype, self.data.data, *place)
            before += dtype.itemsize * count
        raise InputError(f"the rows in the store came with different columns: not all of them have {name!r}")


class MappedRows(Source):
    """All rows in the journal of a store, or those before a position; every record is checked when it is opened."""

    def __init__(self, folder: Path, until: float = math.inf) -> None:
        check_folder(folder)
        self.label, self.times, self.refused = str(folder), {}, {}
        for left in reversed(range(TRIES)):
            try:
                self._open(folder, until)
                break
            except FileNotFoundError:  # a writer has thrown it away
                if not left:
                    raise
        if not self._runs:
            raise InputError(f"{folder} keeps no rows: give the stream keep=, a number of rows or 'all'")
        schema = self._runs[-1].schema
        self.fields = {
            name: Field(np.result_type(*{run.column(name).dtype for run in self._runs}), *(shape or (None,)))
            for name, _, shape in schema.columns if name != "group"
        }  # fmt: skip
        if self._chains is not None:
            self.fields[GROUPS] = Field(np.dtype(np.int64), None)
        names = () if schema.names is None else ("features", "next_features")
        self.feature_names = {name: tuple(schema.names or ()) for name in names}

    def _open(self, folder: Path, until: float) -> None:
        self._runs: list[RecordRun] = []
        self._check, rows, schema = 0, 0, None
        gaps: list[tuple[int, int | None]] = []
        for record, data in _whole(folder):
            if record.position >= until:
                break
            self._check = zlib.crc32(record.payload, self._check)
            if record.kind == RecordKind.SCHEMA:
                schema = Schema.read(record.payload)
            elif record.kind == RecordKind.BREAK:
                gaps.append((rows, *struct.unpack("<q", record.payload)) if record.payload else (rows, None))
            elif record.kind == RecordKind.ROWS and schema is not None:
                each = len(next(iter(schema.rows(record.payload).values())))
                self._add(RecordRun(rows, 1, each, data, record.start + SIZE, SIZE + len(record.payload), schema))
                rows += each
        self.rows, self._starts = rows, np.array([run.first for run in self._runs])
        self._chains = self._chained(gaps)

    def _chained(self, gaps: list[tuple[int, int | None]]) -> Array | None:
        """The number of the chain of every row: of its group, between two gaps. None where all are of one."""
        grouped = [run for run in self._runs if any(name == "group" for name, *_ in run.schema.columns)]
        if not gaps and not grouped:
            return None
        groups, since, own = np.zeros((3, self.rows), dtype=np.int64)
        for run in grouped:
            groups[run.first : run.first + run.rows] = run.column("group").reshape(-1)
        for group in {group for _, group in gaps}:
            at = np.array([row for row, one in gaps if one == group])
            if group is None:
                since[:] = np.searchsorted(at, np.arange(self.rows), side="right")
            else:
                here = np.flatnonzero(groups == group)
                own[here] = np.searchsorted(at, here, side="right")
        return np.unique(np.stack([groups, since, own]), axis=1, return_inverse=True)[1].reshape(-1)

    def _add(self, run: RecordRun) -> None:
        """Put a record to the run before it, if it goes on there in the same way."""
        if self._runs:
            last = self._runs[-1]
            alike = last.data is run.data and last.schema is run.schema and last.stride == run.stride
            if alike and last.start + last.records * last.stride == run.start:
                self._runs[-1] = last._replace(records=last.records + 1)
                return
        self._runs.append(run)

    def reader(self, names: Sequence[str], first: int) -> Reader:
        return _MappedReader(self, first)

    def fill(self, name: str, target: Array, first: int) -> None:
        """Fill a target with the rows from `first` on."""
        if name == GROUPS and self._chains is not None:
            target[:] = self._chains[first : first + len(target)]
            return
        done = 0
        while done < len(target):
            run = self._runs[int(np.searchsorted(self._starts, first + done, side="right")) - 1]
            low, skip = divmod(first + done - run.first, run.each)
            count = min(len(target) - done, run.first + run.rows - first - done)
            high = low + -(-(skip + count) // run.each)
            column = run.column(name)[low:high]
            target[done : done + count] = column.reshape(-1, *column.shape[2:])[skip : skip + count]
            done += count

    def take(self, targets: Mapping[str, Array], rows: Positions) -> None:
        ends = np.searchsorted(rows, [*self._starts, self.rows])
        for name, target in targets.items():
            if name == GROUPS and self._chains is not None:
                target[:] = self._chains[rows]
                continue
            for run, low, high in zip(self._runs, ends[:-1], ends[1:], strict=True):
                if low < high:
                    target[low:high] = run.column(name)[np.divmod(rows[low:high] - run.first, run.each)]

    def identity(self, names: Sequence[str]) -> list[object]:
        return [sorted(names), self.rows, self._check]


class _MappedReader(Reader):
    def __init__(self, source: MappedRows, first: int) -> None:
        self._source, self._at = source, first

    def read(self, targets: Mapping[str, Array]) -> None:
        for name, target in targets.items():
            self._source.fill(name, target, self._at)
        self._at += len(next(iter(targets.values())))

    def close(self) -> None:
        pass


def _whole(folder: Path) -> Iterator[tuple[JournalRecord, Array]]:
    """All whole records of a journal, with the map of the part that they are in."""
    parts = segments(folder)
    following = min(parts, default=0)
    for number, path in parts.items():
        if number != following:
            raise Damaged(f"{folder} lacks the part of its journal from record {following} to {number}")
        if not path.stat().st_size:
            continue
        data = np.memmap(path, np.uint8, "r")
        try:
            for record in records(path, number):
                if record.start + SIZE + len(record.payload) > len(data):
                    return  # it was written since
                yield record, data
                following = record.number + 1
        except Torn:
            if number != max(parts):
                raise Damaged(f"{path} ends within a record, and others follow") from None
