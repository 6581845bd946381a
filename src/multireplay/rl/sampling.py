"""How well a record knows a value function: the exact fit with the same features, and its errors under dependence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.buffer.record import MemoryRecord
from multireplay.engine.sums import operator_batches
from multireplay.inference.residuals import standard_errors
from multireplay.problems.exact import dense_solution
from multireplay.rl.features.base import BoundFeatures
from multireplay.rl.spaces import Array, some_of
from multireplay.rl.trajectory import Trajectory

DRAWS = 64
STATES = 4096
"""Of so many states errors are drawn, so often."""
WIDEST = 4096
"""Beyond so many features the matrix of the exact fit is too large."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The exact fit (LSTD) of a record, whatever method the estimate came from.

    ``images`` are J⁻¹F̂ of 32 consecutive batches of the record: their spread is that of the fit, so that any linear
    function of it, such as the mean value of some states, has a standard error. An estimate that is no exact fit is
    compared by these errors too: how far it is off is no excuse for itself.
    """

    features: BoundFeatures
    x: Vector
    images: Vector
    active: Array

    def values(self, observations: Array) -> Vector:
        """The exact fit's values."""
        return self.features.values(observations, self.x)

    def error(self, observations: Array) -> float:
        """Standard error of the mean value of these observations."""
        mean = self.features.total(observations) / len(observations)
        return float(standard_errors((self.images @ mean)[:, None])[0])

    def errors_by_value(self, observations: Array, edges: Vector) -> Vector:
        """Root mean square error of the mean value of the observations in each group, cut at these values.

        Who is in a group is decided by the fit, so that the states in the highest one are those that were taken for
        too high, too. So errors as large as the fit's are drawn and added to it, groups are made of the sum, and the
        errors of the states in each of them averaged. NaN where a group is empty.
        """
        some = some_of(observations, STATES)
        batches = len(self.images)
        drawn = np.random.default_rng(0).standard_normal((batches, DRAWS)) / np.sqrt(batches * max(1, batches - 1))
        errors = self.features.values(some, self.images.T @ drawn)
        place = np.digitize(self.values(some)[:, None] + errors, edges)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # means of nothing
            means = [np.nanmean(np.where(place == group, errors, np.nan), axis=0) for group in range(len(edges) + 1)]
            return np.asarray(np.sqrt(np.nanmean(np.square(means), axis=1)))

    def known(self, observations: Array) -> Array:
        """Whether the record has a step from where an observation's features are active."""
        if self.active.all():
            return np.ones(len(observations), dtype=np.bool_)
        return np.asarray(self.features.values(observations, np.where(self.active, 0.0, 1.0)) == 0)


def reference(features: BoundFeatures, record: Trajectory, gamma: float) -> Reference | None:
    """The exact fit of a record with these features; None where there are too many of them or it does not exist."""
    if features.dim > WIDEST:
        return None
    problem = features.problem_of(gamma)
    columns = problem.columns(features.buffer_of(record))
    matrix, vector = problem.moments(columns)
    matrix = (matrix.toarray() if issparse(matrix) else matrix) / len(record)
    active = np.abs(matrix).sum(axis=1) > 0
    own = matrix[np.ix_(active, active)]
    x = np.zeros(features.dim)
    x[active] = dense_solution(own, vector[active] / len(record))
    means = operator_batches(MemoryRecord(problem, columns), [x])[0].means
    images = np.zeros_like(means)
    images[:, active] = dense_solution(own, means[:, active].T).T
    fine = np.isfinite(images).all() and np.isfinite(x).all()
    return Reference(features, x, images, active) if fine else None
