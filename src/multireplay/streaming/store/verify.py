"""What is in a store, and whether all of it is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.streaming.store.checked import Damaged, load
from multireplay.streaming.store.journal import RecordKind, Torn, records, segments
from multireplay.streaming.store.lock import is_locked, writer_of
from multireplay.streaming.store.quarantine import read
from multireplay.streaming.store.replay import Player, Schema, check_folder, snapshots

TRIES = 20


@dataclass
class Verified:
    """A store that was read from beginning to end."""

    folder: Path
    made: dict[str, Any]
    stream: Any = None
    """As readers see it; None where it cannot be opened."""
    parts: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    writer: str | None = None

    @property
    def kept(self) -> int:
        """Rows in the journal."""
        return sum(part.get("rows") or 0 for part in self.parts)


def verify(path: Path, problem: Any = None) -> Verified:
    """Read every byte of a store and compare it with its checksums, and snapshots with what the journal gives.

    Where a writer has thrown away meanwhile what was to be read, it is read again.
    """
    check_folder(path)
    for left in reversed(range(TRIES)):
        files = {*segments(path).values(), *snapshots(path).values()}
        try:
            found = _verified(path, problem)
        except FileNotFoundError:
            if not left:
                raise
            continue
        if not found.wrong or all(file.exists() for file in files):
            break
    return found


def _verified(path: Path, problem: Any) -> Verified:
    from multireplay.streaming.stream import Stream

    found = Verified(path, load(path / "store.json", {"problem": problem}))
    found.writer = writer_of(path) if is_locked(path) else None
    files = list(segments(path).values())
    for file in files:
        at_work = found.writer is not None and file == files[-1]
        found.parts.append(_segment(file, [] if at_work else found.wrong))
    states = dict(_states(path, found))
    found.quarantined, damaged = read(path / "quarantine.ndjson")
    if damaged:
        found.wrong.append(f"{path / 'quarantine.ndjson'} has {damaged} damaged lines")
    for older, newer in pairwise(states):
        stream, name = Stream.from_state(found.made["problem"], states[older]["state"]), found.made.get("store", "")
        player = Player(stream, states[older]["position"], 0, name)
        found.wrong += _compared(path, player, older, newer)
    try:
        found.stream = Stream.open(path, problem, read_only=True)
        aside = sum(row["position"] < found.stream.position for row in found.quarantined) + damaged
        if found.writer is None and aside != found.stream.quarantined:
            counted = f"{found.stream.quarantined} rows were put aside"
            found.wrong.append(f"{path / 'quarantine.ndjson'} has {aside} rows, and {counted}")
    except InputError as error:
        found.wrong.append(str(error))
    return found


def _segment(path: Path, wrong: list[str]) -> dict[str, Any]:
    """What a part of the journal holds."""
    count, rows, schema, first = 0, 0, None, None
    try:
        for record in records(path, int(path.stem.partition("-")[2])):
            first = record.position if first is None else first
            count += 1
            if record.kind == RecordKind.SCHEMA:
                schema = Schema.read(record.payload)
            elif record.kind == RecordKind.ROWS and schema is not None:
                rows += len(next(iter(schema.rows(record.payload).values())))
        about = "whole"
    except Torn as torn:
        about = "torn"
        wrong.append(f"{path} ends within a record at byte {torn.start}, which is left out when it is opened to write")
    except Damaged as error:
        about = "damaged"
        wrong.append(str(error))
    size = path.stat().st_size
    return {"file": path.name, "records": count, "rows": rows, "from": first, "bytes": size, "about": about}


def _states(path: Path, found: Verified) -> Iterator[tuple[int, dict[str, Any]]]:
    """The snapshots that are whole."""
    for number, file in snapshots(path).items():
        size = file.stat().st_size
        try:
            content = load(file)
            size += file.with_suffix(".npy").stat().st_size
            about = "whole"
            yield number, content
        except (InputError, OSError) as error:
            about, content = "damaged", {}
            found.wrong.append(str(error))
        position = content.get("position")
        found.parts.append({"file": file.name, "from": position, "bytes": size, "about": about})


def _compared(path: Path, player: Player, older: int, newer: int) -> Iterator[str]:
    """What is wrong with a snapshot, given the one before it and the journal between them."""
    try:
        for number, file in segments(path).items():
            for record in records(file, number) if older <= number < newer else ():
                player.play(record, file)
        player.flush()
        kept = load(path / f"snapshot-{newer:020}.json")["state"]
    except (Torn, InputError, OSError):
        return  # which was said before
    made = player.stream.state()
    for name in made.keys() | kept.keys():
        one, other = (np.asarray(np.nan if state.get(name) is None else state.get(name)) for state in (made, kept))
        if one.shape != other.shape or not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            yield f"snapshot {newer} is not what snapshot {older} and the journal after it give, in {name}"
