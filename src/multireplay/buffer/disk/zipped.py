"""Arrays in a .npz archive: streamed through the archive's own checksum, stored or compressed."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.memory import pages
from multireplay.buffer.disk.npy import PIECE, ArrayFile, Cursor, Header, fill, open_raw
from multireplay.buffer.disk.source import Field

_LOCAL_HEADER = 30
_BROKEN = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class ZippedArray(ArrayFile):
    """An array in an archive. Rows of a stored one can be picked, those of a compressed one only by reading through."""

    name: str = ""
    compressed: bool = False
    checksum: int = 0

    @property
    def overhead(self) -> int:
        return self.header.size if self.by_feature else 2 * min(PIECE, self.header.size)

    @property
    def touched(self) -> float:
        return self.header.size if self.compressed or self.by_feature else super().touched

    @property
    def by_feature(self) -> bool:
        """Whether the features lie one after the other; rows of such an array can only be had from all of it."""
        return self.header.fortran and self.width is not None

    def identity(self) -> list[object]:
        return [self.checksum, self.header.size]  # the archive's checksum covers the header of the array too

    def cursor(self, first: int) -> Cursor:
        return ZippedCursor(self, first)

    def take(self, rows: Positions) -> Array:
        if not self.compressed and not self.by_feature:
            return super().take(rows)
        found = pages(self.field, len(rows))
        cursor = ZippedCursor(self, 0)
        step = max(1, PIECE // self.header.row_bytes)
        block = np.empty(self.field.shape(min(step, self.rows)), self.field.dtype)
        try:
            for first in range(0, int(rows[-1]) + 1 if len(rows) else 0, step):
                cursor.read(block[: min(step, self.rows - first)])
                low, high = np.searchsorted(rows, (first, first + step))
                found[low:high] = block[rows[low:high] - first]
        finally:
            cursor.close()
        return found


def open_members(path: Path) -> dict[str, ZippedArray]:
    """The arrays of an archive by name."""
    stamp = Stamp.of(path)
    found = {}
    with named(f"{path} is not a complete .npz archive", *_BROKEN), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            label = f"{path}: {info.filename}"
            with named(f"{label} cannot be read", *_BROKEN), archive.open(info) as file:
                header = Header.read(file, label)
            start = _data_start(path, info.header_offset) + header.length
            compressed = info.compress_type != zipfile.ZIP_STORED
            member = ZippedArray(
                label, stamp, header, start, name=info.filename, compressed=compressed, checksum=info.CRC
            )
            if header.refusal(label) is None:
                member.check_length(info.file_size - header.length)
            found[info.filename.removesuffix(".npy")] = member
    return found


def _data_start(path: Path, offset: int) -> int:
    """Where a member's bytes begin: after its local header, whose name and extra field have their own lengths."""
    with path.open("rb") as file:
        file.seek(offset + _LOCAL_HEADER - 4)
        lengths = file.read(4)
    return offset + _LOCAL_HEADER + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")


class ZippedCursor(Cursor):
    """Reads a member in order. The archive's checksum is compared when its last row has been read from its first."""

    def __init__(self, source: ZippedArray, first: int) -> None:
        self._source, self._row = source, 0
        open_raw(source).close()  # says so if the file has gone
        source.stamp.check(first)
        with named(f"{source.label} cannot be read", *_BROKEN):
            self._archive = zipfile.ZipFile(source.stamp.path)
            self._member: Any = self._archive.open(source.name)
            self._member.read(source.header.length)
        self._whole = self._read_whole(source) if source.by_feature else None
        step = max(1, PIECE // source.header.row_bytes)
        for start in range(0, first, step):
            self._next(min(step, first - start))

    def close(self) -> None:
        self._member.close()
        self._archive.close()

    def read(self, target: Array) -> None:
        step = max(1, PIECE // self._source.header.row_bytes)
        for start in range(0, len(target), step):
            piece = target[start : start + step]
            piece[...] = self._next(len(piece))
        self._source.stamp.check(self._row - 1)

    def _next(self, count: int) -> Array:
        if self._whole is not None:
            values = self._whole[self._row : self._row + count]
        else:
            values = np.empty(Field(self._source.raw, self._source.width).shape(count), self._source.raw)
            self._fill(values, last=self._row + count == self._source.rows)
        self._row += count
        return values

    def _read_whole(self, source: ZippedArray) -> Array:
        flat = np.empty(source.header.size // source.raw.itemsize, source.raw)
        self._fill(flat, last=True)
        return flat.reshape(source.header.shape, order="F")

    def _fill(self, values: Array, last: bool) -> None:
        """Fill an array with the member's next bytes; after the last ones the archive compares the checksum."""
        with named(f"{self._source.label} is corrupt at row {self._row} or after it (counting from 0)", *_BROKEN):
            fill(self._member, values, self._source, self._row)
            if last:
                self._member.read(1)
