"""Files: their order by name, noticing that one has changed or gone since it was opened, checksums of their rows."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from multireplay.buffer.columns import Array
from multireplay.buffer.disk.remote import AnyPath, RemotePath
from multireplay.errors import InputError

CHUNK_BYTES = 2**22
"""Bytes of rows that have one checksum."""
_ENDS = 2**16
"""Bytes at either end of a file that its identity covers."""


@dataclass(frozen=True)
class Stamp:
    """A file as it was when it was opened."""

    path: AnyPath
    size: int
    modified: int
    tag: str = ""
    """What a store calls this version of the file, where it does; there is no time then."""

    @classmethod
    def of(cls, path: AnyPath) -> Stamp:
        with named(f"{path} cannot be read"):
            return cls(path, *_facts(path))

    @property
    def here(self) -> Path:
        """The path of a file that is on a disk."""
        assert isinstance(self.path, Path)
        return self.path

    @property
    def nearby(self) -> bool:
        """Whether it costs next to nothing to look at the file again."""
        return isinstance(self.path, Path)

    def check(self, row: int, opened: Any = None) -> None:
        """Raise if the file is gone or is no longer the one that was opened; `row` is where the reading is."""
        with self._reading(row):
            found = _facts(self.path, opened)
        if found != (self.size, self.modified, self.tag):
            raise self.changed(row)

    def changed(self, row: int) -> InputError:
        """That the file is no longer the one that was opened."""
        return InputError(
            f"{self.path} has changed since it was opened (noticed at row {row}, counting from 0); open it again"
        )

    @contextmanager
    def opened(self, row: int) -> Iterator[Any]:
        """What Arrow reads the file from, which is still the one that was opened."""
        if isinstance(self.path, Path):
            self.check(row)
            yield self.path
            return
        with self._reading(row):
            file = self.path.open()
        with file:
            self.check(row, file)
            yield file

    @contextmanager
    def _reading(self, row: int) -> Iterator[None]:
        with named(f"{self.path} cannot be read at row {row} (counting from 0)"):
            try:
                yield
            except FileNotFoundError:
                raise InputError(
                    f"{self.path} disappeared while it was being read, at row {row} (counting from 0)"
                ) from None

    def identity(self, more: int = 0) -> list[object]:
        """What tells the file from another without reading it: size and tag, or time of writing and a hash of its ends.

        So many bytes `more` are looked at at the last end.
        """
        if self.tag:
            return [self.size, self.tag]
        digest = blake2b(digest_size=16)
        with named(f"{self.path} cannot be read"), self.path.open("rb") as file:
            digest.update(file.read(_ENDS))
            file.seek(max(0, self.size - _ENDS - more))
            digest.update(file.read())
        self.check(0)
        return [self.size, self.modified, digest.hexdigest()]

    def end_sum(self, count: int) -> int:
        """A checksum of the last bytes of the file."""
        with named(f"{self.path} cannot be read"), self.path.open("rb") as file:
            file.seek(max(0, self.size - count))
            return zlib.crc32(file.read())


def _facts(path: AnyPath, opened: Any = None) -> tuple[int, int, str]:
    """Size, time of writing and tag of a file."""
    if isinstance(path, RemotePath):
        return path.facts(opened)
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, ""


@contextmanager
def named(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds as an `InputError` that says what happened; without kinds, those of the system."""
    caught = kinds or (OSError,)
    try:
        yield
    except caught as error:
        reason = (not kinds and getattr(error, "strerror", None)) or error
        raise InputError(f"{what}: {reason}") from None


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Key that sorts names as people count: part-2 before part-10."""
    pieces = re.split(r"(\d+)", name)
    return [(piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in pieces]


def visible(folder: Path) -> list[Path]:
    """What is in a folder, in natural order, without the marks that other programs leave (.x, _SUCCESS)."""
    with named(f"{folder} cannot be read"):
        found = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    return sorted(found, key=lambda path: natural(path.name))


@dataclass
class Checksums:
    """The CRC-32 of every chunk of a column's rows, and which chunks have been found right already."""

    chunk: int
    values: tuple[int, ...]
    right: set[int] = field(default_factory=set)


class RunningChecksums:
    """Checksums of the chunks of a column that passes by in order, from some row on."""

    def __init__(self, chunk: int, rows: int, first: int = 0, skip: Container[int] = ()) -> None:
        self.chunk, self._rows, self._row, self._skip = chunk, rows, first, skip
        self._whole = first % chunk == 0  # a chunk that was entered half-way has no sum
        self._sum = 0

    def add(self, values: Array) -> list[tuple[int, int]]:
        """The next rows, contiguous; gives the number and the sum of every chunk that they complete."""
        done = []
        start = 0
        while start < len(values):
            number, inside = divmod(self._row, self.chunk)
            stop = min(len(values), start + self.chunk - inside)
            wanted = self._whole and number not in self._skip
            if wanted:
                self._sum = zlib.crc32(values[start:stop].data, self._sum)
            self._row += stop - start
            start = stop
            if self._row % self.chunk == 0 or self._row == self._rows:
                if wanted:
                    done.append((number, self._sum))
                self._whole, self._sum = True, 0
        return done
