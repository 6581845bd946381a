"""Rows as they come from a pipe or a growing file, taken into the stream of a store, for `multireplay watch`."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.csv

from multireplay.buffer.disk.dialect import SEPARATORS
from multireplay.buffer.disk.tidy import NOTHING
from multireplay.cli.app import INTERRUPTED, note
from multireplay.cli.options import names_in
from multireplay.cli.told import Outputs
from multireplay.cli.watched import Nothing, RowReading, Watched
from multireplay.errors import InputError
from multireplay.problems import GLM
from multireplay.streaming import Stream
from multireplay.tables import Recipe, Term

LINKS = {"linear": "identity", "logistic": "logistic", "poisson": "exp"}
INTERCEPT = "(intercept)"
UNASKED = {"forget": "auto", "window": None, "keep": 0}
"""What options are that were not given."""
CHUNK, WAIT = 1 << 16, 0.2
EMPTY = {*pyarrow.csv.ConvertOptions().null_values, *NOTHING}
"""What stands for nothing in a cell of a text table."""

Lines = Iterator[list[tuple[bytes, Any]]]
"""Every line with its row by column, or with the error that says why it is none, some at a time."""


def open_stream(store: Path, wanted: Watched, rows: Lines, how: dict[str, Any]) -> tuple[Stream, RowReading, Lines]:
    """The stream in a folder, or a new one whose columns the first rows tell; how rows are read, and all rows."""
    there = RowReading.load(store) if (store / "store.json").exists() else None
    if there or ((store / "store.json").exists() and Stream.open(store, read_only=True).position):
        stream, reading = _going_on(store, wanted, there, how)
    else:
        reading, seen = learnt(wanted, rows)
        clock: Any = "rows" if wanted.time is None else "time"
        problem: Any = GLM(LINKS[wanted.model])
        stream = Stream(problem, clock=clock, names=[*reading.recipe.names, INTERCEPT], store=store, **how)
        rows = chain(seen, rows)
    reading.keep(store)
    for line in reading.sentences():
        note(line, "green")
    return stream, reading, rows


def _going_on(store: Path, wanted: Watched, there: RowReading | None, how: dict[str, Any]) -> tuple[Stream, RowReading]:
    """The stream that is there, which is refused where another is asked for; without a reading it has numbers alone."""
    stream = Stream.open(store, sync=how["sync"], bad=how["bad"])
    names = (stream._intake.names or (INTERCEPT,))[:-1]
    reading = there or RowReading(wanted.target, Recipe(tuple(map(Term, names))), time=wanted.time, group=wanted.group)
    made = {"forget": stream.forget, "window": stream.window, "keep": stream._kept_in().settings.keep}
    other = [name for name, unasked in UNASKED.items() if how[name] != unasked and how[name] != made[name]]
    timed = (stream.clock == "time") == (wanted.time is not None)
    if f"{stream.problem!r}" == f"{GLM(LINKS[wanted.model])!r}" and reading.serves(wanted) and timed and not other:
        return stream, reading
    stream.close()
    given = f"{reading.target!r} from {', '.join(reading.recipe.columns)}"
    beside = "".join(f", {what} {name!r}" for what in ("time", "group") if (name := getattr(reading, what)))
    beside += "".join(f", {name} {made[name]}" for name in other)
    raise InputError(f"{store} is a stream of {stream.problem!r}: {given}{beside}, and not what is asked for")


def learnt(wanted: Watched, rows: Lines) -> tuple[RowReading, list[list[tuple[bytes, Any]]]]:
    """What the columns hold, from one row where it has numbers alone, otherwise from the first of them."""
    seen: list[list[tuple[bytes, Any]]] = []
    found: list[dict[str, Any]] = []
    for chunk in rows:
        seen.append(chunk)
        told = len(found)
        found += [row for _, row in chunk if isinstance(row, dict)]
        if found and wanted.told_by(found[0]):
            return RowReading.of(wanted, found[:1]), seen
        if len(found) >= wanted.learn:
            break
        if found and not told:
            note(f"What the columns may hold is learnt from {wanted.learn} rows, unless --levels says so.")
    if not found and wanted.features is None:
        raise InputError("no row has come that tells the columns: give --features, or rows")
    if not found:
        return RowReading(wanted.target, Recipe(tuple(map(Term, wanted.features or ()))), time=wanted.time), seen
    return RowReading.of(wanted, found[: wanted.learn]), seen


def declared(levels: list[str]) -> dict[str, tuple[str, ...]]:
    """What --levels means."""
    found = {}
    for text in levels:
        name, sign, listed = text.rpartition("=")
        if not sign or len(names := names_in(listed)) < 2:
            raise InputError(f"--levels is column=level,level,..., with two levels at least, not {text!r}")
        found[name] = tuple(names)
    return found


def half_life(forget: str) -> Any:
    """What --forget means."""
    if forget in ("auto", "none"):
        return None if forget == "none" else forget
    try:
        return float(forget)
    except ValueError:
        raise InputError(f"--forget is auto, none or a number, not {forget!r}") from None


def rows_from(follow: Path | None, once: bool) -> Iterator[list[bytes]]:
    """Lines as they come, some at a time; a file that grows is waited for."""
    if follow is None:
        source: Any = sys.stdin.buffer
        return _lines(lambda: source.read1(CHUNK), True)
    if not follow.is_file():
        raise InputError(f"there is no file {follow} to follow")
    file = follow.open("rb")

    def more() -> bytes:
        while not (data := file.read(CHUNK)) and not once:
            if follow.stat().st_size < file.tell():
                raise InputError(f"{follow} has become shorter: rows are added to a file that is followed")
            time.sleep(WAIT)
        return data

    return _lines(more, once)


def _lines(more: Any, ends: bool) -> Iterator[list[bytes]]:
    rest = b""
    while data := more():
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield lines
    if ends and rest.strip():
        yield [rest]


def parsed(chunks: Iterable[list[bytes]]) -> Lines:
    """Every line with its row, or with the error that says why it is none; a table in CSV begins with its names."""
    table: tuple[list[str], str] | None = None
    first = True
    for lines in chunks:
        found: list[tuple[bytes, Any]] = []
        for line in lines:
            text = line.strip(b" \r\n")
            if not text.strip():
                continue
            if first and not text.startswith((b"{", b"[")):
                names = text.decode("utf-8-sig", "replace")
                separator = max(SEPARATORS, key=names.count)
                table = [name.strip() for name in next(csv.reader([names], delimiter=separator))], separator
                first = False
                continue
            first = False
            found.append((text, _parsed(text, table)))
        yield found


def _parsed(text: bytes, table: tuple[list[str], str] | None) -> Any:
    try:
        if table is None:
            row = json.loads(text)
            return row if isinstance(row, dict) else InputError("a row is a JSON object, with the columns by name")
        names, separator = table
        cells = next(csv.reader([text.decode()], delimiter=separator))
        if len(cells) != len(names):
            return InputError(f"there are {len(cells)} cells, and {len(names)} columns")
        return {name: None if cell.strip() in EMPTY else cell for name, cell in zip(names, cells, strict=True)}
    except (UnicodeDecodeError, RecursionError, csv.Error) as error:
        return InputError(str(error))
    except ValueError as error:
        return InputError(f"it is not JSON: {error}")


@dataclass(frozen=True)
class Feeding:
    """A stream, how rows become its numbers, and whether those with empty cells are put aside in any case."""

    stream: Stream
    reading: RowReading
    drop: bool = False

    def take(self, rows: list[tuple[bytes, Any]], start: int) -> int:
        """Take in rows that are new: those that can be used together, the others by themselves; the next position."""
        new = [(line, self.reading.read(row)) for line, row in rows[max(self.stream.position - start, 0) :]]
        self.reading.keep(self.stream._kept_in().folder)
        for bad, some in groupby(new, lambda pair: isinstance(pair[1], InputError)):
            found = list(some)
            if not bad:
                good = [cast(dict[str, Any], row) for _, row in found]
                self.stream.observe_many({name: np.array([row[name] for row in good]) for name in good[0]})
            for line, why in found if bad else ():
                self._put_aside(line, why)
        return start + len(rows)

    def _put_aside(self, line: bytes, why: Any) -> None:
        drop = self.drop and isinstance(why, Nothing)
        if not drop and self.stream._kept_in().settings.bad == "refuse":
            raise InputError(f"row {self.stream.position} (counting from 0): {why}")
        self.stream._put_aside({"line": line.decode("utf-8", "replace")}, str(why))


def watch_rows(taking: Feeding, rows: Lines, start: int, outputs: Outputs) -> int:
    """Take in all rows, of which the first has that position, and tell the answer at intervals; how to exit."""
    code = 0
    try:
        for some in rows:
            start = taking.take(some, start)
            outputs.tell()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit:  # SIGTERM
        code = 0
    taking.stream.save()
    outputs.tell(last=True)
    aside = f", {taking.stream.quarantined:,} of them put aside" if taking.stream.quarantined else ""
    note(f"{taking.stream.position:,} rows were taken{aside}; the same command goes on from there.", "green")
    return code
