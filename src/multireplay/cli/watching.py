"""Rows as they come from a pipe or a growing file, and the answer at intervals, for `multireplay watch`."""

from __future__ import annotations

import csv
import http.server
import json
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import save_text
from multireplay.cli.app import INTERRUPTED, note
from multireplay.cli.options import plain
from multireplay.errors import InputError, UncertaintyWarning
from multireplay.problems import GLM
from multireplay.show.text import say, short
from multireplay.streaming import Stream

LINKS = {"linear": "identity", "logistic": "logistic", "poisson": "exp"}
INTERCEPT = "(intercept)"
CHUNK, WAIT = 1 << 16, 0.2
NUMBERS = ("x", "standard_error", "low", "high", "statistic", "threshold", "rate")
POINTS = 400
"""Answers of the past that are kept for the page; more are thinned out."""


@dataclass
class Watched:
    """What is read of a row: the target, the features (those of the first row by default) and the time."""

    target: str
    model: str
    features: tuple[str, ...] | None
    time: str | None

    def row(self, row: Any) -> dict[str, Any]:
        """A row as numbers, or an error that names the column."""
        if not isinstance(row, dict):
            raise InputError("a row is a JSON object, with the columns by name")
        if self.features is None:
            self.features = tuple(name for name in row if name not in (self.target, self.time))
        found = {"features": [*(_number(row, name) for name in self.features), 1.0]}
        timed = {} if self.time is None else {"time": _moment(row, self.time)}
        return {**found, "targets": _number(row, self.target), **timed}


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    try:
        found = float("nan" if value in (None, "") else value)
    except (TypeError, ValueError):
        raise InputError(f"{name!r} is {value!r}, which is no number") from None
    if not np.isfinite(found):
        raise InputError(f"{name!r} is {'not there' if value in (None, '') else value}")
    return found


def _moment(row: Mapping[str, Any], name: str) -> float:
    with suppress(InputError):
        return _number(row, name)
    try:
        return datetime.fromisoformat(str(row.get(name))).timestamp()
    except ValueError:
        raise InputError(f"{name!r} is {row.get(name)!r}, which is neither a number nor a date") from None


Parsed = Iterator[list[tuple[bytes, Any]]]


def open_stream(store: Path, wanted: Watched, rows: Parsed, how: dict[str, Any]) -> tuple[Stream, Parsed]:
    """The stream in a folder, or a new one whose features are those of the first row; and the rows from there on."""
    if (store / "store.json").exists():
        stream = Stream.open(store, sync=how["sync"], bad=how["bad"])
        names = (stream._intake.names or (INTERCEPT,))[:-1]
        another = f"{stream.problem!r}" != f"{GLM(LINKS[wanted.model])!r}"
        if another or wanted.features not in (None, names) or (stream.clock == "time") != (wanted.time is not None):
            stream.close()
            given = f"with the features {', '.join(names)}{' and times' * (stream.clock == 'time')}"
            raise InputError(f"{store} is a stream of {stream.problem!r} {given}, which is not what is asked for")
        wanted.features = names
        return stream, rows
    seen = []
    while wanted.features is None:
        chunk = next(rows, None)
        if chunk is None:
            raise InputError("no row has come that tells the columns: give --features, or rows")
        seen.append(chunk)
    clock: Any = "rows" if wanted.time is None else "time"
    problem: Any = GLM(LINKS[wanted.model])
    stream = Stream(problem, clock=clock, names=[*wanted.features, INTERCEPT], store=store, **how)
    return stream, chain(seen, rows)


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


def parsed(chunks: Iterable[list[bytes]], wanted: Watched) -> Parsed:
    """Every line with its row, or with the error that says why it is none; a table in CSV begins with its names."""
    names: list[str] | None = None
    first = True
    for lines in chunks:
        found: list[tuple[bytes, Any]] = []
        for line in lines:
            text = line.strip()
            if not text:
                continue
            if first and not text.startswith((b"{", b"[")):
                names = next(csv.reader([text.decode("utf-8-sig", "replace")]))
                first = False
                continue
            first = False
            found.append((text, _parsed(text, names, wanted)))
        yield found


def _parsed(text: bytes, names: list[str] | None, wanted: Watched) -> Any:
    try:
        if names is None:
            return wanted.row(json.loads(text))
        cells = next(csv.reader([text.decode()]))
        if len(cells) != len(names):
            raise InputError(f"there are {len(cells)} cells, and {len(names)} columns")
        return wanted.row(dict(zip(names, cells, strict=True)))
    except (InputError, UnicodeDecodeError, RecursionError, csv.Error) as error:
        return InputError(str(error))
    except ValueError as error:
        return InputError(f"it is not JSON: {error}")


def watch_rows(stream: Stream, rows: Parsed, start: int, outputs: Outputs) -> int:
    """Take in all rows, of which the first has that position, and tell the answer at intervals; how to exit."""
    code = 0
    try:
        for some in rows:
            start = _take(stream, some, start)
            outputs.tell()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit:  # SIGTERM
        code = 0
    stream.save()
    outputs.tell(last=True)
    aside = f", {stream.quarantined:,} of them put aside" if stream.quarantined else ""
    note(f"{stream.position:,} rows were taken{aside}; the same command goes on from there.", "green")
    return code


