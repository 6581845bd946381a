"""The estimating equation of a GLM, Σ a_t (f(a_tᵀx) − y_t) = 0, in units that suit its features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from multireplay._check import Vector
from multireplay.buffer.columns import row_blocks
from multireplay.problems.exact import Balance
from multireplay.problems.links import Link
from multireplay.problems.rows import Rows, dense_products, is_sparse, scaled_columns
from multireplay.problems.sparse_exact import DENSE, spectral_norm


class EstimatingEquation:
    """F̂(x) + ridge·x = 0 for z = s·x, where s² is the mean square of each feature plus its ridge.

    So all coordinates of z are of one size whatever the units of the features, which are a/s in z; the penalty is
    ridge/s² by coordinate.

    Parameters
    ----------
    features : array of shape (B, d)
        a_t.
    targets : array of shape (B,)
        y_t.
    link : Link
        f and its derivative.
    ridge : array of shape (d,)
        L2 penalty on each coordinate of x.
    weights : array of shape (B,), optional
        w_t, by which the terms are multiplied.
    """

    def __init__(
        self, features: NDArray[Any], targets: Vector, link: Link, ridge: Vector, weights: Vector | None = None
    ) -> None:
        self.features = features
        self.targets = targets
        self.link = link
        self.weights = np.broadcast_to(1.0, targets.shape) if weights is None else weights
        self.scale = np.hypot(_root_mean_squares(features), np.sqrt(ridge))
        self.scale[self.scale == 0] = 1.0
        self.penalty = ridge / self.scale / self.scale

    def balance(self, z: Vector) -> Balance:
        """F̂ and the mean size of its terms |a_t|(|f| + |y_t|), penalty included."""
        penalty = self.penalty * z
        value, terms = np.zeros_like(z), np.zeros_like(z)
        with np.errstate(over="ignore", invalid="ignore"):
            read = self.features, self.targets, self.weights
            for block, targets, weights in zip(*map(row_blocks, read), strict=True):
                scaled = block / self.scale
                means = self.link.function(scaled @ z)
                value += scaled.T @ (weights * (means - targets))
                terms += np.abs(scaled).T @ (weights * (np.abs(means) + np.abs(targets)))
            return Balance(value / len(self.targets) + penalty, terms / len(self.targets) + np.abs(penalty))

    def jacobian(self, z: Vector) -> Vector:
        """The derivative of F̂ by z."""
        total = np.zeros((len(z), len(z)))
        for block, weights in zip(row_blocks(self.features), row_blocks(self.weights), strict=True):
            scaled = block / self.scale
            total += scaled.T @ ((weights * self.link.derivative(scaled @ z))[:, None] * scaled)
        return total / len(self.targets) + np.diag(self.penalty)


class SparseEquation:
    """The same for sparse features; with more than 2000 of them the Jacobian is a function that multiplies by it.

    Parameters
    ----------
    features : SparseColumn of shape (B, d)
        a_t.
    targets, link, ridge
        As for `EstimatingEquation`.
    """

    def __init__(self, features: Any, targets: Vector, link: Link, ridge: Vector) -> None:
        self.targets = targets
        self.link = link
        self.scale = np.hypot(_sparse_root_mean_squares(features), np.sqrt(ridge))
        self.scale[self.scale == 0] = 1.0
        self.penalty = ridge / self.scale / self.scale
        self.rows = scaled_columns(features, 1 / self.scale)
        self.sizes = abs(self.rows)

    def balance(self, z: Vector) -> Balance:
        """F̂ and the mean size of its terms |a_t|(|f| + |y_t|), penalty included."""
        penalty = self.penalty * z
        with np.errstate(over="ignore", invalid="ignore"):
            means = self.link.function(self.rows @ z)
            value = self.rows.T @ (means - self.targets)
            terms = self.sizes.T @ (np.abs(means) + np.abs(self.targets))
            return Balance(value / len(self.targets) + penalty, terms / len(self.targets) + np.abs(penalty))

    def jacobian(self, z: Vector) -> Any:
        """The derivative of F̂ by z."""
        slopes = self.link.derivative(self.rows @ z) / len(self.targets)
        if len(z) <= DENSE:
            return dense_products(self.rows, self.rows, slopes) + np.diag(self.penalty)
        return LinearOperator(
            (len(z), len(z)), lambda v: self.rows.T @ (slopes * (self.rows @ v)) + self.penalty * v, dtype=np.float64
        )


def estimating_equation(
    features: Rows, targets: Vector, link: Link, ridge: Vector, weights: Vector | None
) -> EstimatingEquation | SparseEquation:
    """The equation that suits the kind of features; sparse ones have no weights."""
    if is_sparse(features):
        return SparseEquation(features, targets, link, ridge)
    return EstimatingEquation(features, targets, link, ridge, weights)


def largest_second_moment(features: Rows) -> float:
    """The largest eigenvalue of Σ a_t a_tᵀ / B."""
    if is_sparse(features) and features.shape[1] > DENSE:
        return float(spectral_norm(features.astype(np.float64)) ** 2 / features.shape[0])
    gram = np.zeros((features.shape[1],) * 2)
    for block in row_blocks(features):
        gram += dense_products(block, block)
    return float(np.linalg.norm(gram, 2) / features.shape[0])


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
