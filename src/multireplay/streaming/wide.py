"""Streams of too many coordinates for matrices: a window of rows, of which `multireplay.solve` makes the answer."""

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
from multireplay.result import Result, Status
from multireplay.solve import solve
from multireplay.streaming.answer import Drift, LeftOpen, Told
from multireplay.streaming.batches import SHARE, Memory, part_of
from multireplay.streaming.blocks import LARGEST
from multireplay.streaming.drift import Chart, Excerpt, level_of
from multireplay.streaming.early import EXACT, Early
from multireplay.streaming.fresh import Beginning

WIDEST = 512
"""Coordinates up to which the matrices of all batches are kept, and no window of rows."""
NUMBERS = 2**24
"""Numbers in the window at most: 128 MiB."""
AGAIN = 0.1
"""What predicts is worked out anew when there are so many more rows, as a share of those that count: an answer that
lacks a tenth of them is off by √1.1, or 1.05, times what it would be."""
FIRST = 4
ENOUGH = 2
"""Rows a coordinate from which on the exact fit may predict, and drift is looked for: before, it is off by more than
what it is to tell."""
AMPLE = 16
"""And from which on nothing else predicts."""
SETTLED = 3
"""Rows a coordinate since a change that make an answer of their own. Until then older ones count, ever less."""
KEPT = 100
START = np.zeros(1, dtype=np.int64)
NUMBERED = ("rows", "fitted", "begun", "drift_ends", "seen")


