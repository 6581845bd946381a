"""Rows as they come from a pipe or a growing file, taken into the stream of a store, for `multireplay watch`."""

from __future__ import annotations

import codecs
import csv
import json
import os
import select
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.csv

from multireplay.buffer.disk.dialect import SEPARATORS, WITH_COMMA, WITH_POINT
from multireplay.buffer.disk.tidy import NOTHING
from multireplay.buffer.names import INTERCEPT
from multireplay.cli.app import INTERRUPTED, UNEXPECTED, note
from multireplay.cli.options import names_in
from multireplay.cli.told import Outputs
from multireplay.cli.watched import FILE, Nothing, RowReading, Watched, WrongKind, value_of
from multireplay.errors import InputError
from multireplay.problems import GLM
from multireplay.streaming import Stream
from multireplay.tables import Recipe, Term

LINKS = {"linear": "identity", "logistic": "logistic", "poisson": "exp"}
UNASKED = {"forget": "auto", "window": None, "keep": 0}
"""What options are that were not given."""
CHUNK, WAIT, LATE = 1 << 16, 0.2, 2.0
"""Bytes that are read at once; seconds until it is looked again, and until nothing more comes for a file renamed."""
ANOTHER = "--new-rows takes the rows of another source as new ones"
EMPTY = {*pyarrow.csv.ConvertOptions().null_values, *NOTHING}
"""What stands for nothing in a cell of a text table."""
Lines = Iterator[list[tuple[bytes, Any]]]
"""Every line with its row by column, or with the error that says why it is none, some at a time."""


def open_stream(store: Path, wanted: Watched, rows: Lines, how: dict[str, Any]) -> tuple[Stream, RowReading, Lines]:
    """The stream in a folder, or a new one whose columns the first rows tell; how rows are read, and all rows."""
    there = RowReading.load(store) if (store / "store.json").exists() else None
    if there or ((store / "store.json").exists() and Stream.open(store, read_only=True).position):
        stream, reading = _going_on(store, wanted, there, how)
        if there is None:
            rows = _of_numbers(rows, (*reading.recipe.columns, reading.target), store)
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
    if there is None and wanted.group is not None:
        raise InputError(f"{store} has no {FILE}, which says what number each {wanted.group!r} has")
    stream = Stream.open(store, sync=how["sync"], bad=how["bad"])
    names = (stream._intake.names or (INTERCEPT,))[:-1]
    recipe = Recipe(tuple(map(Term, names)))
    reading = there or RowReading(wanted.target, recipe, time=wanted.time, group=wanted.group, model=wanted.model)
    made = {"forget": stream.forget, "window": stream.window, "keep": stream._kept_in().settings.keep}
    model = {f"{GLM(link)!r}": name for name, link in LINKS.items()}.get(f"{stream.problem!r}")
    pairs = {"--model": (model, wanted.model), **reading.beside(wanted)}
    pairs |= {"the clock": (stream.clock, "rows" if wanted.time is None else "time")}
    pairs |= {f"--{name}": (made[name], how[name]) for name, unasked in UNASKED.items() if how[name] != unasked}
    other = [f"{what}: {_said(here)}, and not {_said(asked)}" for what, (here, asked) in pairs.items() if here != asked]
    if not other:
        return stream, reading
    stream.close()
    raise InputError(f"{store} is a stream of {stream.problem!r} and not what is asked for. {'; '.join(other)}")


