"""Dividing by a d × d matrix, where it lies: LAPACK's factors here, the inverse itself on a device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.linalg import get_lapack_funcs

from multireplay._check import Vector
from multireplay.buffer.foreign import Array, as_numpy, namespace


class Factors(Protocol):
    """What divides by a matrix."""

    condition: float
    """The reciprocal condition number, estimated; 0 of a matrix that is singular or not finite."""

    def divide(self, values: Array, transposed: bool = False) -> Array:
        """The inverse of the matrix, or of its transpose, times each column, in the library and type of the matrix."""


class Lapack:
    """Cholesky's factors of a matrix that has them, and LU otherwise."""

    def __init__(self, matrix: Vector) -> None:
        size = np.abs(matrix).sum(axis=0).max(initial=0.0)
        self._symmetric = bool((matrix == matrix.T).all())
        if self._symmetric:
            factor, condition, self._solver = get_lapack_funcs(("potrf", "pocon", "potrs"), (matrix,))
            *self._factors, fault = factor(matrix)
            self._symmetric = not fault
        if not self._symmetric:
            factor, condition, self._solver = get_lapack_funcs(("getrf", "gecon", "getrs"), (matrix,))
            *self._factors, fault = factor(matrix)
        self.condition = float(condition(self._factors[0], size)[0]) if not fault and 0 < size < np.inf else 0.0

    def divide(self, values: Vector, transposed: bool = False) -> Vector:
        if self._symmetric:
            return np.asarray(self._solver(self._factors[0], values)[0])
        return np.asarray(self._solver(*self._factors, values, trans=int(transposed))[0])


class Inverse:
    """The inverse of a matrix of any library, since every library has that, and a product with it is one call.

    It is as right as factors are for matrices that are far from singular, and others are not to be relied on anyway.
    """

    def __init__(self, matrix: Array) -> None:
        xp = namespace(matrix)
        try:
            self._inverse = xp.linalg.inv(matrix)
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error of a singular matrix is of the latter kind
            self._inverse = xp.full_like(matrix, xp.inf)
        sizes = (xp.max(xp.sum(xp.abs(one), axis=0)) for one in (matrix, self._inverse))
        found = float(1 / (next(sizes) * next(sizes)))
        self.condition = found if np.isfinite(found) else 0.0

    def divide(self, values: Array, transposed: bool = False) -> Array:
        return (self._inverse.T if transposed else self._inverse) @ values


def factored(matrix: Array) -> Factors:
    """What divides by this matrix, of any library."""
    return Lapack(matrix) if isinstance(matrix, np.ndarray) else Inverse(matrix)


def is_positive(matrix: Any) -> bool:
    """Whether a symmetric matrix of any library is positive definite."""
    try:
        factor = namespace(matrix).linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        return False
    return bool(np.isfinite(as_numpy(factor[-1, -1])))  # where a library raises nothing, the last number is NaN
