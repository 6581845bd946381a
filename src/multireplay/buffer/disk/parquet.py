"""One Parquet file, or several one after the other, decoded batch by batch."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multireplay._check import Positions
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.hive import TableFiles
from multireplay.buffer.disk.remote import AnyPath, RemotePath
from multireplay.buffer.disk.source import Field
from multireplay.buffer.disk.table import BATCH_BYTES, Batch, StackedSource
from multireplay.errors import InputError

_BROKEN = (pa.ArrowException, OSError)
_BUFFER = 2**16
_FAR = 2**22
"""Bytes of a column that are asked of a store at a time, unless …"""
_AT_ONCE = 2**27
"""… the columns of a row group take no more than this: then they are asked for side by side."""
_ASKED = 16
"""Files of a store whose indexes are asked for side by side."""
_BATCHES = 8
"""Batches that the decoder takes up: some in use, and more that its allocator does not give back at once (measured)."""
_PAGES = 3 * 2**20
"""Bytes of decoded and packed pages that a column keeps while it is read; most writers make pages of one megabyte."""


@dataclass(frozen=True)
class _File:
    stamp: Stamp
    groups: tuple[int, ...]  # rows of every row group
    footer: int  # bytes of the index at the end, which has bounds, sizes and places of all columns of all groups
    footer_sum: int  # its checksum, unless the stamp has a tag

    @property
    def rows(self) -> int:
        return sum(self.groups)


class ParquetSource(StackedSource):
    """Parquet files in the order given, as one table; the keys of their folders are columns of it."""

    def __init__(self, label: str, found: TableFiles) -> None:
        self.label = label
        self._keys = {name: _typed(values) for name, values in found.keys.items()}
        self._largest: dict[str, int] = {}  # bytes of the largest row group of every stored column, unpacked
        self._files: list[_File] = []
        first = None
        with closing(_indexes(found.files)) as indexes:
            for stamp, footer_sum, schema, metadata in indexes:
                groups = _groups(metadata, self._largest)
                self._files.append(_File(stamp, groups, metadata.serialized_size, footer_sum))
                if first is None:
                    first = schema
                    self._sort_out(stamp.path, schema)
                _compare(found.files[0], first, stamp.path, schema)
        self.stack([file.rows for file in self._files])
        self._find_widths()

    def _sort_out(self, path: AnyPath, schema: Any) -> None:
        for name, values in self._keys.items():
            if name in schema.names:
                raise InputError(f"{path} has a column {name!r}, which is a key of its folders too; drop one of them")
            schema = schema.append(pa.field(name, values.type))
        self.sort_out(path, schema)

    def _find_widths(self) -> None:
        """Columns of lists of any length are as wide as their first list."""
        for name, field in list(self.fields.items()):
            if field.width != 0:
                continue
            with closing(self.batches([name], 0, 1)) as batches:
                batch = next(batches)
            first = batch.data.column(name)[0].as_py()
            if first:
                self.fields[name] = Field(field.dtype, len(first))
            else:
                del self.fields[name]
                self.refused[name] = f"{batch.label} has nothing in column {name!r} at row {batch.first}"

    def name_of(self, index: int) -> str:
        return str(self._files[index].stamp.path)

    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        for index in range(self.index_of(first), len(self._files)):
            edges = [0, *itertools.accumulate(self._files[index].groups)]
            group = max(0, bisect.bisect_right(edges, first - int(self.starts[index])) - 1)
            yield from self._file_batches(index, names, range(group, len(edges) - 1), size)

    def batches_of(self, names: Sequence[str], rows: Positions, size: int) -> Generator[Batch, None, None]:
        for index in self.holding(rows):
            edges = self.starts[index] + np.cumsum([0, *self._files[index].groups])
            wanted = np.flatnonzero(np.diff(np.searchsorted(rows, edges)))
            for group in wanted.tolist():
                yield from self._file_batches(index, names, range(group, group + 1), size)

    def _file_batches(self, index: int, names: Sequence[str], groups: range, size: int) -> Generator[Batch, None, None]:
        """The batches of some neighbouring row groups of one file."""
        file = self._files[index]
        row, last = sum(file.groups[: groups.start]), sum(file.groups[: groups.stop])
        if row == last:
            return
        label, inside = self.name_of(index), [name for name in names if name not in self._keys]
        runs = [list(groups)] if file.stamp.nearby else [[group] for group in groups]  # asked for run by run
        with self._opened(file, row, inside) as opened:
            found = _decoded(opened, runs, size, inside) if inside else _empty(range(row, last, size), last)
            while row < last:
                try:
                    data = next(found, None)
                except _BROKEN as error:
                    file.stamp.check(row)
                    place = f"at row {row} or after it (counting from 0)"
                    raise self._broken(label, names, place, error) from None
                if file.stamp.nearby:
                    file.stamp.check(row)
                if data is None:
                    raise InputError(f"{label} ends after row {row} of {file.rows}, against its own index")
                yield Batch(label, row, int(self.starts[index]) + row, self._with_keys(index, names, data))
                row += data.num_rows
            if not file.stamp.nearby:
                file.stamp.check(row - 1)

    @contextmanager
    def _opened(self, file: _File, row: int, names: Sequence[str]) -> Iterator[Any]:
        """A Parquet file that is read a little at a time, or from afar much at a time, and is still what it was."""
        at_once = sum(self._largest.get(name, 0) for name in names) <= _AT_ONCE
        with file.stamp.opened(row) as source:
            if not file.stamp.tag and file.stamp.end_sum(file.footer + 8) != file.footer_sum:
                raise file.stamp.changed(row)
            far = not file.stamp.nearby
            with _parquet(file.stamp, source, _FAR if far else _BUFFER, far and at_once) as opened:
                yield opened

    def _with_keys(self, index: int, names: Sequence[str], data: Any) -> Any:
        """A batch of the file with the keys of its folders, in the order of the names."""
        if not self._keys:
            return data
        arrays = [
            pa.repeat(self._keys[name][index], data.num_rows) if name in self._keys else data.column(name)
            for name in names
        ]
        return pa.record_batch(arrays, names=list(names))

    def _broken(self, label: str, names: Sequence[str], place: str, error: Exception) -> InputError:
        """Arrow before version 26 cannot read lists of a fixed length where one is missing, and says it its own way."""
        lists = [repr(name) for name in names if self.field(name).width is not None]
        if lists and "lists to be of size" in str(error):
            missing = f"{label} has nothing in column {' or '.join(lists)} {place}"
            return InputError(f"{missing}; fill or drop such rows ({error})")
        return InputError(f"{label} is corrupt {place}: {error}")

    def overhead(self, names: Sequence[str]) -> int:
        sizes = [self._largest.get(name, 0) for name in names]
        kept = sum(min(_PAGES, 2 * size) for size in sizes)
        if not self._files[0].stamp.nearby:
            kept += sum(sizes) if sum(sizes) <= _AT_ONCE else sum(min(_FAR, size) for size in sizes)
        return kept + _BATCHES * min(BATCH_BYTES, self.rows * self.row_bytes(names))

    def identity(self, names: Sequence[str]) -> list[object]:
        keys = [[name, self._keys[name].to_pylist()] for name in sorted(names) if name in self._keys]
        return [*(file.stamp.identity(file.footer) for file in self._files), *keys]

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        groups = [rows for file in self._files for rows in file.groups]
        typical = sum(rows * rows for rows in groups) / self.rows
        row = self.row_bytes(names)
        return typical * row, f"a row of {row} bytes comes with all of its row group, of about {typical:.0f} rows"


def _indexes(paths: Sequence[AnyPath]) -> Generator[tuple[Stamp, int, Any, Any], None, None]:
    """The index of every file, with its checksum where the file has no tag: of those elsewhere several at a time."""
    if paths and isinstance(paths[0], RemotePath):
        with ThreadPoolExecutor(_ASKED, "multireplay-indexes") as threads:
            try:
                yield from threads.map(_index, paths)
            finally:
                threads.shutdown(cancel_futures=True)
    else:
        yield from map(_index, paths)


def _index(path: AnyPath) -> tuple[Stamp, int, Any, Any]:
    stamp = Stamp.of(path)
    with stamp.opened(0) as source, _parquet(stamp, source) as file:
        schema, metadata = file.schema_arrow, file.metadata
    return stamp, 0 if stamp.tag else stamp.end_sum(metadata.serialized_size + 8), schema, metadata


@contextmanager
def _parquet(stamp: Stamp, source: Any, buffer_size: int = _BUFFER, pre_buffer: bool = False) -> Iterator[Any]:
    """A Parquet file whose checksums are compared where it has any."""
    with named(f"{stamp.path} cannot be read as Parquet", *_BROKEN):
        file = pq.ParquetFile(source, buffer_size=buffer_size, pre_buffer=pre_buffer, page_checksum_verification=True)
    with file:
        yield file


def _decoded(opened: Any, runs: Sequence[list[int]], size: int, names: Sequence[str]) -> Iterator[Any]:
    """Batches of runs of row groups."""
    for run in runs:
        # one thread: reading ahead is another one already, and Arrow's allocator keeps memory for each
        yield from opened.iter_batches(size, row_groups=run, columns=list(names), use_threads=False)


def _empty(starts: range, last: int) -> Iterator[Any]:
    """Batches without columns."""
    for start in starts:
        yield pa.record_batch([pa.nulls(min(starts.step, last - start))], names=[""])


def _typed(values: Sequence[str | None]) -> Any:
    """The values of a key as whole numbers, where they all are, otherwise as text."""
    try:
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    except (ValueError, OverflowError):
        return pa.array(values, pa.string())


def _groups(metadata: Any, largest: dict[str, int]) -> tuple[int, ...]:
    """The rows of every row group; the bytes of the largest of each column are noted."""
    rows = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows.append(group.num_rows)
        for place in range(group.num_columns):
            chunk = group.column(place)
            name = chunk.path_in_schema.split(".list.")[0]
            largest[name] = max(largest.get(name, 0), chunk.total_uncompressed_size)
    return tuple(rows)


def _compare(first: AnyPath, expected: Any, path: AnyPath, schema: Any) -> None:
    """Raise if a later file has other columns than the first, or the same ones of another type."""
    if schema.equals(expected):
        return
    for one, here, other, there in ((first, expected, path, schema), (path, schema, first, expected)):
        names = set(there.names)  # made anew whenever it is asked for
        for name in here.names:
            if name not in names:
                raise InputError(f"{other} has no column {name!r}, but {one} has one")
    for column in expected:
        found = schema.field(column.name).type
        if found != column.type:
            raise InputError(
                f"column {column.name!r} is {column.type} in {first}, but {found} in {path}; "
                "all files of a folder need the same columns"
            )
