"""What regression and policy evaluation share: one residual a sample, times its features, plus a penalty."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.problems.base import GROWTH, UNBOUNDED, Problem, blocks_in_cache, extremes, largest
from multireplay.problems.features import Rows, largest_square, square_lengths
from multireplay.problems.penalty import Penalty, plus_diagonal


class ResidualProblem(Problem):
    """A problem whose operator is one number a sample times its features, plus a ridge::

        F̃(x, ξ_t) = r_t(x) ψ_t + λx

    r_t depends on x through a score that is linear in it: f(a_tᵀx) − y_t in a regression, the TD error in policy
    evaluation. A subclass says what ψ_t and r_t are; means, bounds and Jacobians follow from that here.
    """

    outcome: ClassVar[str]
    """The column of what is observed: y_t, or the rewards."""
    penalty: Penalty

    @abstractmethod
    def rows(self, columns: Columns) -> Rows:
        """ψ_t as a matrix."""

    @abstractmethod
    def residuals_at(self, points: Vector, columns: Columns) -> Vector:
        """r_t(x): of shape (rows,) at one point, of shape (points, rows) at each row of `points`."""

    @abstractmethod
    def scores(self, samples: Any, x: Vector) -> list[Vector]:
        """The part of r_t(x) that is linear in x, for blocks of the samples."""

    @abstractmethod
    def slope(self, samples: Any) -> float | None:
        """The largest derivative of r_t by its score over these samples, before weights; None if it is not known."""

    @abstractmethod
    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        """Σ_t ∂F̃(x, ξ_t)/∂x over the rows, without the penalty: A of `moments` where the operator is linear."""

    def dim(self, columns: Columns) -> int:
        return int(self.rows(columns).shape[1])

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        rows, residuals = self.rows(columns), self.residuals_at(x, columns)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.penalty.added(np.asarray(rows.T @ residuals / rows.shape[0], dtype=np.float64), x)

    def mean_operators(self, points: Vector, columns: Columns) -> Vector:
        rows = self.rows(columns)
        if not isinstance(rows, np.ndarray):
            return super().mean_operators(points, columns)
        total = np.zeros_like(points)
        for part in blocks_in_cache(columns):
            residuals = self.residuals_at(points, part)
            with np.errstate(invalid="ignore", over="ignore"):
                total += residuals @ self.rows(part)
        return np.asarray(total / len(rows) + self.penalty_diagonal(points.shape[1]) * points)

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        rows = self.rows(columns)
        if not isinstance(rows, np.ndarray):
            return np.array([rows.T @ self.residuals_at(x, columns) for x in points], dtype=np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.residuals_at(points, columns) @ rows, dtype=np.float64)

    def penalty_diagonal(self, dim: int) -> Vector:
        return self.penalty.diagonal(dim)

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        """The derivative of F̂ at x, Σ_t ∂F̃(x, ξ_t)/∂x / B; the penalty is in it."""
        count = self.rows(columns).shape[0]
        found: Vector = plus_diagonal(self.jacobian_sum(x, columns) / count, self.penalty_diagonal(len(x)))
        return found

    def outcomes_of(self, samples: Any) -> Vector:
        """What was observed, from packed samples."""
        return np.asarray(getattr(samples, self.outcome))

    def weights_of(self, samples: Any) -> Vector | None:
        """The weights of packed samples, where there are any."""
        return getattr(samples, "weights", None)

    def largest_square(self, samples: Any) -> float:
        """max w_t‖ψ_t‖² over packed samples."""
        return largest_square(samples.features, self.weights_of(samples))

    def lipschitz(self, samples: Any) -> float | None:
        """The largest slope of a residual times max w_t‖ψ_t‖², plus λ."""
        slope = self.slope(samples)
        return None if slope is None else slope * self.largest_square(samples) + self.penalty.ridge

    def heaviest(self, samples: Any) -> float:
        """The largest weight of packed samples, 1 without weights."""
        weights = self.weights_of(samples)
        return 1.0 if weights is None else largest(weights)

    def size(self, samples: Any, x0: Vector) -> float:
        """How large a residual may be at x0: the largest outcome plus the largest score."""
        return largest(self.outcomes_of(samples)) + max(map(largest, self.scores_at_start(samples, x0)))

    def scores_at_start(self, samples: Any, x0: Vector) -> list[Vector]:
        """`scores` at x0, which need no pass at 0."""
        return self.scores(samples, x0) if x0.any() else [np.zeros(1)]

    def limit(self, samples: Any, x0: Vector) -> float:
        """10⁸ times the size of a residual at x0, times the largest weight."""
        return self.heaviest(samples) * GROWTH * self.size(samples, x0) or UNBOUNDED

    def extreme_rows(self, samples: Any, x0: Vector) -> NDArray[np.intp]:
        lengths, weights = square_lengths(samples.features), self.weights_of(samples)
        scores = np.concatenate(self.scores(samples, x0))
        if weights is None:
            return extremes(lengths, self.outcomes_of(samples), scores)
        return extremes(weights * lengths, weights, self.outcomes_of(samples), scores)
