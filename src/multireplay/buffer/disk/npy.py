"""Arrays in NumPy's format, read piece by piece with plain reads, and several of them as a source of columns.

Mapped memory is not used: the pages of a mapped file count as the process's memory, and a mapped file that is cut
short by another program ends this one. Pages of the file that the system keeps for itself are left to it: a second
pass over a file that fits comes from there.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array, kept_type
from multireplay.buffer.disk.files import Checksums, RunningChecksums, Stamp, named
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.errors import InputError

PIECE = 2**22
"""Bytes read at a time."""
NEAR = 2**15
"""Rows closer together than this many bytes are picked out of one read: a read costs about as much as so many bytes."""
PAGE = 4096
"""Bytes that the system reads at least."""
AHEAD = 64
"""Reads of single rows that are asked for before the first of them is waited for."""

_READ = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_header(file: IO[bytes], label: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type of the array of a .npy file, and the bytes of the header that says so."""
    try:
        version = np.lib.format.read_magic(file)
        return *_READ[version](file), file.tell()
    except Exception as error:  # on garbage NumPy's parser raises nearly anything
        raise InputError(f"{label} is not a .npy file that can be read: {error}") from None


@dataclass(frozen=True)
class ArrayFile:
    """An array in a .npy file: one or two dimensions of numbers, unless it has a `refusal`."""

    label: str
    stamp: Stamp
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    header: int
    """Bytes before the numbers."""
    sums: Checksums | None = None
    start: int = 0
    """Bytes before the header, in an archive."""

    @classmethod
    def open(cls, path: Path, sums: Checksums | None = None) -> ArrayFile:
        stamp = Stamp.of(path)
        with named(f"{path} cannot be read"), path.open("rb") as file:
            found = cls(str(path), stamp, *read_header(file, str(path)), sums)
        found.check_length(stamp.size - found.header)
        return found

    @property
    def refusal(self) -> str | None:
        """Why this array cannot be a column, if it cannot."""
        if len(self.shape) not in (1, 2):
            return f"{self.label} has {len(self.shape)} dimensions; it needs 1 (numbers) or 2 (rows)"
        if 0 in self.shape:
            return f"{self.label} is empty: its shape is {self.shape}"
        if kept_type(self.dtype) is None and self.dtype.kind not in "mM":
            return f"{self.label} has dtype {self.dtype}; it needs real numbers or booleans"
        return None

    def check_length(self, size: int) -> None:
        """Raise if the numbers of a column are not as many bytes as the header says."""
        if self.refusal is not None or size == self.size:
            return
        if size > self.size:
            raise InputError(
                f"{self.label} has {size} bytes of numbers, but its header says {self.size}: "
                "something was written after the array"
            )
        row = size // self.raw.row_bytes
        if self.by_feature:  # the rows end where the last feature does
            row = max(0, size // self.dtype.itemsize - (self.shape[1] - 1) * self.rows)
        raise self.ends(row, f"{size} bytes of numbers, its header says {self.size}")

    def ends(self, row: int, detail: str) -> InputError:
        return InputError(f"{self.label} ends after row {row} of {self.rows}: it is cut short ({detail})")

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def by_feature(self) -> bool:
        """Whether the features lie one after the other."""
        return self.fortran and len(self.shape) == 2

    @property
    def raw(self) -> Field:
        """The numbers in the file, dates as the integers they are."""
        dtype = np.dtype(np.int64).newbyteorder(self.dtype.byteorder) if self.dtype.kind in "mM" else self.dtype
        return Field(dtype, self.shape[1] if len(self.shape) == 2 else None)

    @property
    def field(self) -> Field:
        """What the column is handed on as."""
        return replace(self.raw, dtype=cast("np.dtype[Any]", kept_type(self.raw.dtype)))

    def strips(self, start: int) -> Iterator[tuple[int, Field, int | None]]:
        """The contiguous runs of rows: where each begins, what it holds, and which feature it is (None: all)."""
        if not self.by_feature:
            yield start, self.raw, None
            return
        for feature in range(self.shape[1]):
            yield start + feature * self.rows * self.dtype.itemsize, replace(self.raw, width=None), feature

    def identity(self) -> list[object]:
        """What tells the array from another: its checksums, or what is known of its file."""
        if self.sums is None:
            return [*self.stamp.identity(), self.header]
        return [self.dtype.str, list(self.shape), self.sums.chunk, list(self.sums.values)]

    @property
    def overhead(self) -> int:
        """Bytes that reading takes beyond what it fills."""
        return min(PIECE, self.size)

    @property
    def touched(self) -> float:
        """Bytes of the pages that one row lies in, on average over where a row may begin."""
        return sum(PAGE + field.row_bytes - 1 for _, field, _ in self.strips(0))

    def opened(self, first: int) -> IO[bytes]:
        """The file, without a buffer of Python's own, to be read in order from row `first` on."""
        with named(f"{self.label} cannot be read"):
            try:
                return cast(IO[bytes], self.stamp.here.open("rb", buffering=0))
            except FileNotFoundError:
                raise InputError(f"{self.label} has disappeared since it was opened") from None

    def reading(self, row: int) -> AbstractContextManager[None]:
        """Says where the file could not be read."""
        return named(f"{self.label} cannot be read at row {row} (counting from 0)")

    def fill(self, file: Any, values: Array, row: int) -> None:
        """Fill an array with the file's next bytes; `row` is its first row, for messages."""
        view = values.reshape(-1).view(np.uint8).data
        row_bytes = len(view) // len(values)
        done = 0
        while done < len(view):
            reached = row + done // row_bytes
            with self.reading(reached):
                count = file.readinto(view[done:])
            if not count:
                raise self.ends(reached, "it was complete when it was opened")
            done += count

    def verify(self, rows: Positions) -> None:
        """Read the chunks that these rows, ascending, are in, and compare their checksums; each chunk once."""
        if self.sums is None:
            return
        bounds = [number * self.sums.chunk for number in range(len(self.sums.values) + 1)]
        touched = np.flatnonzero(np.diff(np.searchsorted(rows, bounds))).tolist()
        piece = np.empty(self.raw.shape(max(1, PIECE // 16 // self.raw.row_bytes)), self.raw.dtype)
        for number in touched:
            if number in self.sums.right:
                continue
            first, last = bounds[number], min(bounds[number + 1], self.rows)
            with closing(Cursor(self, int(first))) as cursor:
                for row in range(first, last, len(piece)):
                    cursor.read(piece[: last - row])

    def take(self, target: Array, rows: Positions) -> None:
        """Fill the target with these rows, ascending and distinct, with one read for rows that are close together."""
        self.stamp.check(int(rows[0]))
        with ArrayFile.opened(self, 0) as file:
            advise(file, "RANDOM")
            for begin, field, feature in self.strips(self.start + self.header):
                self._take_strip(file, begin, field, rows, target if feature is None else target[:, feature])
        self.stamp.check(int(rows[-1]))

    def _take_strip(self, file: IO[bytes], begin: int, field: Field, rows: Positions, target: Array) -> None:
        step = field.row_bytes
        straight = target.flags.c_contiguous and target.dtype == field.dtype
        spans = _spans(rows, max(1, NEAR // step), max(1, PIECE // step))
        room = np.empty(field.shape(max(int(rows[far - 1] - rows[near]) + 1 for near, far in spans)), field.dtype)
        for number, (start, stop) in enumerate(spans):
            if number % AHEAD == 0:  # many reads under way at once: a disk answers them side by side
                for near, far in spans[number : number + AHEAD] if len(spans) > 1 else ():
                    length = int(rows[far - 1] - rows[near] + 1) * step
                    advise(file, "WILLNEED", begin + int(rows[near]) * step, length)
            low, high = int(rows[start]), int(rows[stop - 1]) + 1
            file.seek(begin + low * step)
            if straight and high - low == stop - start:
                self.fill(file, target[start:stop], low)
            else:
                span, here = room[: high - low], rows[start:stop] - low
                self.fill(file, span, low)
                if straight:  # without another copy
                    np.take(span, here, axis=0, out=target[start:stop], mode="clip")
                else:
                    target[start:stop] = span[here]


def _spans(rows: Positions, near: int, longest: int) -> list[tuple[int, int]]:
    """Ascending rows cut where they are more than `near` apart, and after `longest` rows of the file."""
    cuts = np.flatnonzero((np.diff(rows) > near) | (np.diff(rows // longest) > 0)) + 1
    return list(itertools.pairwise([0, *cuts.tolist(), len(rows)]))


class Cursor:
    """Reads an array in order, straight into the target where that is contiguous and of the file's type."""

    def __init__(self, source: ArrayFile, first: int) -> None:
        self._source, self._row = source, first
        self._file = source.opened(first)
        sums = source.sums
        self._running = None if sums is None else RunningChecksums(sums.chunk, source.rows, first, sums.right)
        self.close = self._file.close
        advise(self._file, "SEQUENTIAL")

    def read(self, target: Array) -> None:
        for begin, field, feature in self._source.strips(self._source.header):
            place = begin + self._row * field.row_bytes
            if self._file.tell() != place:  # an archive cannot seek well, and need not
                self._file.seek(place)
            self._read_strip(field, target if feature is None else target[:, feature])
        self._row += len(target)
        self._source.stamp.check(self._row - 1)

    def _read_strip(self, field: Field, target: Array) -> None:
        rows = max(1, PIECE // field.row_bytes)
        straight = target.flags.c_contiguous and target.dtype == field.dtype
        between = target if straight else np.empty(field.shape(min(rows, len(target))), field.dtype)
        for start in range(0, len(target), rows):
            stop = min(start + rows, len(target))
            values = target[start:stop] if straight else between[: stop - start]
            self._source.fill(self._file, values, self._row + start)
            advise(self._file, "WILLNEED", self._file.tell(), PIECE)  # comes in while this piece is looked at
            self._verify(values)
            if not straight:
                target[start:stop] = values

    def _verify(self, values: Array) -> None:
        if self._running is None or self._source.sums is None:
            return
        sums = self._source.sums
        for number, found in self._running.add(values):
            if found != sums.values[number]:
                last = min((number + 1) * sums.chunk, self._source.rows) - 1
                raise InputError(
                    f"{self._source.label} is corrupt: rows {number * sums.chunk} to {last} (counting from 0) "
                    "are not the ones that were saved"
                )
            sums.right.add(number)


def advise(file: IO[bytes], how: str, start: int = 0, length: int = 0) -> None:
    """Tell the system how the file will be read, where the system can be told."""
    if hasattr(os, "posix_fadvise") and isinstance(file, FileIO):
        os.posix_fadvise(file.fileno(), start, length, getattr(os, f"POSIX_FADV_{how}"))


class ArraySource(Source):
    """Arrays by name, all with the same number of rows."""

    def __init__(self, label: str, files: Mapping[str, ArrayFile]) -> None:
        self.label = label
        self._files = dict(files)
        self.fields, self.times, self.refused = {}, {}, {}
        for name, file in files.items():
            if (reason := file.refusal) is not None:
                self.refused[name] = reason
            elif file.dtype.kind in "mM":
                self.refused[name] = f"{file.label} holds dates ({file.dtype}), which are not real numbers"
                self.times[name] = file.field
            else:
                self.fields[name] = file.field
        if not self.fields:
            raise InputError(next(iter(self.refused.values()), f"{label} holds no arrays of numbers"))
        first, *others = (*self.fields, *self.times)
        self.rows = files[first].rows
        for name in others:
            if files[name].rows != self.rows:
                raise InputError(
                    f"all columns need the same number of rows, but in {label} {first} has {self.rows} "
                    f"and {name} has {files[name].rows}"
                )

    def reader(self, names: Sequence[str], first: int) -> Reader:
        return _ArrayReader({name: self._files[name] for name in names}, first)

    def take(self, targets: Mapping[str, Array], rows: Positions) -> None:
        for name, target in targets.items():
            self._files[name].take(target, rows)

    def verify(self, names: Sequence[str], rows: Positions) -> None:
        for name in names:
            self._files[name].verify(rows)

    def place(self, name: str, row: int) -> tuple[str, int]:
        return self._files[name].label, row

    def overhead(self, names: Sequence[str]) -> int:
        return sum(self._files[name].overhead for name in names)

    def identity(self, names: Sequence[str]) -> list[object]:
        return [[name, *self._files[name].identity()] for name in sorted(names)]

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        files = [self._files[name] for name in names]
        row = sum(file.raw.row_bytes for file in files)
        reason = (
            f"a row of {row} bytes in {len(files)} {'array' if len(files) == 1 else 'arrays'} "
            f"comes with the pages of {PAGE} bytes around it"
        )
        if any(file.touched == file.size for file in files):
            reason = "rows of a compressed archive can only be had by reading it from the start"
        return sum(file.touched for file in files), reason


class _ArrayReader(Reader):
    def __init__(self, files: Mapping[str, ArrayFile], first: int) -> None:
        with ExitStack() as opened:  # closes them all where one cannot be opened
            self._cursors = {name: opened.enter_context(closing(Cursor(file, first))) for name, file in files.items()}
            self._opened = opened.pop_all()

    def read(self, targets: Mapping[str, Array]) -> None:
        for name, target in targets.items():
            self._cursors[name].read(target)

    def close(self) -> None:
        self._opened.close()