def _said(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else f"{value}"


def _of_numbers(rows: Lines, columns: Sequence[str], store: Path) -> Lines:
    """Rows, of which the first that can be read is to have numbers in these columns."""
    known = False
    for chunk in rows:
        for row in (row for _, row in chunk if isinstance(row, dict) and not known):
            for name in (name for name in columns if name not in row or isinstance(value_of(row[name]), str)):
                which = f"{name!r} is {row[name]!r}" if name in row else f"it has no {name!r}"
                raise InputError(f"{store} has no {FILE}, which says how rows are read, and of the first one {which}")
            known = True
        yield chunk


def learnt(wanted: Watched, rows: Lines) -> tuple[RowReading, list[list[tuple[bytes, Any]]]]:
    """What the columns hold, from one row where it has numbers alone, otherwise from the first of them."""
    seen: list[list[tuple[bytes, Any]]] = []
    found: list[dict[str, Any]] = []
    for chunk in filter(None, rows):
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
        recipe = Recipe(tuple(map(Term, wanted.features or ())))
        return RowReading(wanted.target, recipe, time=wanted.time, model=wanted.model), seen
    return RowReading.of(wanted, found[: wanted.learn]), seen


def declared(levels: list[str]) -> dict[str, tuple[str, ...]]:
    """What --levels means."""
    found = {}
    for text in levels:
        name, sign, listed = text.rpartition("=")
        if not sign or len(names := names_in(listed, "level")) < 2:
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
    """Lines as they come, some at a time, and none where nothing came for a moment; a file that grows is waited for."""
    if follow is None:
        return _lines(_piped(sys.stdin.buffer), True)
    if not follow.is_file() and not follow.is_fifo():
        raise InputError(f"there is no file {follow} to follow")
    return _lines(_growing(follow, once), once)


def _piped(source: Any) -> Iterator[bytes]:
    """What comes from a pipe, nothing whenever it is silent for a moment, until its other end is closed."""
    try:
        place = source.fileno()
    except (OSError, AttributeError):  # it is no pipe, and never waits
        place = None
    while True:
        if place is not None and not select.select([place], [], [], WAIT)[0]:
            yield b""
            continue
        data = source.read1(CHUNK) if place is None else os.read(place, CHUNK)
        if not data:
            return
        yield data


def _growing(path: Path, once: bool) -> Iterator[bytes]:
    """What a file has, and (nothing while there is no more) what is added to it; or what comes from a named pipe."""
    piped, begun, silent = path.is_fifo(), False, 0
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:  # a pipe may have no writer yet
        while True:
            data = file.read(CHUNK)
            begun = begun or bool(data) or not piped
            if data == b"" and once and begun:
                return
            silent = 0 if data else silent + 1
            if silent and not piped:
                _refuse_another(path, file, silent * WAIT > LATE)
            if not data:
                time.sleep(WAIT)
            yield data or b""


def _refuse_another(path: Path, file: Any, late: bool) -> None:
    """Raise where a file has been cut, or where others have its name and nothing more comes for it."""
    there = os.stat(path) if path.exists() else None
    if there is not None and os.path.samestat(there, os.fstat(file.fileno())):
        if there.st_size < file.tell():
            raise InputError(f"{path} has become shorter: rows are added to a file that is followed")
    elif late:
        what = "was deleted" if there is None else "is another file now"
        raise InputError(f"{path} {what}, and all rows of the one that was followed are taken; {ANOTHER}")


def _lines(parts: Iterable[bytes], ends: bool) -> Iterator[list[bytes]]:
    rest = b""
    for data in parts:
        *lines, rest = (rest + data).split(b"\n")
        yield lines
    if ends and rest.strip():
        yield [rest]


@dataclass
class RunningTable:
    """A table in CSV that grows: names, what stands between cells, and in numbers, as soon as a cell tells."""

    names: list[str]
    separator: str
    decimal: str = ""

    def row(self, text: bytes) -> Any:
        """The cells of a line by name, with a point in numbers; or the error that says why it is none."""
        cells = next(csv.reader([text.decode()], delimiter=self.separator))
        if len(cells) != len(self.names):
            return InputError(f"there are {len(cells)} cells, and {len(self.names)} columns")
        if self.separator != "," and self.decimal != ".":
            commas, points = ([one for one in cells if sign.fullmatch(one)] for sign in (WITH_COMMA, WITH_POINT))
            if self.decimal and points:
                return InputError(f"there is {points[0].strip()} with a point, where numbers have a decimal comma")
            if commas and not points:
                if not self.decimal:
                    note(f"Numbers have a decimal comma, as {commas[0].strip()}.", "green")
                cells = [one.replace(",", ".") if one in commas else one for one in cells]
            self.decimal = "." if points else "," if commas else self.decimal
        return {name: None if cell.strip() in EMPTY else cell for name, cell in zip(self.names, cells, strict=True)}


def parsed(chunks: Iterable[list[bytes]], wanted: Watched) -> Lines:
    """Every line with its row, or with the error that says why it is none; a table in CSV begins with its names."""
    table: RunningTable | None = None
    first = True
    for lines in chunks:
        found: list[tuple[bytes, Any]] = []
        for line in lines:
            text = (line.removeprefix(codecs.BOM_UTF8) if first else line).strip(b" \r\n")
            if not text.strip():
                continue
            if first and not text.startswith((b"{", b"[")):
                table = _header(text, wanted)
            else:
                found.append((text, _parsed(text, table)))
            first = False
        yield found


def _header(text: bytes, wanted: Watched) -> RunningTable:
    """A table by its first line: the names."""
    line = text.decode("utf-8", "replace")
    separator = max(SEPARATORS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator))]
    for name in wanted.named():
        if name not in names:
            raise InputError(
                f"the first line is {line[:80]!r}: neither a JSON object nor a header with a column {name!r}"
            )
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the first line names the column {name!r} {names.count(name)} times: which is meant?")
    return RunningTable(names, separator)


