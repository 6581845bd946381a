"""Dividing by a d × d matrix on a device: by its inverse, which every array library has."""

from __future__ import annotations

import functools

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.foreign import WIDE, Array, as_numpy, device, like, namespace, numpy_type, on_cpu

SINGULAR = (np.linalg.LinAlgError, RuntimeError)
"""What libraries raise of a matrix without an inverse or factor; PyTorch's error is of the latter kind."""

SCHULZ, ARRIVED = (9, 2, 2), 1e-4
"""Steps of Newton's iteration before it is looked at, and the largest entry of AX − 1 with which it has arrived."""
TINY = 1e-30
"""So that 0 is divided by something."""


class Inverse:
    """The inverse of a matrix of any library, and what else is asked of the factors of a matrix.

    It is as right as factors are for matrices that are far from singular, and others are not to be relied on anyway.
    """

    def __init__(self, matrix: Array) -> None:
        self.xp = xp = namespace(matrix)
        self.matrix, self.kind = matrix, numpy_type(matrix)
        self._inverse = _inverse(matrix)
        size, other = (xp.max(xp.sum(xp.abs(one), axis=0)) for one in (matrix, self._inverse))
        found = float(1 / (size * other))
        self.condition = found if np.isfinite(found) else 0.0

    def divide(self, values: Vector, transposed: bool = False) -> Vector:
        """The inverse of the matrix, or of its transpose, times each column."""
        inverse = self._inverse if transposed else self._inverse.T
        return as_numpy(like(values.T, self.matrix) @ inverse).T  # many rows travel faster than many columns

    def divide_rows(self, values: Array) -> Array:
        """The inverse of the matrix times each row, where they lie."""
        return self.xp.astype(values, self.matrix.dtype, copy=False) @ self._inverse.T

    def rate(self, half: Array, steps: int) -> float:
        """‖A⁻¹ · half‖ by power iteration, without waiting for the device in between."""
        length, product = self.xp.linalg.vector_norm, self._inverse @ half
        square = product.T @ product
        square = square / (self.xp.max(self.xp.abs(square)) + TINY)
        vector = like(_noise(half.shape[0]), half)
        for _ in range(steps - 1):
            vector = square @ vector
        return float(length(product @ vector) / (length(vector) + TINY))

    def wobble(self, half: Array, steps: int) -> float:
        """‖half + halfᵀ‖ by power iteration: how far A + Aᵀ may be from what it would be of more rows."""
        length, both = self.xp.linalg.vector_norm, half + half.T
        vector = like(_noise(half.shape[0]), half)
        for _ in range(steps):
            vector = both @ (vector / (length(vector) + TINY))
        return float(length(vector))

    def is_monotone(self, margin: float) -> bool:
        """Whether A + Aᵀ is positive definite, or not by more than so much."""
        both = self.matrix + self.matrix.T
        if margin:
            both = both + margin * self.xp.eye(both.shape[0], dtype=both.dtype, device=device(both))
        try:
            factor = self.xp.linalg.cholesky(both)
        except SINGULAR:
            return False
        return bool(self.xp.isfinite(factor[-1, -1]))  # NaN where a library raises nothing

    @property
    def whole(self) -> Vector:
        """The matrix, brought to NumPy."""
        return as_numpy(self.matrix)


@functools.lru_cache(maxsize=8)
def _noise(size: int) -> Vector:
    return np.random.default_rng(0).standard_normal(size)


def _inverse(matrix: Array) -> Array:
    """The inverse; infinite where there is none.

    Of a large matrix on a device by Newton's iteration X ← 2X − XAX (Schulz 1933), if that arrives soon: products are
    all it needs, and elimination has to wait for every pivot.
    """
    xp, dim = namespace(matrix), matrix.shape[0]
    if dim >= WIDE and not on_cpu(matrix):
        sizes = [xp.max(xp.sum(xp.abs(matrix), axis=axis)) for axis in (0, 1)]
        found, one = matrix.T / (sizes[0] * sizes[1]), xp.eye(dim, dtype=matrix.dtype, device=device(matrix))
        for steps in SCHULZ:
            for _ in range(steps):
                found = 2 * found - found @ (matrix @ found)
            if float(xp.max(xp.abs(matrix @ found - one))) < ARRIVED:
                return found
    try:
        return xp.linalg.inv(matrix)
    except SINGULAR:
        return xp.full_like(matrix, xp.inf)


def mean_there(total: Array, count: int, units: Vector, penalty: Vector) -> Array:
    """A sum of Jacobians over so many rows as their mean, in these units and with the penalty, where it lies."""
    factors = like(units / np.sqrt(count), total)
    found = factors[:, None] * total * factors
    if not penalty.any():
        return found
    one = namespace(total).eye(len(penalty), dtype=total.dtype, device=device(total))
    return found + like(penalty, total) * one
