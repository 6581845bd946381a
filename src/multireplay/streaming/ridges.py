"""How much an answer is to be held back while rows are few: penalties, judged on stretches that are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import row_count
from multireplay.problems import Problem
from multireplay.streaming.batches import EqualBatches
from multireplay.streaming.beliefs import Around, spared
from multireplay.streaming.spread_rows import Stretches

ROWS = 4.0 ** np.arange(-3, 8)
"""Penalties, in rows: each holds x as so many rows that say 0 would."""
USUAL, SPREAD = 64.0, 1.2
"""What is believed at first, and how firmly: in powers of 4, as a standard deviation."""
GROUPS = 8
"""Stretches that are left out in turn."""
LAST = 2**16
"""With more rows than this the choice no longer matters, and stays as it is."""
LITTLE = 1 / 256
"""Of what a row knows at 0, what a row that says 0 adds at least."""
OFTEN = 1.5
"""It is made anew when there are so many times the rows."""


class Ridges:
    """The penalty, in rows, that predicts best on stretches that are left out (cross-validation by blocks).

    The exact fit of few rows is far from the truth, most of all when there are about as many rows as coordinates, or
    when rows are so dependent that they have seen little: predictions that are held back are better. By how much is
    learnt from an eighth of the rows after the other, each of which is judged with the fit of all others. They are
    long, so that noise, as they show it, is that of dependent rows; it says how much a difference counts beside what
    is believed at first. A penalty of some rows is nothing once there are many.
    """

    def __init__(self) -> None:
        self.rows, self.judged = USUAL, 0.0
        """The penalty that is believed, in the mean of its logarithm, and how many rows there were then."""

    def due(self, batches: EqualBatches) -> bool:
        """Whether it is time to judge penalties anew."""
        return batches.count >= GROUPS and OFTEN * self.judged <= float(batches.rows.sum()) < LAST

    def renew(self, batches: EqualBatches, around: Around, one_row: Vector, penalty: Vector, now: float) -> None:
        """Judge all penalties on batches; `one_row` is what one row holds, by coordinate."""
        self.judged = float(batches.rows.sum())
        parts, total = batches.groups(GROUPS, now), batches.total(now)
        held = ROWS[:, None] * one_row
        gains, noise = np.zeros(len(ROWS)), np.zeros(len(ROWS))
        for part in parts:
            rest = total.rows - part.rows
            slopes = np.repeat((total.slopes - part.slopes + np.diag(rest * penalty))[None], len(ROWS), axis=0)
            right = (total.slopes - part.slopes) @ around.point - (total.values - part.values)
            points = held_back(slopes, held, rest, around, right[:, None])[:, :, 0]
            gains += spared(points, points[-1], part, around, part.rows * penalty)
            scores = part.values + (points - around.point) @ part.slopes.T + part.rows * penalty * points
            noise += np.einsum("ki,ij,kj->k", scores, around.whitened, scores) / (part.rows * len(parts) * len(penalty))
        least = float(noise[gains.argmax()]) if np.isfinite(gains).all() else 0.0
        if not 0 < least < np.inf:
            return
        weights = gains / least - 0.5 * (np.log(ROWS / USUAL) / np.log(4.0) / SPREAD) ** 2
        trust = np.exp(weights - weights.max())
        self.rows = float(np.exp(trust @ np.log(ROWS) / trust.sum()))

    def state(self) -> dict[str, Any]:
        """All of it as numbers."""
        return {"rows": self.rows, "judged": self.judged}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.rows, self.judged = float(state["rows"]), float(state["judged"])


def held_back(slopes: Vector, held: Vector, rows: Any, around: Around, right: Vector) -> Vector:
    """The answers of sums b = Σ(F̃'(p)p − F̃(p)), columns of `right`, held back: (S + H)⁻¹b.

    In policy evaluation S is not symmetric. On a trajectory its symmetric part is positive all the same, and where it
    is not, S + H may be all but singular; there it is (SᵀΣ⁻¹S/n + H)⁻¹SᵀΣ⁻¹b/n, which minimizes the projected Bellman
    error with a penalty (Hoffman et al. 2011), and is S⁻¹b without one.
    """
    diagonal = np.arange(slopes.shape[-1])
    matrices = slopes.copy()
    matrices[:, diagonal, diagonal] += held
    if around.symmetric is not None and not _are_positive(matrices):
        left = np.swapaxes(slopes, 1, 2) @ around.symmetric / np.maximum(rows, 1e-9).reshape(-1, 1, 1)
        matrices, right = left @ slopes, left @ right
        matrices[:, diagonal, diagonal] += held
    try:
        return np.asarray(np.linalg.solve(matrices, right))
    except np.linalg.LinAlgError:
        every = np.broadcast_to(right, (len(matrices), *right.shape[-2:]))
        return np.array([np.linalg.lstsq(one, b, rcond=None)[0] for one, b in zip(matrices, every, strict=True)])


def _are_positive(matrices: Vector) -> bool:
    """Whether the symmetric parts of all matrices are positive definite."""
    try:
        np.linalg.cholesky(matrices + np.swapaxes(matrices, 1, 2))
    except np.linalg.LinAlgError:
        return False
    return True


def curvatures(slopes: Vector, rows: float, second: Vector | None) -> Vector:
    """What a row that says 0 adds to the diagonal of the sums, by coordinate; anything where nothing is known.

    In policy evaluation that of a row which shows the value itself, Σψψᵀ/n, times as many Bellman errors as it takes to
    see as much: S is smaller than Σψψᵀ by the mean of 1 − γP, and the noise of values larger.
    """
    found = np.abs(np.diag(slopes)) / max(rows, 1.0)
    if second is not None:
        shown = np.diag(second)
        share = float((found[shown > 0] / shown[shown > 0]).mean()) if shown.any() else 1.0
        found = shown / min(max(share, 0.01), 1.0)
    return np.where(found > 0, found, found.mean() or 1.0)


def curvatures_at_zero(problem: Problem, kept: list[Stretches], dim: int) -> Vector:
    """What a row knows of every coordinate at 0, by kept rows; 0 where none are kept.

    Where a category has had one outcome only, or counts of 0, the answer goes far and its own curvature to 0.
    """
    zero, found, rows = np.zeros(dim), np.zeros(dim), 0.0
    for part in kept:
        for _, which, weight in part.each():
            columns = {name: column[which] for name, column in part.columns.items()}
            found += weight * problem.jacobian_diagonal(zero, columns)
            rows += weight * row_count(columns)
    return found / max(rows, 1.0)
