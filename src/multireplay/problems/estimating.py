"""The estimating equation of a GLM, Σ a_t (f(a_tᵀx) − y_t) = 0, in units that suit its features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.problems.exact import Balance
from multireplay.problems.features import Rows, dense_products, is_sparse, row_blocks, scaled_columns
from multireplay.problems.sparse_exact import is_wide, spectral_norm

if TYPE_CHECKING:
    from multireplay.problems.glm import GLM

BLOCK = 2**13


class EstimatingEquation:
    """F̂(x) + ridge·x = 0 for z = s·x, where s² is the mean square of each feature plus its ridge.

    So all coordinates of z are of one size whatever the units of the features, which are a/s in z; the penalty is
    ridge/s² by coordinate. With more than 2000 sparse features the Jacobian is a function that multiplies by it.

    Parameters
    ----------
    problem : GLM
        What is solved.
    columns : mapping of names to arrays
        Features a_t, dense or sparse, targets y_t, and weights w_t of dense ones where there are any.
    ridge : array of shape (d,)
        L2 penalty on each coordinate of x; the problem's own is not added.
    """

    def __init__(self, problem: GLM, columns: Columns, ridge: Vector) -> None:
        features = columns["features"]
        self.problem = problem
        self.sparse = is_sparse(features)
        sizes = _sparse_root_mean_squares(features) if self.sparse else _root_mean_squares(features)
        self.scale = np.hypot(sizes, np.sqrt(ridge))
        self.scale[self.scale == 0] = 1.0
        self.penalty = ridge / self.scale / self.scale
        self.count = features.shape[0]
        scaled: Any = scaled_columns(features, 1 / self.scale) if self.sparse else features
        self.columns: Columns = {**columns, "features": scaled}

    def _parts(self) -> Iterator[Columns]:
        """The columns with features in units of z: dense ones in blocks, so that no copy of them all is made."""
        if self.sparse:
            yield self.columns
            return
        for start in range(0, self.count, BLOCK):
            part = {name: column[start : start + BLOCK] for name, column in self.columns.items()}
            yield {**part, "features": part["features"] / self.scale}

    def balance(self, z: Vector) -> Balance:
        """F̂ and the mean size of its terms w_t|a_t|(|f| + |y_t|), penalty included."""
        penalty = self.penalty * z
        value, terms = np.zeros_like(z), np.zeros_like(z)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts():
                rows, targets, weights = part["features"], part["targets"], part.get("weights", 1.0)
                means = self.problem.link.function(rows @ z)
                value += rows.T @ (weights * (means - targets))
                terms += abs(rows).T @ (weights * (np.abs(means) + np.abs(targets)))
            return Balance(value / self.count + penalty, terms / self.count + np.abs(penalty))

    def jacobian(self, z: Vector) -> Any:
        """The derivative of F̂ by z."""
        if is_wide(self.columns["features"]):
            return self._multiplication(z)
        total = self._linear
        if total is None:
            total = sum(self.problem.jacobian_sum(z, part) for part in self._parts())
        return total / self.count + np.diag(self.penalty)

    @cached_property
    def _linear(self) -> Any:
        """The sum of a linear problem's moments in units of z, which is its Jacobian everywhere; None of others."""
        total: Any = None
        for part in self._parts():
            moments = self.problem.moments(part)
            if moments is None:
                return None
            total = moments[0] if total is None else total + moments[0]
        return total

    def _multiplication(self, z: Vector) -> LinearOperator:
        """The derivative of F̂ by z for sparse features, of which there are no weights, as a function."""
        rows: Any = self.columns["features"]
        slopes = self.problem.link.derivative(rows @ z) / self.count
        return LinearOperator(
            (len(z), len(z)), lambda v: rows.T @ (slopes * (rows @ v)) + self.penalty * v, dtype=np.float64
        )


def largest_second_moment(features: Rows) -> float:
    """The largest eigenvalue of Σ a_t a_tᵀ / B."""
    if is_wide(features):
        return float(spectral_norm(features.astype(np.float64)) ** 2 / features.shape[0])
    return float(np.linalg.norm(dense_products(features, features), 2) / features.shape[0])


def _sparse_root_mean_squares(features: Any) -> Vector:
    """By column, without overflow."""
    width = features.shape[1]
    sizes = np.abs(features.data.astype(np.float64))
    peak = np.zeros(width)
    np.maximum.at(peak, features.indices, sizes)
    shares = sizes / np.where(peak > 0, peak, 1.0)[features.indices]
    return np.asarray(peak * np.sqrt(np.bincount(features.indices, shares**2, minlength=width) / features.shape[0]))


def _root_mean_squares(features: NDArray[Any]) -> Vector:
    """By column, without overflow."""
    peak = np.maximum(features.max(axis=0), -features.min(axis=0)).astype(np.float64)
    peak[peak == 0] = 1.0
    total = np.zeros(len(peak))
    for block in row_blocks(features):
        total += ((block / peak) ** 2).sum(axis=0)
    return np.asarray(peak * np.sqrt(total / len(features)))
