"""Answers that forget at different speeds side by side, and how much each is to be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.problems import Problem
from multireplay.sets import WholeSpace
from multireplay.streaming.batches import Sums

SHORTEST, COUNT = 64, 14
"""Half-lives of 64, 128, …, 2^19 rows, and one that forgets nothing since the last change."""
OFTEN = 8
"""An answer is worked out anew after an eighth of its half-life."""
ARRAYS = ("values", "slopes", "rows", "points", "solved", "trust")


class Around(NamedTuple):
    """Where sums are linearized, the answer so far, and the mean Jacobian about it, with its inverse."""

    point: Vector
    x: Vector
    slope: Vector
    inverse: Vector


class Fading:
    """Sums in which a row weighs half as much after so many more, for dyadic half-lives, and the answers they give.

    Every block is first predicted by all of them: an answer gains, over another, the loss that it is spared, which for
    a gradient is (x − y)ᵀ(F̂(x) + F̂(y))/2 to second order, and is measured so for every operator. Beliefs are
    multiplied by exp(gain/s²), with s² the noise of a row as blocks show it, and shared a little between all
    (fixed share, Herbster and Warmuth 1998), by less the longer nothing has changed. The answer is their mean.
    """

    def __init__(self, problem: Problem, dim: int) -> None:
        self.problem = problem
        self.penalty = problem.penalty_diagonal(dim)
        self.half_lives = np.append(SHORTEST * 2.0 ** np.arange(COUNT), np.inf)
        self.values = np.zeros((COUNT + 1, dim))
        self.slopes = np.zeros((COUNT + 1, dim, dim))
        self.rows = np.zeros(COUNT + 1)
        self.points = np.zeros((COUNT + 1, dim))
        self.solved = np.full(COUNT + 1, -1.0)
        self.trust = np.full(COUNT + 1, 1 / (COUNT + 1))
        self.noise, self.noise_rows = 0.0, 0.0

    def add(self, part: Sums) -> None:
        """Take in a block."""
        fades = 0.5 ** (part.rows / self.half_lives)
        self.values *= fades[:, None]
        self.values += part.values
        self.slopes *= fades[:, None, None]
        self.slopes += part.slopes
        self.rows = fades * self.rows + part.rows

    def renew(self, around: Around, position: float) -> None:
        """Work out the answers that are due, where there are so many rows."""
        due = np.minimum(self.half_lives, self.rows) / OFTEN <= position - self.solved
        due |= self.solved < 0
        self._solve(np.flatnonzero(due), around)
        self.solved[due] = position

    def _solve(self, which: Any, around: Around) -> None:
        """Answers x − (S_j + J)⁻¹ F_j(x): what is known before counts as one row."""
        rows = self.rows[which, None]
        left = self.values[which] + self.slopes[which] @ (around.x - around.point) + rows * self.penalty * around.x
        matrices = self.slopes[which] + around.slope
        diagonal = np.arange(len(around.x))
        matrices[:, diagonal, diagonal] += rows * self.penalty + 1e-9 * np.abs(around.slope).max()
        try:
            steps = np.linalg.solve(matrices, left[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            return
        found = around.x - steps
        if not isinstance(self.problem.constraint, WholeSpace):
            found = np.array([self.problem.constraint.projected(x) for x in found])
        self.points[which] = np.where(np.isfinite(found).all(axis=1, keepdims=True), found, self.points[which])

    def judge(self, part: Sums, around: Around) -> None:
        """Judge all answers by a block that is not yet in them."""
        best = self.points[int(self.trust.argmax())]
        scores = part.values + (self.points - around.point) @ part.slopes.T + part.rows * self.penalty * self.points
        own = scores[int(self.trust.argmax())]
        gains = -0.5 * np.einsum("ij,ij->i", self.points - best, scores + own)
        noise = max(float(own @ around.inverse @ own), 0.0) / len(best)
        kept = 0.5 ** (part.rows / 1024)
        self.noise, self.noise_rows = kept * self.noise + noise, kept * self.noise_rows + part.rows
        level = self.noise / max(self.noise_rows, 1.0)
        if not level > 0 or not np.isfinite(gains).all():
            return
        weights = np.log(self.trust) + gains / level
        found = np.exp(weights - weights.max())
        share = min(0.5, part.rows / max(self.rows[-1], 1.0) / 4)
        self.trust = (1 - share) * found / found.sum() + share / len(found)

    def forget_all(self) -> None:
        """Begin anew with the sums that forget nothing, and believe all answers alike."""
        self.values[-1], self.slopes[-1], self.rows[-1] = 0.0, 0.0, 0.0
        self.trust[:], self.solved[:] = 1 / len(self.trust), -1.0
        self.noise = self.noise_rows = 0.0

    def move(self, step: Vector) -> None:
        """Linearize all sums at a point a step further."""
        self.values += self.slopes @ step

    @property
    def x(self) -> Vector:
        """The mean of all answers, as they are believed."""
        return np.asarray(self.trust @ self.points)

    @property
    def slope(self) -> Vector:
        """The mean Jacobian of a row, as the answers are believed."""
        shares = self.trust / np.maximum(self.rows, 1e-9)
        return np.asarray(np.tensordot(shares / self.trust.sum(), self.slopes, 1))

    @property
    def half_life(self) -> float:
        """The half-life of what is believed, in the mean of its logarithm; infinite where nothing is forgotten."""
        long = np.minimum(self.half_lives, np.maximum(self.rows[-1], 1.0))
        return float(np.exp(self.trust @ np.log(long)))

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        return {name: getattr(self, name).copy() for name in ARRAYS} | {
            "noise": self.noise,
            "noise_rows": self.noise_rows,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
        self.noise, self.noise_rows = float(state["noise"]), float(state["noise_rows"])
