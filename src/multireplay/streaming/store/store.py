"""The store of a stream: what is written when, and what is thrown away."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError, warn
from multireplay.streaming.intake import uninterrupted
from multireplay.streaming.store.checked import Damaged, save
from multireplay.streaming.store.journal import Journal, RecordKind, Sync, Torn, records, segment, segments
from multireplay.streaming.store.lock import Lock
from multireplay.streaming.store.quarantine import Quarantine
from multireplay.streaming.store.replay import Recovered, Schema, put_aside, snapshots

LEAST, TIMES = 1 << 24, 4
"""A snapshot is written when the journal has grown by so many bytes, and by so many times the last snapshot."""


@dataclass(frozen=True)
class Settings:
    """How a store is written.

    Parameters
    ----------
    sync : "interval", "always" or "none"
        When a row that was taken is on the disk: a second later at most while rows come, before `observe` returns, or
        whenever the system writes it. In all three it outlives this process.
    keep : int or "all"
        So many of the last rows stay in the journal; by default those after the older of two snapshots.
    bad : "refuse" or "quarantine"
        A row that cannot be used is an error, or is put aside in the store and counted.
    """

    sync: Sync = "interval"
    keep: int | Literal["all"] = 0
    bad: Literal["refuse", "quarantine"] = "refuse"

    def __post_init__(self) -> None:
        if self.sync not in ("always", "interval", "none"):
            raise InputError(f"sync must be 'always', 'interval' or 'none', not {self.sync!r}")
        if self.bad not in ("refuse", "quarantine"):
            raise InputError(f"bad must be 'refuse' or 'quarantine', not {self.bad!r}")
        if self.keep != "all" and (isinstance(self.keep, bool) or not isinstance(self.keep, int) or self.keep < 0):
            raise InputError(f"keep must be a number of rows or 'all', not {self.keep!r}")

    @classmethod
    def chosen(cls, given: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Settings:
        """What is given, and for the rest what a store was made with."""
        return cls(**{**(before or {}), **{name: value for name, value in given.items() if value is not None}})


class StreamStore:
    """A folder that is written by this process, at the end of its journal.

    Parameters
    ----------
    folder : Path
        Where it is.
    lock : Lock
        The right to write there.
    settings : Settings
        How it is written.
    found : Recovered
        What is there.
    """

    def __init__(self, folder: Path, lock: Lock, settings: Settings, found: Recovered) -> None:
        self.folder, self.settings, self._lock, self._name = folder, settings, lock, found.store
        put_aside(found)
        self.journal = Journal(folder, found.at, found.first, settings.sync)
        self.journal.cut()
        self.quarantine = Quarantine(folder, found.quarantined, found.at.position, settings.sync == "always")
        self._schema: Schema | None = None
        self._of_block: Schema | None = None
        self._block: Any = None
        self._bytes: list[tuple[memoryview, int]] = []
        self._snapshot, self._size, self._grown = found.snapshot, 0, LEAST
        self.broken = ""
        for note in found.notes:
            warn(note)

    def write(self, columns: Mapping[str, Any], names: Any) -> None:
        """Journal rows, before they are taken in."""
        rows = {name: np.ascontiguousarray(as_numpy(column)) for name, column in columns.items()}
        count = len(next(iter(rows.values())))
        if count:
            self._describe(Schema.of(rows, names))
            self.journal.append(RecordKind.ROWS, [row.reshape(-1).view(np.uint8).data for row in rows.values()], count)

    def catch_up(self, stream: Any) -> None:
        """Journal the rows at the end of the open block that are not yet: one, as a rule.

        Rows that cannot be journaled are not taken in.
        """
        at = self.journal.at.position
        if at >= stream.position:
            return
        block = stream._open
        last = block.filled
        first = last - (stream.position - at)
        try:
            if self._block is not block or self._schema is not self._of_block:
                self._of_block, self._block = Schema.of(block.columns, stream._intake.names), block
                self._bytes = [
                    (column.reshape(-1).view(np.uint8).data, column[:1].nbytes) for column in block.columns.values()
                ]
            assert self._of_block is not None
            self._describe(self._of_block)
            self.journal.append(
                RecordKind.ROWS, [row[first * size : last * size] for row, size in self._bytes], last - first
            )
        except Exception:
            block.filled = first
            raise

    def _describe(self, schema: Schema) -> None:
        """Journal what the next rows look like, if it is not what the last ones did."""
        self._check()
        if schema is not self._schema and schema != self._schema:
            schema.store = self._name
            self.journal.append(RecordKind.SCHEMA, [schema.to_bytes()])
        self._schema = schema

    def gap(self, group: int | None) -> None:
        """Journal `break_here`."""
        self._check()
        self.journal.append(RecordKind.BREAK, [] if group is None else [struct.pack("<q", group)])

    def bad(self, row: Mapping[str, Any], why: str) -> None:
        """Put a row aside that cannot be used: it counts in the position, and in nothing else."""
        self._check()
        position = self.journal.at.position
        self.quarantine.add(position, row, why)
        try:
            self.journal.append(RecordKind.BAD, [why.encode()], 1)
        except OSError:
            self.quarantine.cut(position)
            raise
        self.quarantine.count += 1

    def _check(self) -> None:
        self._lock.check()
        if self.broken:
            raise InputError(f"the stream in {self.folder} cannot go on ({self.broken}): open it again")

    def tidy(self, stream: Any) -> None:
        """Write a snapshot if the journal has grown enough. What cannot be written now is tried again later."""
        end = self.journal.at.end
        if end >= self._grown:
            self._grown = end + max(LEAST, TIMES * self._size)
            self.snapshot(stream)

    def snapshot(self, stream: Any) -> None:
        """Write what the stream has learnt, and throw away what is no longer needed.

        Where that cannot be written it is a warning: all rows are in the journal, which is on the disk.
        """
        with uninterrupted(stream):
            self._check()
            self.catch_up(stream)
            number = self.journal.at.number
            if number == self._snapshot:
                return
            self.journal.to_disk()
            path = self.folder / f"snapshot-{number:020}.json"
            content = {"store": self._name, "position": stream.position, "quarantined": self.quarantine.count}
            content["state"] = stream.state()
            try:
                self.journal.rotate()
                self._schema = None
                self._size = save(path, content)
            except OSError as error:
                with suppress(OSError):
                    path.with_suffix(".npy").unlink(missing_ok=True)
                rows = f"the journal has all {stream.position:,} rows, and the stream goes on from there"
                warn(f"no snapshot could be written to {self.folder} ({error.strerror}); {rows}")
                return
            self._snapshot = number
            self._grown = max(LEAST, TIMES * self._size)
            self._forget(stream.position)

    def _forget(self, position: int) -> None:
        """Remove all snapshots but two, and the journal before the older one, but for the rows that are kept."""
        there = snapshots(self.folder)
        older = sorted(there)[-2:]
        for number in sorted(there)[:-2]:
            there[number].unlink(missing_ok=True)
            there[number].with_suffix(".npy").unlink(missing_ok=True)
        if self.settings.keep == "all" or len(older) < 2:
            return
        parts = list(segments(self.folder).items())
        for (_, path), (following, later) in pairwise(parts):
            try:
                ends = next((record.position for record in records(later, following)), position)
            except (Damaged, Torn):
                break
            if following > older[0] or ends > position - self.settings.keep:
                break
            path.unlink()

    def close(self, stream: Any) -> None:
        """Write a snapshot, and let others write."""
        try:
            if not self.broken and os.getpid() == self._lock.process:
                self.snapshot(stream)
        finally:
            self.journal.close()
            self._lock.release()


def begin(folder: Path) -> Lock:
    """Make a folder, if it is not there, and take the right to write to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = [path.name for path in folder.iterdir() if not _is_of_a_beginning(path)]
        if strangers and not (folder / "store.json").is_file():
            raise InputError(f"{folder} is not the store of a stream: it holds {strangers[0]!r}; give a new folder")
        return Lock(folder)
    except FileExistsError:
        raise InputError(f"{folder} is a file; a store is a folder") from None
    except OSError as error:
        reading = "; mr.Stream.open(path, read_only=True) reads it" if (folder / "store.json").exists() else ""
        raise InputError(f"{folder} cannot be written: {error.strerror}{reading}") from None


def _is_of_a_beginning(path: Path) -> bool:
    """Whether a file is what a writer leaves that was killed before there was a ``store.json``, or hidden."""
    empty = path.name == segment(path.parent, 0).name and path.stat().st_size == 0
    return empty or path.name in ("lock", "store.npy") or path.name.startswith(".")


def remove_orphans(folder: Path) -> None:
    """Remove what a writer left that was killed within a snapshot."""
    whole = {path.with_suffix(".npy") for path in snapshots(folder).values()}
    for path in [*folder.glob("snapshot-*.npy"), *folder.glob(".*.partial")]:
        if path not in whole:
            with suppress(OSError):
                path.unlink()
