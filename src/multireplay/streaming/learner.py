"""All that a stream has learnt from full blocks: sums, spread rows, answers that forget, and the chart for drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.record import MemoryRecord
from multireplay.engine.sums import one_thread_each
from multireplay.inference.images import Images
from multireplay.inference.left_out import in_place_of, left_out
from multireplay.problems import Problem
from multireplay.result import Status
from multireplay.streaming.answer import Drift, LeftOpen, SpreadAt, Told
from multireplay.streaming.batches import SHARE, Memory, Sums, part_of
from multireplay.streaming.beliefs import Around, spared
from multireplay.streaming.drift import KNOWN, SHORTEST, STIFF, Chart, Excerpt, Rivals, level_of
from multireplay.streaming.fitting import Fitting, divided, free_directions
from multireplay.streaming.fresh import Beginning
from multireplay.streaming.linearized import Linearized, on_one_thread
from multireplay.streaming.ridges import LITTLE, Ridges, curvatures, curvatures_at_zero, held_back
from multireplay.streaming.spread_rows import HEAVIEST

AGAIN = 0.25
"""The point about which sums are known is moved whenever there are so many more rows than when it was last …"""
MOST = 1024
"""… or, where there is drift, after so many rows."""
LEAST = 2**14
"""After a change there is drift for so many rows, and as many again until what forgets nothing is believed."""
FINE = 32
"""Rows of the largest block where there is drift."""
FEW = 64.0
"""Rows that hold answers which forget at most; one where they are believed, because x is then not what it was."""
KEPT = 100
"""Alarms that are remembered."""
PARTS = ("batches", "spread", "heavy", "chart", "ridges", "rivals", "fading")


class Learner(Linearized):
    """What full blocks have taught, in bounded memory. It is the same whenever an answer is asked for, or how often."""

    def __init__(self, problem: Problem, example: Columns, memory: Memory) -> None:
        super().__init__(problem, example, memory)
        self.free = (self.penalty == 0) & self.penalty.any()
        self.begun = 0
        """Rows at the last change, and when the point was last moved."""
        self.referred = 0
        self.alarms: list[int] = []
        self.drift_ends = 0
        self.second = np.zeros((self.dim, self.dim))
        """Σ ψψᵀ of an operator that is no gradient, since the last change."""
        self.at_zero = np.zeros(self.dim)
        """What a row knows of every coordinate at 0, of a problem that is not linear."""
        self.chart, self.rivals = Chart(self.dim), Rivals(self.dim)
        self.ridges = Ridges()

    @property
    def drifting(self) -> bool:
        """Whether the answer is that of sums that forget."""
        return self.rows < self.drift_ends

    @property
    def wavers(self) -> bool:
        """Whether there is drift, or predictions are made with less than a quarter of what counts in the answer."""
        return self.drifting or (self.memory.adapts and self.fading.half_life < 0.25 * self.fading.rows[-1])

    @property
    def block(self) -> int:
        """Rows of the next block: it depends on the rows before it alone."""
        since = self.rows - self.begun
        fine = self.wavers or since % self.batches.block
        return min(self.batches.block, FINE) if fine else self.batches.block

    @on_one_thread
    def add(self, block: Columns, stamp: float) -> None:
        """Take in a full block; `stamp` is its last row's number or time."""
        count = row_count(block)
        part = self._sums(block)
        self.rows, self.now = self.rows + count, stamp
        second = None
        if not self.problem.is_gradient and self.problem.is_linear:
            second = self.problem.second_moments(block)
        shares = self.heavy.shares(block, self.point, self.batches.diagonal + np.diag(part.slopes))
        alarm, around = 0, self.around
        if around is not None:
            if self.rows - self.begun > self._early:
                alarm = self._look(*self._but(shares > HEAVIEST, block, part), second, around)
            if self.memory.adapts and (self.problem.is_linear or self.rows > 4 * self.dim):  # before, answers are wild
                self.fading.judge(part, around)
        if second is not None:
            self.second += second
        self.fading.add(part)
        if alarm:
            self._change()
        if self.memory.adapts and around is not None:
            self.fading.renew(around, self.rows)
        if alarm and self.memory.adapts:
            return
        first = self.rows - count - self.begun
        self._keep(block, part, first, shares)
        self._refer()
        self._settle()
        if self.around is not None and self.ridges.due(self.batches) and not self.wavers:
            one_row = self._one_row(self.batches.total(self.now))
            self.ridges.renew(self.batches, self.around, one_row, self.penalty, self.now)

    @property
    def _early(self) -> int:
        """Rows before which nothing is looked for, and how often a nonlinear fit is worked out anew at most."""
        return max(256, 8 * self.dim)

    def _look(self, block: Columns, part: Sums, second: Vector | None, around: Around) -> int:
        """Whether this block shows a change: the rows that did, or 0."""
        energy = part.slopes if second is None else second
        penalty, known = part.rows * self.penalty, self._counted
        left = part.values + part.slopes @ (around.x - self.point) + penalty * around.x
        mean = around.slope if self._second_mean is None else self._second_mean
        typical, most = mean + np.diag(around.held) / known, SHARE * known if self.memory.ends else np.inf
        self.chart.refer(around.x, self.rows)
        level = level_of(self.problem, around.x, self.chart.steady, block)
        excerpt = Excerpt(left, energy, part.rows, level)
        found = self.chart.look(excerpt, typical, known * mean, most, around.whitened)
        if self.drifting or self.memory.ends or level is None:
            return found
        gains = spared(self.rivals.active, around.x, part, around, penalty)
        found = found or self.rivals.judge(gains, level, self.chart.noise / self.dim, self.rows)
        self.rivals.remember(level, part.rows)
        due = self.rivals.due(self.rows - max(self.begun, self.alarms[-1] if self.alarms else 0))
        if due.size:
            self.rivals.renew(due, self.fading.corrections(2 * due, around, STIFF * self._row_of(around.slope)))
        return found

    def _settle(self) -> None:
        """Where drift would be over and answers that forget are still the better ones, it goes on."""
        if not 0 < self.drift_ends <= self.rows:
            return
        settled = self.fading.beliefs.trust[-1] > 0.5
        self.drift_ends = 0 if settled else self.rows + LEAST

    def _change(self) -> None:
        """Something has changed: what adapts begins anew."""
        self.alarms = [*self.alarms, self.rows][-KEPT:]
        self.chart, self.rivals = Chart(self.dim), Rivals(self.dim)
        if self.memory.adapts:
            self._begin()
            self.fading.forget()
            self.ridges.judged = 0.0
            self.begun = self.referred = self.rows
            self.second[:] = 0.0
            self.drift_ends = self.rows + LEAST

    def _refer(self) -> None:
        """Work out the answer so far anew, if it is time, and move the point of linearization to it."""
        known = float(self.batches.rows.sum())
        due = min(AGAIN * known, MOST) if self.wavers else AGAIN * known
        few = not self.problem.is_linear and known < 2 * self.dim
        since = self.rows - self.referred
        if self.around is not None and (few or (since < due and not self._knows_more(self.around, since))):
            return
        self.referred, total = self.rows, self.batches.total(self.now)
        with one_thread_each():
            self.around = self._about(total)
            if not self.problem.is_linear:
                self._move(self.x if self.drifting else self.around.x)

    def _knows_more(self, around: Around, since: int) -> bool:
        """Whether a coordinate of which little was known is known much better than when the answer was worked out.

        Not in policy evaluation, where the sums that tell it are noisy.
        """
        if not self.problem.is_gradient or since < (0 if self.problem.is_linear else self._early):
            return False
        before = np.diag(around.slope) * (float(self.batches.rows.sum()) - since)
        return bool((self.batches.diagonal > (1 + AGAIN) * np.abs(before)).any())

    def _about(self, total: Sums) -> Around:
        """The answer so far, held back where there are few rows, and the Jacobian about it."""
        slopes, symmetric, rows = total.slopes + np.diag(total.rows * self.penalty), None, total.rows
        mean = self._second_mean
        if mean is not None:
            symmetric = divided(mean + np.diag(np.diag(mean)) * self.dim / rows, np.eye(self.dim))
        self.at_zero = curvatures_at_zero(self.problem, self._kept(), self.dim)
        each = self._one_row(total)
        held = self.ridges.rows * each
        around = Around(
            self.point,
            self.point,
            slopes / rows,
            slopes,
            min(self.ridges.rows, 1.0 if self.wavers else FEW) * each,
            symmetric,
            None if self.problem.is_linear else self.at_zero,
        )
        inverse = held_back(slopes[None], held[None], rows, around, np.eye(self.dim))[0]
        x = inverse @ (total.slopes @ self.point - total.values)
        if not self.problem.is_linear:
            x = Fitting(self.problem, self.point).root(total, self._kept(), None, self.point, held).x
        x = self.problem.constraint.projected(x)
        return around._replace(x=x, inverse=rows * inverse)

    @property
    def _second_mean(self) -> Vector | None:
        return np.asarray(self.second / max(self.rows - self.begun, 1)) if self.second.any() else None

    def _one_row(self, total: Sums) -> Vector:
        """What a row that says 0 holds, by coordinate: all but nothing where the problem's own penalty has none."""
        return self._row_of(total.slopes / total.rows + np.diag(self.penalty))

    def _row_of(self, slope: Vector) -> Vector:
        """What such a row holds, by the mean Jacobian, penalty included."""
        found = curvatures(slope, 1.0, self._second_mean)
        return np.where(self.free, 1e-6, 1.0) * np.maximum(found, LITTLE * self.at_zero)

    @property
    def _counted(self) -> float:
        """Rows, as they count now."""
        return float(self._weights(self.batches.count) @ self.batches.rows[: self.batches.count])

    @property
    def x(self) -> Vector:
        """The answer where there is drift."""
        return self.fading.x

    @on_one_thread
    def answer(self, tail: Columns) -> Told:
        """The exact fit of everything since the last change, or of the window, with the rows of `tail`.

        Where there is drift, the answer of sums that forget, which lacks the tail.
        """
        x, counted = self.x, round(float(self.batches.rows.sum())) + row_count(tail)
        fitting = Fitting(self.problem, self.point, self.at_zero)
        if self.drifting:
            found = self.problem.is_linear or not fitting.is_lost(x, self.fading.slope()[0], self._kept())
        else:
            start = self.point if self.around is None else self.around.x
            last = tail if row_count(tail) else None
            root = fitting.root(self.batches.total(self.now), self._kept(), last, start)
            x, found = root.x, root.found
        message = f"The fit of {counted} rows."
        if not found:
            message = f"No fit of the {counted} rows exists (are they separable?): a penalty of about one row holds x."
        return Told(x, counted, Status("running" if found else "not converged", message))

    @property
    def drift(self) -> Drift:
        """What was noticed of drift."""
        half_life = (self.fading if self.drifting else self.memory).half_life
        seen = self.begun, self.chart.statistic, self.chart.threshold
        watched = not self.memory.ends or SHARE * self._counted >= 1 << SHORTEST or self.rows < KNOWN << SHORTEST
        return Drift(tuple(self.alarms), self.drifting, half_life, *seen, watched=watched)

    @on_one_thread
    def known(self, x: Vector, tail: Columns) -> LeftOpen:
        """What the batches leave open of an answer, and spread rows as a record at it; `tail` is too short to tell."""
        images, source = self._images(x), None
        if self.spread.length >= 2 and self.batches.count >= 2:
            source = SpreadAt(MemoryRecord(self.problem, self.spread.between(0, self.rows)), x)
        return LeftOpen(images, source, "there are too few rows yet" if images is None else "")

    @on_one_thread
    def start(self) -> Beginning:
        """What predictions begin with: the answer held back where there are few rows."""
        around = self.around
        if around is None:
            return Beginning(self.point, np.eye(self.dim))
        total = self.batches.total(self.now)
        slopes = total.slopes + np.diag(total.rows * self.penalty)
        held = self.ridges.rows * self._one_row(total)
        inverse = held_back(slopes[None], held[None], total.rows, around, np.eye(self.dim))[0]
        x = self.problem.constraint.projected(inverse @ (total.slopes @ self.point - total.values))
        if self.memory.adapts and self.fading.beliefs.solved[-1] >= 0:
            slopes, rows = self.fading.slope()
            inverse = held_back(slopes[None], around.held[None], rows, around, np.eye(self.dim))[0]
            x = self.x if self.drifting else self.fading.with_all(x)
        return Beginning(x, inverse)

    def _images(self, x: Vector) -> Images | None:
        """What every batch says of an answer; None where there is only one."""
        if not np.isfinite(x).all():
            return None
        batches, count = self.batches, self.batches.count
        scores, slopes = self._at(x)
        rows = batches.rows[:count].copy()
        if count > 1 and rows[-1] < 0.5 * batches.size:  # the open one is too short for a batch of its own
            for array in (scores, slopes, rows):
                array[-2] += array[-1]
            scores, slopes, rows, count = scores[:-1], slopes[:-1], rows[:-1], count - 1
        if count < 2:
            return None
        means = scores / rows[:, None] + self.penalty * x
        weights = self._weights(count)
        whole = np.tensordot(weights, slopes, 1) / (weights @ rows) + np.diag(self.penalty)
        free, closed = free_directions(whole)
        inverse, closed = divided(whole, np.eye(self.dim)), closed + np.diag(self.penalty)
        plain = means @ inverse.T * (weights * rows)[:, None] * count / (weights @ rows)
        values = in_place_of(left_out(weights[:, None, None] * slopes, means, weights * rows, closed), plain)
        unknown = free if len(free) else None
        return Images(values, means, rows, lambda scores: scores @ inverse.T, unknown=unknown, left_out=True)

    def _weights(self, count: int) -> Vector:
        found = self.batches.weights(self.now)
        if found is None and self.drifting:
            ages = self.rows - self.batches.stamps[:count]
            found = np.asarray(0.5 ** (ages / self.fading.half_life))
        return np.ones(count) if found is None else found[:count]

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers, in one flat dictionary."""
        found = {f"{part}.{name}": value for part in PARTS for name, value in getattr(self, part).state().items()}
        if self.around is not None:
            around = zip(Around._fields, self.around, strict=True)
            found |= {f"around.{name}": value for name, value in around if value is not None}
        names = ("rows", "begun", "referred", "now", "drift_ends", "point", "second", "at_zero")
        return found | {name: getattr(self, name) for name in names} | {"alarms": np.array(self.alarms, dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for part in PARTS:
            getattr(self, part).restore(part_of(state, part))
        around = part_of(state, "around")
        self.around = Around(**around) if around else None
        for name in ("rows", "begun", "referred", "drift_ends"):
            setattr(self, name, int(state[name]))
        self.second[:], self.at_zero[:] = state["second"], state["at_zero"]
        self.now, self.point, self.alarms = float(state["now"]), state["point"].copy(), state["alarms"].tolist()
