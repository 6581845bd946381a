"""The answer that predictions are made with: it takes in the rows of the open block one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay._jit import jit
from multireplay.buffer.columns import Columns
from multireplay.problems import Problem
from multireplay.problems.links import IDENTITY, apply
from multireplay.sets import WholeSpace


class Beginning(NamedTuple):
    """An answer, and the inverse of the sum of Jacobians that stands behind it; a step where that is too large.

    Both may be of shifted rows: the basis makes answers for the rows as they come of them, see `Centred`.
    """

    x: Vector
    inverse: Vector | None
    step: float = 0.0
    shifted: Callable[[Columns], Columns] = dict
    basis: Vector | None = None


class Fresh:
    """The answer of full blocks, moved by every row of the open block: recursive least squares, one Newton step a row.

    Or plain steps, where there is no inverse.

    It begins anew with every block, from the sums, so that nothing adds up; it depends on the rows alone and not on
    when it was asked for. Problems without one residual a row, and feasible sets, stay with the answer of full blocks.
    """

    def __init__(self, problem: Problem, start: Beginning) -> None:
        self.problem, self.start = problem, start
        self.x = start.x.copy()
        self.inverse = None if start.inverse is None else np.ascontiguousarray(start.inverse)
        self.taken = 0

    def at(self, block: Columns, filled: int) -> Vector:
        """The answer with the first `filled` rows of the open block."""
        if filled > self.taken and (self.inverse is not None or self.start.step):
            new = self.start.shifted({name: column[self.taken : filled] for name, column in block.items()})
            self._take(new, filled - self.taken)
        self.taken = filled
        return self.x if self.start.basis is None else self.start.basis @ self.x

    def _take(self, rows: Columns, count: int) -> None:
        if self.inverse is None:
            samples, x = self.problem.samples(rows), self.problem.evaluable(self.x)
            for row in range(count):
                x = self.problem.constraint.projected(x - self.start.step * self.problem.operator(x, samples, row))
            if np.isfinite(x).all():
                self.x = x
        elif isinstance(self.problem.constraint, WholeSpace):
            packed = _packed(self.problem, rows)
            if packed is not None:
                _advance(self.x, self.inverse, packed, 0, count)


def _packed(problem: Problem, block: Columns) -> tuple[Any, ...] | None:
    """What the loop reads; None for problems that it does not know."""
    features = block.get("features")
    if not isinstance(features, np.ndarray):
        return None
    weights, one = block.get("weights", NOTHING), features[:, 0]
    if "rewards" in block and problem.is_linear:
        ended = block.get("terminated")
        gamma: float = getattr(problem, "gamma", 0.0)
        discounts = np.full(len(one), gamma) if ended is None else np.where(ended, 0.0, gamma)
        return features, block["next_features"], discounts, block["rewards"], weights, IDENTITY
    code = getattr(getattr(problem, "link", None), "compiled", None)
    if not isinstance(code, int) or "targets" not in block:
        return None
    return features, features, np.zeros(len(one)), block["targets"].astype(np.float64), weights, code


NOTHING = np.zeros(0)
SMALL = 1e-4
LEAST = 0.5
"""In policy evaluation a row may take away nearly all that was known, and a step would be as long as it likes: such a
row is left to the block that it is in. Of a gradient it is never below 1."""


@jit
def _advance(x: Vector, inverse: Vector, rows: Any, start: int, stop: int) -> None:
    """One Newton step a row, with the inverse of the Jacobians by Sherman and Morrison."""
    features, following, discounts, targets, weights, code = rows
    dim = len(x)
    left, right = np.zeros(dim), np.zeros(dim)
    for t in range(start, stop):
        score, weight = 0.0, 1.0 if len(weights) == 0 else weights[t]
        for i in range(dim):
            score += (features[t, i] - discounts[t] * following[t, i]) * x[i]
        slope = weight
        if code != IDENTITY:
            slope *= (apply(code, score + SMALL) - apply(code, score - SMALL)) / (2 * SMALL)
        error = weight * (apply(code, score) - targets[t])
        for i in range(dim):
            left[i], right[i] = 0.0, 0.0
        for i in range(dim):
            other = features[t, i] - discounts[t] * following[t, i]
            for j in range(dim):
                left[j] += inverse[j, i] * features[t, i]
                right[j] += other * inverse[i, j]
        inner = 1.0
        for i in range(dim):
            inner += slope * right[i] * features[t, i]
        if not (inner > LEAST and abs(error) < 1e100):
            continue
        for i in range(dim):
            x[i] -= left[i] * error / inner
            for j in range(dim):
                inverse[i, j] -= slope * left[i] * right[j] / inner
