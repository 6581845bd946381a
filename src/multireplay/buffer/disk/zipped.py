"""Arrays in a .npz archive: streamed through the archive's own checksum, stored or compressed."""

from __future__ import annotations

import io
import zipfile
import zlib
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from lzma import LZMAError
from pathlib import Path
from typing import IO, Any

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk import npy
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.npy import ArrayFile, Cursor, read_header

_BROKEN = (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class ZippedArray(ArrayFile):
    """An array in an archive."""

    name: str = ""
    checksum: int = 0
    compressed: bool = False
    right: set[str] = field(default_factory=set, compare=False)
    """Holds the name once the archive's checksum of the array was found right."""

    @property
    def through(self) -> bool:
        """Whether rows can only be had by reading through."""
        return self.compressed or self.by_feature

    @property
    def overhead(self) -> int:
        return self.size if self.by_feature else 2 * min(npy.PIECE, self.size)

    @property
    def touched(self) -> float:
        return self.size if self.through else super().touched

    def identity(self) -> list[object]:
        return [self.checksum, self.size]  # the archive's checksum covers the header of the array too

    def opened(self, first: int) -> IO[bytes]:
        self.stamp.check(first)
        with self.reading(first), zipfile.ZipFile(self.stamp.here) as archive:
            member = archive.open(self.name)  # which holds the file open by itself
            if self.by_feature:
                return io.BytesIO(member.read())
            skipped = self.header + first * self.size // self.rows
            for place in range(0, skipped, npy.PIECE):
                member.read(min(npy.PIECE, skipped - place))
            return member

    def reading(self, row: int) -> AbstractContextManager[None]:
        return named(f"{self.label} is corrupt at row {row} or after it (counting from 0)", *_BROKEN)

    def fill(self, file: Any, values: Array, row: int) -> None:
        super().fill(file, values, row)
        if row + len(values) == self.rows:
            with self.reading(row):
                file.read(1)  # after the last bytes the archive compares its checksum

    def verify(self, rows: Positions) -> None:
        if self.name in self.right:
            return
        with self.reading(0), zipfile.ZipFile(self.stamp.here) as archive, archive.open(self.name) as member:
            while member.read(npy.PIECE):
                pass  # after the last bytes the archive compares its checksum
        self.right.add(self.name)

    def take(self, target: Array, rows: Positions) -> None:
        if not self.through:
            return super().take(target, rows)
        step = max(1, npy.PIECE * self.rows // self.size)
        block = np.empty(self.field.shape(min(step, self.rows)), self.field.dtype)
        with closing(Cursor(self, 0)) as cursor:
            for first in range(0, int(rows[-1]) + 1, step):
                cursor.read(block[: self.rows - first])
                low, high = np.searchsorted(rows, (first, first + step))
                target[low:high] = block[rows[low:high] - first]


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
                start = archive.fp.tell()  # type: ignore[union-attr]  # past the local header, of a length of its own
                header = read_header(file, label)
            compressed = info.compress_type != zipfile.ZIP_STORED
            member = ZippedArray(label, stamp, *header, None, start, info.filename, info.CRC, compressed)
            member.check_length(info.file_size - member.header)
            found[info.filename.removesuffix(".npy")] = member
    return found