def _take(stream: Stream, rows: list[tuple[bytes, Any]], start: int) -> int:
    """Take in rows that are new: those that can be used together, the others by themselves."""
    new = rows[max(stream.position - start, 0) :]
    at = 0
    while at < len(new):
        line, row = new[at]
        if isinstance(row, InputError):
            if stream._kept_in().settings.bad == "refuse":
                raise InputError(f"row {stream.position} (counting from 0): {row}")
            stream._put_aside({"line": line.decode("utf-8", "replace")}, str(row))
            at += 1
            continue
        end = next((k for k in range(at, len(new)) if isinstance(new[k][1], InputError)), len(new))
        stream.observe_many({name: np.array([one[name] for _, one in new[at:end]]) for name in row})
        at = end
    return start + len(rows)


@dataclass
class Outputs:
    """Where the answer is told: on standard output, on a page, and to Prometheus."""

    stream: Stream
    every: float
    report: Path | None = None
    metrics: int | None = None
    as_json: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = self._told = time.monotonic()
        self._rows = self.stream.position
        self._file = self.stream._kept_in().folder / "history.json"
        self.text = ""
        with suppress(OSError, ValueError, TypeError, KeyError):
            past = json.loads(self._file.read_text())
            self.history = [
                one for one in past if one["position"] <= self.stream.position and one.keys() >= set(NUMBERS)
            ]
        self.server = None if self.metrics is None else _served(self, self.metrics)

    def tell(self, last: bool = False) -> None:
        """Tell the answer, if it is time."""
        now = time.monotonic()
        if not last and now - self._told < self.every:
            return
        rate = (self.stream.position - self._rows) / max(now - self._told, 1e-9)
        self._told, self._rows = now, self.stream.position
        if self.stream.x is not None:
            self._tell(rate, last)
        if last and self.server is not None:
            self.server.shutdown()

    def _tell(self, rate: float, last: bool) -> None:
        result = self.stream.result()
        nothing = np.full(len(result.x), np.nan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertaintyWarning)  # the page marks them
            errors = result.standard_error
            ends = np.stack([nothing, nothing], axis=1) if errors is None else result.interval()
        known = {
            "position": result.position,
            "at": f"{datetime.now():%F %T}",
            "names": list(result.names),
            "x": result.x,
            "standard_error": nothing if errors is None else errors,
            "low": ends[:, 0],
            "high": ends[:, 1],
            "alarms": len(result.drift.alarms),
            "statistic": result.drift.statistic,
            "threshold": result.drift.threshold,
            "quarantined": self.stream.quarantined,
            "rate": rate,
        }
        self.text = metrics_text(known)
        self.history.append({name: value for name, value in known.items() if name != "names"})
        if len(self.history) > POINTS:
            del self.history[1:-1:2]
        save_text(self._file, json.dumps(plain(self.history)))
        if self.as_json:
            print(json.dumps(plain(known)), flush=True)
        else:
            shown = "  ".join(f"{name} {short(value)}" for name, value in zip(result.names[:8], result.x, strict=False))
            aside = f", {self.stream.quarantined} put aside" if self.stream.quarantined else ""
            say(f"{result.position:,} rows{aside}, {short(rate)} a second: {shown}")
            if last:
                say(str(result.drift))
        if self.report is not None:
            from multireplay.report.of_stream import report_of_stream

            about = f"{self.stream.problem!r} in {self._file.parent}"
            past = [{**one, **{name: as_numbers(one[name]) for name in NUMBERS}} for one in self.history]
            report_of_stream(self.report, result, past, about, max(self.every, 1.0))


def as_numbers(value: Any) -> Any:
    """Numbers from JSON, in which null stands for what is none."""
    return np.array(value, dtype=float)


def metrics_text(known: Mapping[str, Any]) -> str:
    """The answer as Prometheus reads it."""
    kinds = {"position": ("rows_total", "counter"), "quarantined": ("quarantined_total", "counter")}
    kinds |= {"alarms": ("drift_alarms_total", "counter"), "statistic": ("drift_statistic", "gauge")}
    kinds |= {"threshold": ("drift_threshold", "gauge"), "rate": ("rows_per_second", "gauge")}
    lines = []
    for key, (name, kind) in kinds.items():
        lines += [f"# TYPE multireplay_{name} {kind}", f"multireplay_{name} {_spelt(known[key])}"]
    for key, name in (("x", "coefficient"), ("standard_error", "standard_error"), ("low", "low"), ("high", "high")):
        lines.append(f"# TYPE multireplay_{name} gauge")
        for feature, value in zip(known["names"], known[key], strict=True):
            label = feature.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'multireplay_{name}{{name="{label}"}} {_spelt(value)}')
    return "\n".join(lines) + "\n"


def _spelt(value: float) -> str:
    return {np.inf: "+Inf", -np.inf: "-Inf"}.get(float(value), f"{float(value)!r}" if value == value else "NaN")


def _served(outputs: Outputs, port: int) -> http.server.ThreadingHTTPServer:
    """Serve the last answer on this machine alone."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            if self.path == "/metrics":
                self.wfile.write(outputs.text.encode())

        def log_message(self, *what: Any) -> None:
            pass

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"--metrics {port}: {error.strerror}") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    note(f"Metrics: http://127.0.0.1:{server.server_address[1]}/metrics", "green")
    return server
