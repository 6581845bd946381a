"""Sums that forget at different speeds side by side, and the answers they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.problems import Problem
from multireplay.sets import WholeSpace
from multireplay.streaming.batches import Sums
from multireplay.streaming.beliefs import Around, Beliefs
from multireplay.streaming.ridges import held_back

SHORTEST, COUNT = 64, 14
"""Half-lives of 64, 128, …, 2^19 rows, and one that forgets nothing since the last change."""
OFTEN = 16
"""An answer is worked out anew after a sixteenth of its half-life."""
ARRAYS = ("values", "slopes", "rows")


class Fading:
    """Sums in which a row weighs half as much after so many more, for dyadic half-lives.

    They are kept at all times, and judged by how they predict: predictions are made with the mean of their answers, as
    they are believed, and where there is drift so is the answer.
    """

    def __init__(self, problem: Problem, dim: int) -> None:
        self.problem = problem
        self.penalty = problem.penalty_diagonal(dim)
        self.half_lives = np.append(SHORTEST * 2.0 ** np.arange(COUNT), np.inf)
        self.values = np.zeros((COUNT + 1, dim))
        self.slopes = np.zeros((COUNT + 1, dim, dim))
        self.rows = np.zeros(COUNT + 1)
        self.beliefs = Beliefs(COUNT + 1, dim)

    def add(self, part: Sums) -> None:
        """Take in a block."""
        fades = 0.5 ** (part.rows / self.half_lives)
        self.values *= fades[:, None]
        self.values += part.values
        self.slopes *= fades[:, None, None]
        self.slopes += part.slopes
        self.rows = fades * self.rows + part.rows

    def judge(self, part: Sums, around: Around) -> None:
        """Judge all answers by a block; beliefs are shared less the longer nothing has changed."""
        share = min(0.5, part.rows / max(self.rows[-1], 1.0) / 4)
        self.beliefs.judge(part, around, self.penalty, share)

    def renew(self, around: Around, position: float) -> None:
        """Work out the answers that are due, where there are so many rows."""
        solved = self.beliefs.solved
        due = (np.minimum(self.half_lives, self.rows) / OFTEN <= position - solved) | (solved < 0)
        which = np.flatnonzero(due)
        found, points = self.answers(which, around), self.beliefs.points
        points[which] = np.where(np.isfinite(found).all(axis=1, keepdims=True), found, points[which])
        solved[due] = position

    def answers(self, which: Positions, around: Around) -> Vector:
        """The answers that these sums give, held back where there are few rows."""
        slopes, rows = self.slopes[which], self.rows[which]
        right = slopes @ around.point - self.values[which]
        held = around.held + rows[:, None] * self.penalty
        return self._feasible(around.reached(held_back(slopes, held, rows, around, right[:, :, None])[:, :, 0]))

    def corrections(self, which: Positions, around: Around, held: Vector) -> Vector:
        """The answer so far as these sums correct it, with a penalty `held` on how far."""
        slopes, rows = self.slopes[which], self.rows[which]
        penalty = rows[:, None] * self.penalty
        left = self.values[which] + slopes @ (around.x - around.point) + penalty * around.x
        found = around.x - held_back(slopes, held + penalty, rows, around, left[:, :, None])[:, :, 0]
        return self._feasible(around.reached(found))

    def _feasible(self, points: Vector) -> Vector:
        constraint = self.problem.constraint
        return points if isinstance(constraint, WholeSpace) else np.array([constraint.projected(x) for x in points])

    def forget(self) -> None:
        """Begin anew with the sums that forget nothing."""
        self.values[-1], self.slopes[-1], self.rows[-1], self.beliefs.solved[-1] = 0.0, 0.0, 0.0, -1.0

    def move(self, step: Vector) -> None:
        """Linearize all sums at a point a step further."""
        self.values += self.slopes @ step

    def add_left_out(self, values: Vector, slopes: Vector, rows: Vector) -> None:
        """Add what linearization had left out of consecutive batches of so many rows, as they weigh in each sum."""
        after = np.cumsum(rows[::-1])[::-1] - rows
        past, spans = (np.log(2) * age[:, None] / self.half_lives for age in (after, rows))
        weights = np.exp(-past) * np.divide(-np.expm1(-spans), spans, out=np.ones_like(spans), where=spans > 0)
        self.values += weights.T @ values
        self.slopes += np.tensordot(weights, slopes, (0, 0))

    @property
    def x(self) -> Vector:
        """The mean of all answers, as they are believed."""
        return self.beliefs.x

    def with_all(self, everything: Vector) -> Vector:
        """The mean of all answers, with another in place of that of the sums that forget nothing."""
        return np.asarray(self.beliefs.x + self.beliefs.trust[-1] * (everything - self.beliefs.points[-1]))

    def slope(self) -> tuple[Vector, float]:
        """The sum of Jacobians that stands behind the answer, penalty included, and its rows."""
        trust, rows = self.beliefs.trust, float(self.beliefs.trust @ self.rows)
        return np.tensordot(trust, self.slopes, 1) + np.diag(rows * self.penalty), rows

    @property
    def half_life(self) -> float:
        """The half-life of what is believed, in the mean of its logarithm."""
        long = np.minimum(self.half_lives, np.maximum(self.rows[-1], 1.0))
        return float(np.exp(self.beliefs.trust @ np.log(long)))

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        return {name: getattr(self, name).copy() for name in ARRAYS} | self.beliefs.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
        self.beliefs.restore(state)
