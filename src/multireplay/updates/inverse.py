"""Dividing by a d × d matrix on a device: by its inverse, which every array library has."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.foreign import Array, as_numpy, device, like, namespace, numpy_type

SINGULAR = (np.linalg.LinAlgError, RuntimeError)
"""What libraries raise of a matrix without an inverse or factor; PyTorch's error is of the latter kind."""


class Inverse:
    """The inverse of a matrix of any library, and what else is asked of the factors of a matrix.

    It is as right as factors are for matrices that are far from singular, and others are not to be relied on anyway.
    """

    def __init__(self, matrix: Array) -> None:
        self.xp = xp = namespace(matrix)
        self.matrix, self.kind = matrix, numpy_type(matrix)
        try:
            self._inverse = xp.linalg.inv(matrix)
        except SINGULAR:
            self._inverse = xp.full_like(matrix, xp.inf)
        size, other = (xp.max(xp.sum(xp.abs(one), axis=0)) for one in (matrix, self._inverse))
        found = float(1 / (size * other))
        self.condition = found if np.isfinite(found) else 0.0

    def divide(self, values: Vector, transposed: bool = False) -> Vector:
        """The inverse of the matrix, or of its transpose, times each column."""
        return as_numpy((self._inverse.T if transposed else self._inverse) @ like(values, self.matrix))

    def rate(self, half: Array, steps: int) -> float:
        """‖A⁻¹ · half‖ by power iteration, without waiting for the device in between."""
        xp = self.xp
        vector = moved = like(np.random.default_rng(0).standard_normal(half.shape[0]), half)
        for _ in range(steps):
            length = xp.linalg.vector_norm(vector)
            moved = self._inverse @ (half @ (vector / xp.where(length > 0, length, xp.ones_like(length))))
            vector = half.T @ (self._inverse.T @ moved)
        return float(xp.linalg.vector_norm(moved))

    def wobble(self, half: Array, steps: int) -> float:
        """‖half + halfᵀ‖ by power iteration: how far A + Aᵀ may be from what it would be of more rows."""
        xp = self.xp
        vector = like(np.random.default_rng(1).standard_normal(half.shape[0]), half)
        for _ in range(steps):
            length = xp.linalg.vector_norm(vector)
            vector = vector / xp.where(length > 0, length, xp.ones_like(length))
            vector = half @ vector + half.T @ vector
        return float(xp.linalg.vector_norm(vector))

    def is_monotone(self, margin: float) -> bool:
        """Whether A + Aᵀ is positive definite, or not by more than so much."""
        one = self.xp.eye(self.matrix.shape[0], dtype=self.matrix.dtype, device=device(self.matrix))
        try:
            factor = self.xp.linalg.cholesky(self.matrix + self.matrix.T + margin * one)
        except SINGULAR:
            return False
        return bool(self.xp.isfinite(factor[-1, -1]))  # NaN where a library raises nothing

    @property
    def whole(self) -> Vector:
        """The matrix, brought to NumPy."""
        return as_numpy(self.matrix)


def mean_there(total: Array, count: int, penalty: Vector) -> Array:
    """A sum of Jacobians over so many rows as their mean with the penalty, where it lies."""
    one = namespace(total).eye(len(penalty), dtype=total.dtype, device=device(total))
    return total / count + like(penalty, total) * one