def _parsed(text: bytes, table: RunningTable | None) -> Any:
    try:
        if table is None:
            row = json.loads(text)
            return row if isinstance(row, dict) else InputError("a row is a JSON object, with the columns by name")
        return table.row(text)
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
        if start == 0 and rows:
            self._begin(rows[0][0])
        new = [(line, self.reading.read(row)) for line, row in rows[max(self.stream.position - start, 0) :]]
        self.reading.keep(self.stream._kept_in().folder)
        if self.reading.is_doubtful:
            at, misfit = next((n, r) for n, (_, r) in enumerate(new, self.stream.position) if isinstance(r, WrongKind))
            raise InputError(f"many of the first rows cannot be used, as row {at} (counting from 0): {misfit}")
        for bad, some in groupby(new, lambda pair: isinstance(pair[1], InputError)):
            found = list(some)
            if not bad:
                good = [cast(dict[str, Any], row) for _, row in found]
                self.stream.observe_many({name: np.array([row[name] for row in good]) for name in good[0]})
            for line, why in found if bad else ():
                self._put_aside(line, why)
        return start + len(rows)

    def _begin(self, line: bytes) -> None:
        """Remember with which line a stream began; rows of another source are not those that were taken before."""
        first = zlib.crc32(line)
        if self.stream.position and self.reading.first not in (None, first):
            began = f"the source begins with {line[:80]!r}, which is not the first row of {self.stream._folder}"
            raise InputError(f"{began}: none of it was taken before. {ANOTHER}")
        self.reading.first = first

    def _put_aside(self, line: bytes, why: Any) -> None:
        drop = self.drop and isinstance(why, Nothing)
        if not drop and self.stream._kept_in().settings.bad == "refuse":
            raise InputError(f"row {self.stream.position} (counting from 0): {why}")
        self.stream._put_aside({"line": line.decode("utf-8", "replace")}, str(why))


def watch_rows(taking: Feeding, rows: Lines, start: int, outputs: Outputs) -> int:
    """Take in all rows, of which the first has that position, and tell the answer at intervals; how to exit."""
    code, stream = 0, taking.stream
    if start < stream.position:
        note(f"The first {stream.position:,} rows of the source were taken before, and are skipped.")
    try:
        for some in rows:
            try:
                start = taking.take(some, start) if some else start
            except OSError as error:
                taken = f"{stream.position:,} rows were taken before, and are kept"
                note(f"{error.filename or stream._folder} cannot be written: {error.strerror}; {taken}.", "red")
                code = UNEXPECTED
                break
            outputs.tell(silent=not some)
        else:
            if 0 < start < stream.position:
                ends = f"the source ends after {start:,} rows, and {stream.position:,} were taken before"
                ways = f"{ANOTHER}; another stream needs another --store"
                raise InputError(f"{ends}: it has nothing new. {ways}")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit:  # SIGTERM
        code = 0
    outputs.tell(last=True)
    note(said_at_end(stream), "green")
    return code


def said_at_end(stream: Stream) -> str:
    """How many rows were taken."""
    aside = f", {stream.quarantined:,} of them put aside" if stream.quarantined else ""
    return f"{stream.position:,} rows were taken{aside}; the same command goes on from there."
