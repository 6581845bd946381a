"""How much an answer is to be held back while rows are few: penalties side by side, judged by how they predict."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector
from multireplay.problems import Problem
from multireplay.streaming.batches import Sums
from multireplay.streaming.beliefs import Around, Beliefs

ROWS = 4.0 ** np.arange(-3, 7)
"""Penalties, in rows: each holds x as so many rows that say 0 would."""
UNLIKELY = 0.01
"""What less than one row is believed at first: it matters where features are all but combinations of others."""
LAST = 2**14
"""With more rows than this the choice no longer matters, and stays as it is."""
OFTEN = 4
"""Answers are worked out anew when there are a quarter more rows."""


class Ridges(Beliefs):
    """Fits with penalties of 1/64, 1/16, …, 4096 rows in each coordinate, in units of its own curvature.

    The exact fit of few rows is far from the truth, most of all when there are about as many rows as coordinates, or
    when rows are so dependent that they have seen little: predictions that are held back are better, and how much is
    learnt from the rows themselves. A penalty of some rows is nothing once there are many.
    """

    def __init__(self, problem: Problem, dim: int) -> None:
        super().__init__(len(ROWS), dim)
        self.penalty = problem.penalty_diagonal(dim)
        self.trust = np.where(ROWS < 1, UNLIKELY, (1 - UNLIKELY * (ROWS < 1).sum()) / (ROWS >= 1).sum())

    @property
    def rows(self) -> float:
        """The penalty that is believed, in the mean of its logarithm."""
        return float(np.exp(self.trust @ np.log(ROWS)))

    def take(self, part: Sums, around: Around, known: float) -> None:
        """Judge the answers by a block that is not in them, unless there are too many rows for it to matter."""
        if self.solved[0] >= 0 and known < LAST:
            self.judge(part, around, self.penalty, min(0.1, part.rows / max(known, 1.0)))

    def renew(self, total: Sums, around: Around) -> None:
        """Work out all answers, if it is time."""
        if total.rows >= LAST or total.rows < self.solved[0] * (1 + 1 / OFTEN):
            return
        slopes = total.slopes + np.diag(total.rows * self.penalty)
        held = ROWS[:, None] * curvatures(slopes, total.rows, around.symmetric)
        found = inverses(np.repeat(slopes[None], len(ROWS), axis=0), np.full(len(ROWS), total.rows), held, around)
        self.points[:] = found @ (total.slopes @ around.point - total.values)
        self.solved[:] = total.rows


def inverses(slopes: Vector, rows: Vector, held: Vector, around: Around) -> Vector:
    """What makes an answer of each sum Σ(F̃'(p)p − F̃(p)), held back: (S + H)⁻¹ for a gradient.

    In policy evaluation S is not symmetric, and S + H may be singular; there it is (SᵀΣ⁻¹S/n + H)⁻¹SᵀΣ⁻¹/n, which
    minimizes the projected Bellman error with a penalty (Hoffman et al. 2011), and is S⁻¹ without one.
    """
    dim = slopes.shape[-1]
    left, matrices = np.broadcast_to(np.eye(dim), slopes.shape), slopes.copy()
    if around.symmetric is not None:
        left = np.swapaxes(slopes, 1, 2) @ around.symmetric / np.maximum(rows, 1e-9)[:, None, None]
        matrices = left @ slopes
    matrices[:, np.arange(dim), np.arange(dim)] += held
    try:
        return np.asarray(np.linalg.solve(matrices, left))
    except np.linalg.LinAlgError:
        return np.array([np.linalg.lstsq(one, other, rcond=None)[0] for one, other in zip(matrices, left, strict=True)])


def curvatures(slopes: Vector, rows: float, symmetric: Vector | None) -> Vector:
    """What one row adds to the diagonal of what is inverted, by coordinate; a little where nothing is known.

    In policy evaluation what a row would add if it showed the value itself: Bellman errors hardly show the level of all
    values, and it is held the more.
    """
    if symmetric is not None:
        return np.asarray(1 / np.maximum(np.diag(symmetric), 1e-300))
    found = np.abs(np.diag(slopes)) / max(rows, 1.0)
    return np.asarray(np.maximum(found, 1e-9 * float(found.mean()) + 1e-300))
