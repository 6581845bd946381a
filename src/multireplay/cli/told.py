"""Where `multireplay watch` tells the answer: on standard output, on a page that is loaded again, and to Prometheus."""

from __future__ import annotations

import errno
import http.server
import json
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import save_text
from multireplay.cli.app import note
from multireplay.cli.options import plain
from multireplay.errors import InputError, UncertaintyWarning
from multireplay.show.text import rough, say, short
from multireplay.streaming import Stream
from multireplay.streaming.answer import StreamResult

NUMBERS = ("x", "standard_error", "low", "high", "statistic", "threshold", "rate")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What is wrong where there is no room to write."""
IDLE = 1.0
"""Seconds between two answers while no row comes, at least."""
POINTS = 400
"""Answers of the past that are kept for the page; more are thinned out."""


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
        self._result: StreamResult | None = None
        self._full = False
        self.known: dict[str, Any] = {**self._counted(), "rate": 0.0}
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = json.loads(self._file.read_text())
            whole = found["crc32"] == zlib.crc32(json.dumps(found["answers"]).encode())
            self.history = [one for one in found["answers"] if whole and one["position"] <= self.stream.position]
        self.server = None if self.metrics is None else _served(self, self.metrics)

    def tell(self, last: bool = False, silent: bool = False) -> None:
        """Tell the answer, if it is time; where it is `silent`, as no row came, that it is still the same."""
        now = time.monotonic()
        self.known = {**self.known, **self._counted()}
        if not last and now - self._told < (max(self.every, IDLE) if silent else self.every):
            return
        rate = (self.stream.position - self._rows) / max(now - self._told, 1e-9)
        self._told, self._rows = now, self.stream.position
        if self.stream.x is not None:
            self._tell(rate, last)
        if last and self.server is not None:
            self.server.shutdown()

    @property
    def text(self) -> str:
        """The last answer as Prometheus reads it, with counts of this moment."""
        return metrics_text(self.known)

    def _counted(self) -> dict[str, int]:
        return {"position": self.stream.position, "quarantined": self.stream.quarantined}

    def _tell(self, rate: float, last: bool) -> None:
        if self._result is None or self._result.position != self.stream.position:
            self._result = self.stream.result()
        result = self._result
        nothing = np.full(len(result.x), np.nan)
        with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):  # the page marks them
            errors = result.standard_error
            ends = np.stack([nothing, nothing], axis=1) if errors is None else result.interval()
        known: dict[str, Any] = {
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
        self.known = known
        if [one["position"] for one in self.history[-2:]] == [result.position] * 2:
            del self.history[-1]  # of a time without rows the beginning and the end are kept
        self.history.append({name: value for name, value in known.items() if name != "names"})
        if len(self.history) > POINTS:
            del self.history[1:-1:2]
        text = json.dumps(plain(self.history))
        self._write(save_text, self._file, f'{{"crc32": {zlib.crc32(text.encode())}, "answers": {text}}}')
        if self.as_json:
            print(json.dumps(plain(known)), flush=True)
        else:
            each = zip(result.names[:8], result.x, known["standard_error"], strict=False)
            shown = "  ".join(f"{name} {short(x)}" + f" ± {rough(se)}" * bool(se >= 0) for name, x, se in each)
            aside = f", {self.stream.quarantined} put aside" if self.stream.quarantined else ""
            say(f"{result.position:,} rows{aside}, {short(rate)} a second: {shown}")
            if last:
                say(str(result.drift))
        if self.report is not None:
            from multireplay.report.of_stream import report_of_stream

            about = f"{self.stream.problem!r} in {self._file.parent}"
            past = [{**one, **{name: as_numbers(one[name]) for name in NUMBERS}} for one in self.history]
            self._write(report_of_stream, self.report, result, past, about, max(self.every, 1.0))

    def _write(self, write: Callable[..., Any], file: Path, *what: Any) -> None:
        """Write a file; where there is no room it is as it was, which is said once, and written again next time."""
        try:
            write(file, *what)
            self._full = False
        except OSError as error:
            if error.errno not in FULL:
                raise
            if not self._full:
                note(f"{file} cannot be written now: {error.strerror}.")
            self._full = True


def as_numbers(value: Any) -> Any:
    """Numbers from JSON, in which null stands for what is none."""
    return np.array(value, dtype=float)


def metrics_text(known: Mapping[str, Any]) -> str:
    """The answer as Prometheus reads it."""
    kinds = {"position": ("rows_total", "counter"), "quarantined": ("quarantined_total", "counter")}
    kinds |= {"alarms": ("drift_alarms_total", "counter"), "statistic": ("drift_statistic", "gauge")}
    kinds |= {"threshold": ("drift_threshold", "gauge"), "rate": ("rows_per_second", "gauge")}
    lines = []
    for key, (name, kind) in ((key, kinds[key]) for key in kinds if key in known):
        lines += [f"# TYPE multireplay_{name} {kind}", f"multireplay_{name} {_spelt(known[key])}"]
    for key, name in (("x", "coefficient"), ("standard_error", "standard_error"), ("low", "low"), ("high", "high")):
        if key not in known:
            continue
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
