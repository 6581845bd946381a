"""Regression and policy evaluation over batches: sums of residuals times features, on arrays of any library."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import (
    Array,
    array_of,
    as_numpy,
    blocks,
    crossed,
    like,
    row_bytes,
    row_dots,
    rows_at_once,
    rows_between,
    rows_of,
    stretch_sums,
)
from multireplay.problems.base import Problem
from multireplay.problems.glm import GLM, RegressionSamples
from multireplay.problems.links import OVER, on_arrays
from multireplay.problems.over_batches import OverBatches
from multireplay.problems.policy_evaluation import PolicyEvaluation, TransitionSamples
from multireplay.problems.residual import ResidualProblem


class OfFeatures(OverBatches, ResidualProblem):
    """F̃ = r · features + λx, with one number r a lane: what is beside the plain `ResidualProblem` that it is.

    What is summed over rows is worked out where they lie, in their own precision, and all but matrices comes back as
    float64: `residuals` takes one point for all rows too.
    """

    @abstractmethod
    def factors(self, x: Array, batch: Any) -> tuple[Array, Array]:
        """Two arrays of rows, L and R, with LᵀR the sum of ∂F̃/∂x at x."""

    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector:
        found = [self.sums_there(x, columns, bounds) for x in points]
        return np.asarray(as_numpy(self.xp.stack(found, axis=1)), dtype=np.float64)

    def sums_there(self, x: Vector, columns: Columns, bounds: Positions) -> Array:
        """`stretch_sums` at one point, left where the rows lie."""
        batch = self.samples(columns)
        with np.errstate(all="ignore"):
            return stretch_sums(self._residuals_at(x, batch), batch[0], bounds)

    def _residuals_at(self, x: Vector, batch: Any) -> Array:
        if self.is_linear and not x.any():  # nothing of the features is in them
            return _weighted(-getattr(batch, self.outcome), batch)
        return self.residuals(like(x, batch[0]), batch)

    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        batch = self.samples(columns)
        left, right = self.factors(like(x, batch[0]), batch)
        return left.T @ right

    def rough_jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        batch = self.samples(columns)
        left, right = self.factors(like(x, batch[0]), batch)
        return crossed(left, right)[0]

    def second_moments(self, columns: Columns) -> Any:
        rows = array_of(columns["features"])
        return as_numpy(rows.T @ rows)

    def moments(self, columns: Columns) -> Any:
        if not self.is_linear:
            return None
        zero = np.zeros(self.dim(columns))
        return as_numpy(self.jacobian_sum(zero, columns)), -self.operator_sums(zero[None, :], columns)[0]

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        if basis is None:
            return self, columns
        moved: Any = columns  # of the kind that has `times`
        return self, {name: column.times(basis) if column.ndim == 2 else column for name, column in moved.items()}

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        return self.plain.jacobian(x, _brought(columns))

    def curvature(self, x: Vector, columns: Columns) -> Any:
        return self.plain.curvature(x, _brought(columns))

    def pull(self, X: Array) -> Array | None:
        return X * like(self.penalty.diagonal(X.shape[1]), X) if self.penalty.ridge else None

    def spread(self, residuals: Array, batch: Any) -> Array:
        return residuals[:, None] * batch.features

    def largest_square(self, samples: Any) -> float:
        xp, features, weights = self.xp, samples.features, getattr(samples, "weights", None)
        largest = []
        for rows in blocks(features.shape[0], rows_at_once(row_bytes(features), features)):
            block = xp.astype(rows_of(features, rows), xp.float64, copy=False)
            squares = row_dots(xp, block, block)
            largest.append(xp.max(squares if weights is None else weights[rows] * squares))
        return float(xp.max(xp.stack(largest)))


class BatchedGLM(OfFeatures, GLM):
    """`GLM` over batches."""

    def samples(self, columns: Columns) -> Any:
        features, *others = (array_of(columns[name]) for name in ("features", "targets", "weights") if name in columns)
        targets, *weights = (self.xp.astype(column, features.dtype, copy=False) for column in others)
        return RegressionSamples(features, targets, None, weights[0] if weights else None)

    def residuals(self, X: Array, batch: RegressionSamples) -> Array:
        return _weighted(on_arrays(self.link, self.xp, row_dots(self.xp, X, batch.features)) - batch.targets, batch)

    def factors(self, x: Array, batch: RegressionSamples) -> tuple[Array, Array]:
        if self.is_linear and batch.weights is None:
            return batch.features, batch.features
        half = batch.features * self.xp.sqrt(self._slopes(x, batch))[:, None]
        return half, half

    def slopes(self, x: Vector, columns: Columns) -> Any:
        batch = self.samples(columns)
        return self._slopes(like(x, batch.features), batch)

    def _slopes(self, x: Array, batch: RegressionSamples) -> Array:
        return _weighted(OVER[self.link.name].derivative(self.xp, batch.features @ x), batch)

    def descent(self, x: Vector, columns: Columns) -> tuple[float, Vector] | None:
        xp, batch, integral = self.xp, self.samples(columns), OVER[self.link.name].integral
        if integral is None:
            return None
        scores = batch.features @ like(x, batch.features)
        losses = _weighted(integral(xp, scores) - batch.targets * scores, batch)
        errors = _weighted(on_arrays(self.link, xp, scores) - batch.targets, batch)
        loss, total = xp.sum(losses, dtype=xp.float64), xp.astype(errors @ batch.features, xp.float64)
        found = as_numpy(xp.concat([xp.reshape(loss, (1,)), total]))  # brought home at once
        return float(found[0]), found[1:]


class BatchedPolicyEvaluation(OfFeatures, PolicyEvaluation):
    """`PolicyEvaluation` over batches."""

    def samples(self, columns: Columns) -> Any:
        arrays = {name: array_of(column) for name, column in columns.items()}
        features, dtype = arrays["features"], arrays["features"].dtype
        rewards = self.xp.astype(arrays["rewards"], dtype, copy=False)
        discounts = self.xp.full_like(rewards, self.gamma)
        if "terminated" in arrays:
            discounts = discounts * (1 - self.xp.astype(arrays["terminated"], dtype))
        weights = self.xp.astype(arrays["weights"], dtype, copy=False) if "weights" in arrays else None
        return TransitionSamples(features, arrays["next_features"], rewards, discounts, weights)

    def residuals(self, X: Array, batch: TransitionSamples) -> Array:
        now = row_dots(self.xp, X, batch.features)
        return _weighted(now - batch.discounts * self._following(X, now, batch) - batch.rewards, batch)

    def _following(self, X: Array, now: Array, batch: TransitionSamples) -> Array:
        """⟨ψ(s_{t+1}), x⟩, most of which is known where both columns are views of one trajectory."""
        moved = rows_between(batch.features, batch.next_features) if X.ndim == 1 else None
        if moved is None:
            return row_dots(self.xp, X, batch.next_features)
        last = rows_of(batch.next_features, slice(now.shape[0] - moved, now.shape[0]))
        return self.xp.concat([now[moved:], last @ X])

    def factors(self, x: Array, batch: TransitionSamples) -> tuple[Array, Array]:
        left = batch.features if batch.weights is None else batch.weights[:, None] * batch.features
        return left, batch.features - batch.discounts[:, None] * batch.next_features

    def rough_jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        batch = self.samples(columns)
        left = batch.features if batch.weights is None else batch.weights[:, None] * batch.features
        following = batch.next_features
        if "terminated" in columns:
            following = (batch.discounts != 0)[:, None] * following
        now, then = crossed(left, batch.features, following)
        return now - self.gamma * then


def _weighted(values: Array, batch: Any) -> Array:
    """The values times the weights of their rows, where there are any."""
    return values if batch.weights is None else batch.weights * values


def _brought(columns: Columns) -> Columns:
    """The columns in NumPy."""
    return {name: np.asarray(column) for name, column in columns.items()}
