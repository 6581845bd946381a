"""From the folder to the stream: the newest whole snapshot, and the rows of the journal after it once more."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import completed
from multireplay.errors import InputError
from multireplay.streaming.store.checked import Damaged, load
from multireplay.streaming.store.journal import SIZE, JournalRecord, Place, RecordKind, Torn, records, segment, segments

TOGETHER = 1 << 23
"""Bytes of rows that are taken in together."""


@dataclass
class Schema:
    """What the rows of a journal look like: name, type and shape of every column, and the names of the features."""

    columns: list[tuple[str, str, tuple[int, ...]]]
    names: list[str] | None
    store: str = field(default="", compare=False)
    """The name of the store, by which rows of another are known."""

    @classmethod
    def of(cls, columns: dict[str, Any], names: Any) -> Schema:
        """Of the rows that are about to be written."""
        found = [(name, column.dtype.str, tuple(column.shape[1:])) for name, column in columns.items()]
        return cls(found, None if names is None else list(names))

    @classmethod
    def read(cls, payload: bytes) -> Schema:
        """From a record."""
        text = json.loads(payload)
        return cls(
            [(name, kind, tuple(shape)) for name, kind, shape in text["columns"]], text["names"], text.get("store", "")
        )

    def to_bytes(self) -> bytes:
        """For a record."""
        return json.dumps({"columns": self.columns, "names": self.names, "store": self.store}).encode()

    def rows(self, payload: bytes) -> dict[str, Any]:
        """The columns in a record."""
        sizes = [np.dtype(kind).itemsize * int(np.prod(shape)) for _, kind, shape in self.columns]
        count, rest = divmod(len(payload), sum(sizes))
        if rest:
            raise Damaged("a record has rows of another width than its schema")
        found, at = {}, 0
        for (name, kind, shape), size in zip(self.columns, sizes, strict=True):
            found[name] = np.frombuffer(payload, dtype=kind, count=count * size // np.dtype(kind).itemsize, offset=at)
            found[name] = found[name].reshape(count, *shape)
            at += count * size
        return found


@dataclass
class Recovered:
    """A stream as its folder has it, and where its journal ends."""

    stream: Any
    store: str = ""
    """Its name."""
    at: Place = field(default_factory=lambda: Place(0, 0, 0))
    first: int = 0
    """The number of the first record of the last segment."""
    snapshot: int = -1
    """The number of the record after the snapshot; -1 where there is none."""
    quarantined: int = 0
    aside: list[Path] = field(default_factory=list)
    """Files that are damaged, and were not needed."""
    rest: list[Path] = field(default_factory=list)
    """The part of the journal in which it goes on, where that is damaged, and those after it."""
    notes: list[str] = field(default_factory=list)


def snapshots(folder: Path) -> dict[int, Path]:
    """The snapshots by the number of the record that comes after them, in order."""
    return {int(p.stem.partition("-")[2]): p for p in sorted(folder.glob("snapshot-" + "[0-9]" * 20 + ".json"))}


def recovered(
    folder: Path, store: str, fresh: Callable[[], Any], resume: Callable[[Any], Any], repair: bool = False
) -> Recovered:
    """The stream in a folder, from the newest snapshot that is whole; `fresh` and `resume` make a stream, of a state.

    A record that was not whole when the writer stopped is left out. Damage before the last record is an error, unless
    `repair` is asked for: then what comes before it is what there is.
    """
    found, why = Recovered(None, store), ""
    for number, path in reversed(snapshots(folder).items()):
        try:
            content = load(path)
            if content.get("store", "") != store:
                raise Damaged(f"{path} is of another store")
            found.stream = resume(content["state"])
        except (Damaged, KeyError, FileNotFoundError) as error:
            why = why or f" ({error})"
            found.notes.append(f"{error}; an older snapshot and the journal after it give the same")
            found.aside += [path, path.with_suffix(".npy")]
            continue
        found.at, found.first, found.snapshot = Place(0, number, content["position"]), number, number
        found.quarantined = content["quarantined"]
        if found.stream.position != content["position"]:
            raise Damaged(f"{path} is damaged: its state has seen {found.stream.position} rows")
        break
    else:
        found.stream = fresh()
    if found.snapshot < 0 and 0 not in segments(folder):
        raise Damaged(f"{folder} has no whole snapshot{why}, and its journal does not go back to the first row")
    _replay(folder, found, repair)
    return found


def _replay(folder: Path, found: Recovered, repair: bool) -> None:
    """Take in what the journal has after the snapshot."""
    player = Player(found.stream, found.at.position, found.quarantined, found.store)
    parts = {number: path for number, path in segments(folder).items() if number >= found.at.number}
    last = max(parts, default=0)
    try:
        for number, path in (parts or {last + 1: folder}).items():
            if number != found.at.number:  # the one of a snapshot is there before it
                raise Damaged(f"{folder} lacks the part of its journal from record {found.at.number} on")
            found.first, found.at = number, Place(0, number, found.at.position)
            try:
                for record in records(path, number):
                    player.play(record, path)
                    end = record.start + SIZE + len(record.payload)
                    found.at = Place(end, record.number + 1, player.position)
            except Torn:
                if number != last:
                    raise Damaged(f"{path} ends within a record, and others follow") from None
                left = f"the last record of {path} was not whole and is left out"
                found.notes.append(f"{left}: feed again from position {player.position}")
    except Damaged as error:
        if not repair:
            raise Damaged(f"{error}; {_way_out(player)}") from None
        found.rest = [path for number, path in parts.items() if number >= found.first]
        found.notes.append(f"{error}: feed again from position {player.position}")
    player.flush()
    found.quarantined = player.quarantined
    if found.stream.position != found.at.position:
        raise Damaged(f"the journal in {folder} has {found.at.position} rows, its stream {found.stream.position}")


def _way_out(player: Player) -> str:
    return (
        f"mr.Stream.open(path, repair=True) goes back to position {player.position}, and rows are fed again from there"
    )


class Player:
    """Takes records into a stream, as they were when they came; rows one after the other together."""

    def __init__(self, stream: Any, position: int, quarantined: int, store: str) -> None:
        self.stream, self.position, self.quarantined, self.store = stream, position, quarantined, store
        self._schema: Schema | None = None
        self._waiting: list[dict[str, Any]] = []
        self._bytes = 0

    def play(self, record: JournalRecord, path: Path) -> None:
        """Take in one record."""
        if record.position != self.position:
            raise Damaged(f"{path} is damaged at byte {record.start}: its position is {record.position}")
        if record.kind == RecordKind.ROWS and self._schema is not None:
            rows = self._schema.rows(record.payload)
            self._waiting.append(rows)
            self._bytes += len(record.payload)
            self.position += len(next(iter(rows.values())))
            if "time" in rows or self._bytes > TOGETHER:
                self.flush()
            return
        self.flush()
        if record.kind == RecordKind.SCHEMA:
            self._schema = Schema.read(record.payload)
            if self._schema.store != self.store:
                raise Damaged(f"{path} is damaged at byte {record.start}: its rows are those of another store")
            if self._schema.names is not None and self.stream._intake.names is None:
                self.stream._intake.names = tuple(self._schema.names)
        elif record.kind == RecordKind.BREAK:
            self.stream.break_here(*struct.unpack("<q", record.payload) if record.payload else ())
        elif record.kind == RecordKind.BAD:
            self.stream._held += 1
            self.position += 1
            self.quarantined += 1
        else:
            raise Damaged(f"{path} has a record of kind {record.kind} at byte {record.start}, which is not known")

    def flush(self) -> None:
        """Let the stream have the rows that wait."""
        if self._waiting:
            names = self._waiting[0]
            self.stream._take({name: np.concatenate([rows[name] for rows in self._waiting]) for name in names})
        self._waiting, self._bytes = [], 0


def put_aside(found: Recovered) -> None:
    """Give damaged files a name under which nobody reads them; of the journal's part that goes on, keep a copy."""
    for path in [*found.aside, *found.rest]:
        if not path.exists():
            continue
        aside, others = path.with_name(f"damaged-{path.name}"), 1
        while aside.exists():
            others += 1
            aside = path.with_name(f"damaged-{others}-{path.name}")
        if path != segment(path.parent, found.first):
            os.replace(path, aside)
        elif path.stat().st_size > found.at.end:
            with completed(aside) as file:
                file.write(path.read_bytes())


def check_folder(folder: Path) -> None:
    """Raise unless this is the folder of a store."""
    if not folder.is_dir():
        raise InputError(f"there is no store {folder}")
    if not (folder / "store.json").is_file():
        raise InputError(f"{folder} is not the store of a stream: it has no store.json")
