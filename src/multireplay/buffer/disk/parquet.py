"""One Parquet file, or several one after the other, decoded batch by batch."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multireplay._check import Positions
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.source import Field
from multireplay.buffer.disk.table import BATCH_BYTES, Batch, TableSource
from multireplay.errors import InputError

_BROKEN = (pa.ArrowException, OSError)
_BUFFER = 2**16
_BATCHES = 8
"""Batches that the decoder takes up: some in use, and more that its allocator does not give back at once (measured)."""
_PAGES = 3 * 2**20
"""Bytes of decoded and packed pages that a column keeps while it is read; most writers make pages of one megabyte."""


@dataclass(frozen=True)
class _File:
    stamp: Stamp
    groups: tuple[int, ...]  # rows of every row group
    largest: dict[str, int]  # bytes of the largest row group of every stored column, unpacked
    footer: int  # bytes of the index at the end, which has bounds, sizes and places of all columns of all groups

    @property
    def rows(self) -> int:
        return sum(self.groups)


class ParquetSource(TableSource):
    """Parquet files in the order given, as one table."""

    def __init__(self, label: str, paths: Sequence[Path]) -> None:
        self.label = label
        first, self._files = None, []
        for path in paths:
            stamp = Stamp.of(path)
            with _opened(stamp) as file:
                schema = file.schema_arrow
                self._files.append(_File(stamp, *_groups(file.metadata), file.metadata.serialized_size))
            if first is None:
                first = schema
                self.sort_out(path, schema)
                if not self.fields:
                    raise InputError(f"{label} has no columns of numbers; it has {', '.join(schema.names) or 'none'}")
            _compare(paths[0], first, path, schema)
        self._starts = [0, *itertools.accumulate(file.rows for file in self._files)]
        self.rows = self._starts[-1]
        if self.rows == 0:
            raise InputError(f"{label} is empty: it has no rows")
        self._find_widths()

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

    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        number = bisect.bisect_right(self._starts, first) - 1
        for index in range(number, len(self._files)):
            edges = [0, *itertools.accumulate(self._files[index].groups)]
            group = max(0, bisect.bisect_right(edges, first - self._starts[index]) - 1)
            yield from self._file_batches(index, names, range(group, len(edges) - 1), size)

    def batches_of(self, names: Sequence[str], rows: Positions, size: int) -> Generator[Batch, None, None]:
        for index, file in enumerate(self._files):
            edges = self._starts[index] + np.concatenate([[0], np.cumsum(file.groups, dtype=np.int64)])
            wanted = np.flatnonzero(np.diff(np.searchsorted(rows, edges)))
            for group in wanted.tolist():
                yield from self._file_batches(index, names, range(group, group + 1), size)

    def _file_batches(self, index: int, names: Sequence[str], groups: range, size: int) -> Generator[Batch, None, None]:
        """The batches of some neighbouring row groups of one file."""
        file = self._files[index]
        row = sum(file.groups[: groups.start])
        last = sum(file.groups[: groups.stop])
        file.stamp.check(row)
        label = str(file.stamp.path)
        with _opened(file.stamp) as opened:
            # one thread: reading ahead is another one already, and Arrow's allocator keeps memory for each
            found = opened.iter_batches(size, row_groups=list(groups), columns=list(names), use_threads=False)
            while row < last:
                place = f"at row {row} or after it (counting from 0)"
                try:
                    data = next(found, None)
                except _BROKEN as error:
                    raise self._broken(label, names, place, error) from None
                file.stamp.check(row)
                if data is None:
                    raise InputError(f"{label} ends after row {row} of {file.rows}, against its own index")
                yield Batch(label, row, self._starts[index] + row, data)
                row += data.num_rows

    def _broken(self, label: str, names: Sequence[str], place: str, error: Exception) -> InputError:
        """Arrow before version 26 cannot read lists of a fixed length where one is missing, and says it its own way."""
        lists = [repr(name) for name in names if self.field(name).width is not None]
        if lists and "lists to be of size" in str(error):
            missing = f"{label} has nothing in column {' or '.join(lists)} {place}"
            return InputError(f"{missing}; fill or drop such rows ({error})")
        return InputError(f"{label} is corrupt {place}: {error}")

    def place(self, name: str, row: int) -> tuple[str, int]:
        index = bisect.bisect_right(self._starts, row) - 1
        return str(self._files[index].stamp.path), row - self._starts[index]

    def overhead(self, names: Sequence[str]) -> int:
        pages = sum(min(_PAGES, 2 * max(file.largest.get(name, 0) for file in self._files)) for name in names)
        return pages + _BATCHES * min(BATCH_BYTES, self.rows * self.row_bytes(names))

    def identity(self, names: Sequence[str]) -> list[object]:
        return [file.stamp.identity(file.footer) for file in self._files]

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        groups = [rows for file in self._files for rows in file.groups]
        typical = sum(rows * rows for rows in groups) / self.rows
        row = self.row_bytes(names)
        return typical * row, f"a row of {row} bytes comes with all of its row group, of about {typical:.0f} rows"


def _groups(metadata: Any) -> tuple[tuple[int, ...], dict[str, int]]:
    rows = []
    largest: dict[str, int] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows.append(group.num_rows)
        for place in range(group.num_columns):
            chunk = group.column(place)
            name = chunk.path_in_schema.split(".list.")[0]
            largest[name] = max(largest.get(name, 0), chunk.total_uncompressed_size)
    return tuple(rows), largest


def _compare(first: Path, expected: Any, path: Path, schema: Any) -> None:
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


@contextmanager
def _opened(stamp: Stamp) -> Iterator[Any]:
    """A Parquet file that is read a little at a time, its checksums compared where it has any."""
    with named(f"{stamp.path} cannot be read as Parquet", *_BROKEN):
        file = pq.ParquetFile(stamp.path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
    with file:
        yield file
