"""Streams of too many coordinates for matrices: a window of rows, fitted anew whenever a quarter of it is new."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.result import Status
from multireplay.solve import solve
from multireplay.streaming.answer import Drift, Told
from multireplay.streaming.blocks import LARGEST
from multireplay.streaming.fresh import Beginning

WIDEST = 512
"""Coordinates up to which the matrices of all batches are kept, and no window of rows."""
NUMBERS = 2**24
"""Numbers in the window at most: 128 MiB."""
AGAIN = 0.25
"""Another fit is made when there are so many more rows, as a share of those in the window."""
FIRST = 4


class WindowLearner:
    """The last rows of a stream, in bounded memory, and `multireplay.solve` of them from the last answer.

    Fits are made when the stream has 4, 8, 16, … rows, then a quarter more each time, and at last whenever a quarter
    of the window is new. Between fits the answer is the last one, so that a row costs what it adds to a fit's passes.
    """

    def __init__(self, problem: Problem, example: Columns, memory: Any) -> None:
        if np.isfinite(memory.half_life):
            raise InputError(
                f"forget= needs matrices, which a stream keeps of up to {WIDEST} coordinates: give window= for x of "
                f"{problem.dim(example)}"
            )
        self.problem, self.window, self.dim = problem, memory.window, problem.dim(example)
        self.most = max(NUMBERS // sum(column[0].size for column in example.values()), 2 * LARGEST)
        self.rows = self.counted = self.fitted = 0
        """Rows of all full blocks, rows in the last fit, and how many had come by then."""
        self.x = np.zeros(self.dim)
        self.ok = False
        self.blocks: list[Columns] = []
        self.stamps: list[float] = []

    @property
    def block(self) -> int:
        """Rows of the next block: it depends on the rows before it alone."""
        return min(max(self.rows, FIRST), LARGEST)

    @property
    def kept(self) -> int:
        """Rows in the window."""
        return sum(map(row_count, self.blocks))

    def add(self, block: Columns, stamp: float) -> None:
        """Take in a full block; `stamp` is its last row's number or time."""
        self.blocks.append({name: column.copy() for name, column in block.items()})
        self.stamps.append(stamp)
        self.rows += row_count(block)
        while self.kept > self.most or self.stamps[0] <= stamp - self.window:
            self.blocks, self.stamps = self.blocks[1:], self.stamps[1:]
        if self.rows - self.fitted >= AGAIN * self.kept:
            self._fit()

    def _columns(self) -> dict[str, Any]:
        return {name: np.concatenate([block[name] for block in self.blocks]) for name in self.blocks[0]}

    def _fit(self) -> None:
        record = Buffer(**self._columns())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status says what they do
            found = solve(self.problem, record, x0=self.x, holdout=None)
        self.ok = bool(found.status.ok and np.isfinite(found.x).all())
        if np.isfinite(found.x).all():
            self.x = found.x
        self.counted, self.fitted = len(record), self.rows

    def start(self) -> Beginning:
        """What predictions begin with, and stay with: the last fit."""
        return Beginning(self.x, None)

    def answer(self, tail: Columns) -> Told:
        """The last fit, and what it is a fit of."""
        del tail
        if not self.fitted:
            return Told(self.x, 0, Status("filling", f"No fit yet: the first is made of {FIRST} rows."))
        message = (
            f"The fit of {self.counted} rows, the last of them row {self.fitted}: {self.dim} coordinates are too many "
            "for sums, and the window is fitted anew (mr.solve) whenever a quarter of it is new."
        )
        status = Status("running", message) if self.ok else Status("not converged", f"Not converged. {message}")
        return Told(self.x, self.counted, status)

    def images(self, x: Vector) -> None:
        """There are no batches to say how far off an answer may be."""

    def source(self, x: Vector) -> None:
        """There is no record but the window."""

    @property
    def drift(self) -> Drift:
        """Nothing is looked for."""
        return Drift((), False, np.inf, self.rows - self.kept, 0.0, np.inf, watched=False)

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers, in one flat dictionary."""
        numbers = {name: getattr(self, name) for name in ("rows", "counted", "fitted", "ok")}
        lengths = np.array([row_count(block) for block in self.blocks], dtype=np.int64)
        rows = {f"window.{name}": column for name, column in self._columns().items()} if self.blocks else {}
        return {**numbers, **rows, "x": self.x, "lengths": lengths, "stamps": np.array(self.stamps)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.rows, self.counted, self.fitted = (int(state[name]) for name in ("rows", "counted", "fitted"))
        self.ok, self.x, self.stamps = bool(state["ok"]), state["x"].copy(), state["stamps"].tolist()
        cuts = np.cumsum(state["lengths"])[:-1]
        names = [name for name in state if name.startswith("window.")]
        parts = zip(*(np.split(state[name], cuts) for name in names), strict=True) if len(state["lengths"]) else ()
        self.blocks = [dict(zip((name[7:] for name in names), part, strict=True)) for part in parts]