class WindowLearner:
    """The last rows of a stream, in bounded memory, and what `multireplay.solve` makes of them.

    The answer is the fit of all of them, made when it is asked for. What predicts is worked out anew when the stream
    has 4, 8, 16, … rows, then whenever a tenth of what counts is new, so that a row costs what it adds to the passes:
    see `Early`. Rows that are forgotten have weights that fall by half in a half-life, block by block.

    A `Chart` looks at F̂ of every new block at an exact fit that has not seen it, each coordinate in units of how large
    its feature is. After an alarm rows count by half for every d rows that came since, until 3d of these are there:
    then older ones go. (Those few rows alone would give no fit, or one that is mostly noise.)
    """

    def __init__(self, problem: Problem, example: Columns, memory: Memory) -> None:
        self.problem, self.memory, self.dim = problem, memory, problem.dim(example)
        self.most = max(NUMBERS // sum(column[0].size for column in example.values()), 2 * LARGEST)
        self.rows = self.fitted = self.begun = self.drift_ends = 0
        """Rows of all full blocks, how many there were when what predicts was worked out, where the window begins at
        the earliest, and until when older rows count less because something has changed."""
        self.x = np.zeros(self.dim)
        """The last exact fit that a block was judged by, and fits begin with."""
        self.blocks: list[Columns] = []
        self.stamps: list[float] = []
        self.alarms: list[int] = []
        self.early = Early(self.dim)
        self._forget_noise()
        self._last: tuple[tuple[int, int], Result | InputError] | None = None

    def _forget_noise(self) -> None:
        self.chart, self.energies, self.seen = Chart(self.dim), np.zeros(self.dim), 0

    @property
    def block(self) -> int:
        """Rows of the next block: it depends on the rows before it alone."""
        return min(max(self.rows, FIRST), LARGEST)

    @property
    def kept(self) -> int:
        """Rows in the window."""
        return sum(map(row_count, self.blocks))

    @property
    def drifting(self) -> bool:
        """Whether older rows count less because something has changed."""
        return self.rows < self.drift_ends

    def add(self, block: Columns, stamp: float) -> None:
        """Take in a full block; `stamp` is its last row's number or time."""
        alarm = self._look(block) if self.early.made[EXACT] else 0
        if self.blocks:
            self.early.judge(self.problem, block, float(self._weights().sum()))
        self.blocks.append({name: column.copy() for name, column in block.items()})
        self.stamps.append(stamp)
        self.rows += row_count(block)
        if alarm:
            self._change(alarm)
        settled = 0 < self.drift_ends <= self.rows
        while (
            self.kept > self.most
            or self.stamps[0] <= stamp - self.memory.window
            or (settled and self.rows - self.kept < self.begun)
        ):
            self.blocks, self.stamps = self.blocks[1:], self.stamps[1:]
        self.drift_ends = 0 if settled else self.drift_ends
        if settled or self.rows - self.fitted >= AGAIN * self._weights().sum():
            self._renew()

    def _look(self, block: Columns) -> int:
        """Whether this block shows a change: the rows that did, or 0."""
        if self.drifting:
            return 0
        x, count = self.problem.evaluable(self.x), row_count(block)
        penalty = count * self.problem.penalty_diagonal(self.dim)
        with np.errstate(over="ignore", invalid="ignore"):
            score = self.problem.operator_sums(x[None, :], block)[0] + penalty * x
            energies = self.problem.energies(x, block, START)[1][0]
        known = float(self._weights().sum())
        most = SHARE * known if self.memory.ends else np.inf
        typical = self.energies / max(self.seen, 1)
        self.chart.refer(x, self.rows)
        level = level_of(self.problem, x, self.chart.steady, block)
        excerpt = Excerpt(score, energies, count, None if level is None else level._replace(weight=float(count)))
        found = self.chart.look(excerpt, typical, known * typical, most) if self.seen else 0
        if not found:
            self.energies, self.seen = self.energies + energies, self.seen + count
        return found

    def _change(self, alarm: int) -> None:
        """Something has changed in the last rows: what adapts forgets those before."""
        self.alarms = [*self.alarms, self.rows][-KEPT:]
        self._forget_noise()
        if self.memory.adapts:
            self.begun = self.rows - alarm
            self.drift_ends = self.begun + max(SETTLED * self.dim, 2 * alarm)

    def _weights(self) -> Vector:
        """What every row of the window counts for, the newest 1."""
        lengths = np.array([row_count(block) for block in self.blocks])
        ages, half_life = self.stamps[-1] - np.array(self.stamps), self.memory.half_life
        if self.drifting:
            ages, half_life = lengths[::-1].cumsum()[::-1] - lengths, float(self.dim)
        return np.repeat(0.5 ** (ages / half_life), lengths)

    def _record(self, tail: Columns) -> Buffer:
        """The rows of the window and of `tail`, with what they count for."""
        parts = [*self.blocks, tail] if row_count(tail) or not self.blocks else self.blocks
        columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        weights = np.append(self._weights() if self.blocks else [], np.ones(row_count(tail)))
        if (weights != 1).any():
            columns["weights"] = columns.get("weights", 1.0) * weights / weights.mean()
        return Buffer(**columns)

    def _solved(self, record: Buffer) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status says what they do
            return solve(self.problem, record, x0=self.x, holdout=None)

    def _renew(self) -> None:
        """Work out what predicts."""
        weights, nothing = self._weights(), {name: column[:0] for name, column in self.blocks[0].items()}
        counted, exact = weights.sum() ** 2 / (weights**2).sum(), None
        if counted >= ENOUGH * self.dim:
            found = self._now(nothing)
            if isinstance(found, Result) and found.status.ok and np.isfinite(found.x).all():
                exact = self.x = found.x.copy()
        few = counted < AMPLE * self.dim or exact is None
        self.early.renew(self.problem, self._record(nothing) if few else None, exact)
        self.fitted = self.rows

    def start(self) -> Beginning:
        """What predictions begin with."""
        return self.early.start()

    def _now(self, tail: Columns) -> Result | InputError:
        """The fit of the window and the rows of `tail`, or why there is none. Nothing of it is kept in the state."""
        at = self.rows, row_count(tail)
        if self._last is None or self._last[0] != at:
            try:
                self._last = at, self._solved(self._record(tail))
            except InputError as none:  # all features have been 0 so far
                self._last = at, none
        return self._last[1]

    def answer(self, tail: Columns) -> Told:
        """The fit of the window with the rows of `tail`."""
        found, counted = self._now(tail), self.kept + row_count(tail)
        dropped = self.rows - self.kept
        which = f"the last {counted} rows" if dropped else f"{counted} rows"
        message = f"The fit of {which}: of {self.dim} coordinates a window of rows is kept, and no sums."
        if isinstance(found, InputError):
            return Told(self.x, counted, Status("not converged", f"No fit of {which}: {found}."))
        if found.status.ok and np.isfinite(found.x).all():
            return Told(found.x, counted, Status("running", message))
        return Told(found.x, counted, Status("not converged", f"{message} {found.status}"))

    def known(self, x: Vector, tail: Columns) -> LeftOpen:
        """What the batches of the window leave open of its fit."""
        found = self._now(tail)
        if isinstance(found, InputError):
            return LeftOpen(None, None, str(found))
        known = found.uncertainty
        return LeftOpen(known.images, known.source, known.why_not)

    @property
    def drift(self) -> Drift:
        """What was noticed of drift."""
        half_life = float(self.dim) if self.drifting else self.memory.half_life
        since, watched = max(self.begun, self.rows - self.kept), self.most >= 2 * ENOUGH * self.dim
        if self.memory.ends and self.blocks:
            watched = watched and SHARE * float(self._weights().sum()) >= LARGEST
        seen = since, self.chart.statistic, self.chart.threshold
        return Drift(tuple(self.alarms), self.drifting, half_life, *seen, watched=watched)

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers, in one flat dictionary."""
        numbers = {name: getattr(self, name) for name in NUMBERED}
        lengths = np.array([row_count(block) for block in self.blocks], dtype=np.int64)
        names = self.blocks[0] if self.blocks else ()
        rows = {f"window.{name}": np.concatenate([block[name] for block in self.blocks]) for name in names}
        parts: dict[str, Any] = {"chart": self.chart, "early": self.early}
        found = {f"{part}.{name}": value for part in parts for name, value in parts[part].state().items()}
        arrays = {"x": self.x, "energies": self.energies, "alarms": np.array(self.alarms, dtype=np.int64)}
        return {**numbers, **rows, **found, **arrays, "lengths": lengths, "stamps": np.array(self.stamps)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in NUMBERED:
            setattr(self, name, int(state[name]))
        self.chart.restore(part_of(state, "chart"))
        self.early.restore(part_of(state, "early"))
        self.x, self.energies = state["x"].copy(), state["energies"].copy()
        self.stamps, self.alarms = state["stamps"].tolist(), state["alarms"].tolist()
        cuts = np.cumsum(state["lengths"])[:-1]
        names = [name for name in state if name.startswith("window.")]
        parts = zip(*(np.split(state[name], cuts) for name in names), strict=True) if len(state["lengths"]) else ()
        self.blocks = [dict(zip((name[7:] for name in names), part, strict=True)) for part in parts]
