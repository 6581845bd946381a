"""Several answers to one problem side by side, and how much each is to be believed: those that predict are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.streaming.batches import Sums

STRETCH, PIECES = 512, 8
"""Noise is that of stretches of so many rows, or of an eighth of the rows so far."""
RECENT = 4 * STRETCH
"""It is forgotten in so many rows, or the last third."""
LIKELY = 0.95
"""How far the last answer, which forgets nothing, is believed at first. With .5, predictions of rows that are AR(.999)
were 6 % worse than without the others, with .9 to .97 4 to 5 %; with .97 a change of policy is followed later."""
AGE = 256
"""Rows that answers in policy evaluation are old, or up to twice as many, when they are judged."""
REACH = 2.0
"""How far answers may be from one another where sums are linear, in units of what one row knows at 0: a count may be 7
times as large, and a chance 98 % instead of a half."""
ARRAYS = ("points", "trust", "solved", "judged", "next", "open")
NUMBERS = ("turned", "open_rows", "noise", "noise_rows", "seen")


class Around(NamedTuple):
    """What is known about the answer so far: where sums are linearized, the answer, and the mean Jacobian J there."""

    point: Vector
    x: Vector
    slope: Vector
    inverse: Vector
    """J⁻¹, held back where there are few rows."""
    held: Vector
    """A penalty by coordinate on sums, in place of what is not yet known."""
    symmetric: Vector | None = None
    """Σ⁻¹ of the second moments of features, for an operator that is not a gradient; None for one that is."""
    at_zero: Vector | None = None
    """What a row knows of every coordinate at 0, of a nonlinear problem; None of a linear one."""

    def reached(self, points: Vector) -> Vector:
        """Points, no further from the answer than linear sums know of: a slope that has vanished stops nothing."""
        if self.at_zero is None:
            return points
        away = points - self.x
        return np.asarray(self.x + away / np.maximum(np.sqrt(away**2 @ self.at_zero) / REACH, 1.0)[:, None])

    @property
    def whitened(self) -> Vector:
        """The inverse of a row's noise, but for its size."""
        return self.inverse if self.symmetric is None else self.symmetric


class Beliefs:
    """Answers that are judged by every block before it is in any of them.

    An answer x gains, over another y, the loss that it is spared: (y − x)ᵀ(F̂(x) + F̂(y))/2 for a gradient, to second
    order, and (y − x)ᵀJᵀΣ⁻¹(F̂(x) + F̂(y))/2 in policy evaluation, where the loss is the projected Bellman error.
    Beliefs are multiplied by exp(gain/s²), with s² the noise of a row as stretches of dependent rows show it, and a
    little of them is shared between all (fixed share, Herbster and Warmuth 1998). A Bellman error is not what is
    predicted: a short memory lowers it by following the states of the moment, and values are the worse for it. So there
    answers are judged as they were before these states.
    """

    def __init__(self, count: int, dim: int) -> None:
        self.points = np.zeros((count, dim))
        self.first = np.full(count, (1 - LIKELY) / max(count - 1, 1))
        self.first[-1] = LIKELY
        """What is believed at first, and shared."""
        self.trust = self.first.copy()
        self.solved = np.full(count, -1.0)
        """How many rows there were when each was last worked out."""
        self.judged, self.next, self.turned = self.points.copy(), self.points.copy(), 0.0
        """Answers of a while ago, those that are judged after them, and when they took turns."""
        self.open, self.open_rows = np.zeros(dim), 0.0
        """Σ F̂ of the stretch that is open."""
        self.noise, self.noise_rows, self.seen = 0.0, 0.0, 0.0

    def judge(self, part: Sums, around: Around, penalty: Vector, share: float) -> None:
        """Judge all answers by a block that is not yet in them; `share` of all beliefs is what they were first."""
        best = int(self.trust.argmax())
        heavy = part.rows * penalty
        if self.seen >= self.turned + AGE:
            self.judged, self.next, self.turned = self.next, self.points.copy(), self.seen
        points = self.points if around.symmetric is None else self.judged
        gains = spared(points, points[best], part, around, heavy)
        own = part.values + part.slopes @ (self.points[best] - around.point) + heavy * self.points[best]
        self.open += own
        self.open_rows += part.rows
        self.seen += part.rows
        if self.open_rows >= min(STRETCH, self.seen / PIECES):
            kept = 0.5 ** (self.open_rows / min(RECENT, max(0.5 * self.seen, 1.0)))
            noise = max(float(self.open @ around.whitened @ self.open), 0.0) / len(penalty)
            self.noise, self.noise_rows = kept * self.noise + noise, kept * self.noise_rows + self.open_rows
            self.open, self.open_rows = np.zeros(len(own)), 0.0
        if not self.noise > 0 or not np.isfinite(gains).all():
            return
        weights = np.log(self.trust) + gains * self.noise_rows / self.noise
        found = np.exp(weights - weights.max())
        self.trust = (1 - share) * found / found.sum() + share * self.first

    @property
    def x(self) -> Vector:
        """The mean of all answers, as they are believed."""
        return np.asarray(self.trust @ self.points)

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        return {name: getattr(self, name).copy() for name in ARRAYS} | {name: getattr(self, name) for name in NUMBERS}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
        for name in NUMBERS:
            setattr(self, name, float(state[name]))


def spared(points: Vector, x: Vector, part: Sums, around: Around, penalty: Vector) -> Vector:
    """The loss on a block that each of these points would have been spared, in place of x."""
    both = np.vstack([points, x])
    scores = part.values + (both - around.point) @ part.slopes.T + penalty * both
    away = points - x
    if around.symmetric is not None:
        away = away @ (around.slope.T @ around.symmetric)
    return np.asarray(-0.5 * np.einsum("ij,ij->i", away, scores[:-1] + scores[-1]))
