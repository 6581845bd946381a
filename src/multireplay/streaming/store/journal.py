"""The journal: every row, gap and quarantined row as a record with its number, its position and checksums.

A record is a header of 40 bytes, little-endian, and its payload: 4 bytes "mrj1", kind (u32), number of the record
(u64), position (u64: rows before it), length of the payload (u64), CRC-32 of the payload (u32), CRC-32 of these 36
bytes (u32).
"""

from __future__ import annotations

import errno
import os
import struct
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from multireplay._write import sync_folder
from multireplay.streaming.store.checked import Damaged

Sync = Literal["always", "interval", "none"]
SECOND = 1.0
"""With sync="interval" the disk is waited for at most so often."""
MAGIC = b"mrj1"
HEADER = struct.Struct("<4sIQQQI")
SIZE = HEADER.size + 4


class RecordKind(IntEnum):
    """What a record tells."""

    SCHEMA = 1
    ROWS = 2
    BREAK = 3
    BAD = 4


class Place(NamedTuple):
    """Where a journal ends: bytes of the segment, number of the next record, rows before it."""

    end: int
    number: int
    position: int


class JournalRecord(NamedTuple):
    """One record; its payload is checked."""

    kind: int
    number: int
    position: int
    payload: bytes
    start: int


class Torn(Exception):
    """The last record of a segment is not whole: it was being written when its writer, or the machine, stopped."""

    def __init__(self, start: int, lost: int) -> None:
        super().__init__(start, lost)
        self.start, self.lost = start, lost


def segment(folder: Path, number: int) -> Path:
    """The file whose first record has that number."""
    return folder / f"journal-{number:020}.bin"


def segments(folder: Path) -> dict[int, Path]:
    """The files of a journal by the number of their first record, in order."""
    return {int(path.stem.partition("-")[2]): path for path in sorted(folder.glob("journal-" + "[0-9]" * 20 + ".bin"))}


class Journal:
    """The end of a journal, where records are appended. None is acknowledged before the system has all of it.

    With ``sync="always"`` it is on the disk by then, with "interval" at most a second later if more rows come, with
    "none" whenever the system writes it. What was acknowledged outlives the process in any case.
    """

    def __init__(self, folder: Path, at: Place, first: int, sync: Sync) -> None:
        self.folder, self.sync, self.at = folder, sync, at
        self.failed = False
        self._open(first, os.O_CREAT)

    def _open(self, first: int, how: int) -> None:
        path = segment(self.folder, first)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | how, 0o666)
        self.path, self.close = path, weakref.finalize(self, os.close, self._file)
        self._synced = time.monotonic()
        if self.sync != "none":
            sync_folder(self.folder)

    def append(self, kind: RecordKind, parts: Sequence[Any], rows: int = 0) -> None:
        """Write a record. Where it cannot be written the journal is as it was, and the error says so."""
        at, length, check = self.at, 0, 0
        if self.failed:
            self.to_disk()
        for part in parts:
            check = zlib.crc32(part, check)
            length += len(part)
        head = HEADER.pack(MAGIC, kind, at.number, at.position, length, check)
        try:
            _write(self._file, [head + zlib.crc32(head).to_bytes(4, "little"), *parts], at.end)
            if self.sync == "always" or (self.sync == "interval" and time.monotonic() - self._synced > SECOND):
                self.to_disk()
        except OSError as error:
            os.ftruncate(self._file, at.end)
            error.filename = error.filename or os.fspath(self.path)
            error.add_note(f"The row was not taken; {at.position} rows were, and the stream is as it was.")
            raise
        self.at = Place(at.end + SIZE + length, at.number + 1, at.position + rows)

    def to_disk(self) -> None:
        """Wait until all records are on the disk. One that has failed is not asked again: what it has is in doubt."""
        if self.failed:
            raise OSError(errno.EIO, "the disk has failed before; open the store again", os.fspath(self.path))
        try:
            os.fsync(self._file)
        except OSError:
            self.failed = True
            raise
        self._synced = time.monotonic()

    def rotate(self) -> None:
        """Go on in a new segment."""
        before = self.close
        if self.at.end:
            self._open(self.at.number, os.O_CREAT | os.O_TRUNC)
            self.at = Place(0, self.at.number, self.at.position)
            before()

    def cut(self) -> None:
        """Remove what is behind the last whole record."""
        os.ftruncate(self._file, self.at.end)
        os.fsync(self._file)


def _write(file: int, parts: list[Any], at: int) -> None:
    written = os.pwritev(file, parts, at)
    if written == sum(map(len, parts)):
        return
    rest = memoryview(b"".join(parts))[written:]
    while rest:
        at += written
        written = os.pwrite(file, rest, at)
        rest = rest[written:]


def records(path: Path, number: int | None = None, start: int = 0) -> Iterator[JournalRecord]:
    """All records of a segment. `Torn` ends them where the last is not whole, `Damaged` where others are not."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(start)
        position = None
        while start < size:
            found = _header(file.read(SIZE))
            if found is None:
                raise _broken(path, start, size)
            kind, own, before, length, check = found
            if start + SIZE + length > size:
                raise Torn(start, size - start)
            payload = file.read(length)
            if zlib.crc32(payload) != check:
                raise _broken(path, start, size)
            if number not in (None, own) or (position is not None and before < position):
                raise Damaged(f"{path} is damaged at byte {start}: record {own} stands where {number} should")
            yield JournalRecord(kind, own, before, payload, start)
            number, position, start = own + 1, before, start + SIZE + length


def _header(data: bytes) -> tuple[int, int, int, int, int] | None:
    if len(data) < SIZE or data[:4] != MAGIC or zlib.crc32(data[:-4]).to_bytes(4, "little") != data[-4:]:
        return None
    _, kind, number, position, length, check = HEADER.unpack(data[:-4])
    return kind, number, position, length, check


def _broken(path: Path, start: int, size: int) -> Exception:
    """What is wrong at a place: a record that was never whole is the last; one that others follow was damaged.

    What a writer has added since the file had that size is none of it.
    """
    with path.open("rb") as file:
        file.seek(start + 1)
        rest = file.read(size - start - 1)
    at = rest.find(MAGIC)
    while at >= 0:
        if _header(rest[at : at + SIZE]) is not None:
            return Damaged(f"{path} is damaged in the record at byte {start}, and others follow it")
        at = rest.find(MAGIC, at + 1)
    return Torn(start, len(rest) + 1)
