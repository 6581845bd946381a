"""Where `multireplay watch` tells the answer: on standard output, on a page that is loaded again, and to Prometheus."""

from __future__ import annotations

import http.server
import json
import threading
import time
import warnings
from collections.abc import Mapping
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
from multireplay.show.text import say, short
from multireplay.streaming import Stream

NUMBERS = ("x", "standard_error", "low", "high", "statistic", "threshold", "rate")
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
