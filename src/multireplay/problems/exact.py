"""Solving a mean operator without stochastic steps: the yardstick of every comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.problems.sparse_exact import conjugate_gradients, least_norm, spectral_norm
from multireplay.sets import Set, WholeSpace

Operator = Callable[[Vector], Vector]


class Balance(NamedTuple):
    """F̂ at a point, and by coordinate the mean absolute size of the terms that cancel in it."""

    value: Vector
    terms: Vector

    def vanishes(self, tolerance: float) -> bool:
        """Whether F̂ is 0 up to `tolerance` times the size of its terms."""
        return bool((np.abs(self.value) <= tolerance * self.terms).all())


class Equation(Protocol):
    """An equation F̂(x) = 0 with a monotone F̂."""

    def balance(self, x: Vector) -> Balance:
        """F̂(x) and its terms."""

    def jacobian(self, x: Vector) -> Vector:
        """The derivative of F̂ at x."""


def newton(equation: Equation, x0: Vector, tolerance: float = 1e-11) -> Vector:
    """The root of a monotone operator by Newton steps, halved until F̂ falls.

    That F̂ vanishes, against the size of its own terms, is not enough for a root: where the operator flattens out, it
    vanishes on the way to infinity too. There the next Newton direction is as long as the one before, some percent of
    x; at a root it shrinks to nothing.

    Raises
    ------
    InputError
        If there is no root to go to, as for logistic regression on separable data.
    """
    x = x0
    at = equation.balance(x)
    if at.vanishes(0.1 * tolerance):
        return x
    weights = np.where(at.terms > 0, at.terms, 1.0)
    direction = _solve(equation.jacobian(x), at.value)
    for _ in range(200):
        there = at.vanishes(tolerance)
        if there and _largest(direction) <= 1e-12 * _largest(x):
            break
        found = _line_search(equation, x, direction, at.value, weights, least=1.0 if there else 0.0)
        if found is None:
            break
        x, at = found
        before, direction = _largest(direction), _solve(equation.jacobian(x), at.value)
        if there and _largest(direction) > 0.5 * before:
            break  # rounding allows no better, or it runs off to infinity
    if at.vanishes(1e3 * tolerance) and _largest(direction) <= 1e-3 * _largest(x):
        return x
    raise InputError(
        f"no exact fit was found: the mean operator is still {_largest(at.value):.1e} at |x| = {_largest(x):.1e}. "
        "The data may be separable, so that maximum likelihood does not exist; a small ridge=... makes it exist"
    )


def _line_search(
    equation: Equation, x: Vector, direction: Vector, value: Vector, weights: Vector, least: float
) -> tuple[Vector, Balance] | None:
    """The first of x − d, x − d/2, x − d/4, … at which F̂, in units of `weights`, is smaller; None if none is.

    Shares of d below `least`, or lost in the rounding of x, are not tried.
    """
    size = _largest(value / weights)
    share = 1.0
    while share >= least and share * _largest(direction) > 1e-17 * _largest(x):
        trial = x - share * direction
        at = equation.balance(trial)
        if _largest(at.value / weights) <= (1 - 1e-4 * share) * size:
            return trial, at
        share /= 2
    return None


def _largest(vector: Vector) -> float:
    return float(np.abs(vector).max())


def _solve(matrix: Vector, vector: Vector) -> Vector:
    """By Cholesky where the matrix allows it, otherwise the least-norm solution; by iteration if it is too large."""
    if not isinstance(matrix, np.ndarray):
        return conjugate_gradients(matrix, vector)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            return np.asarray(scipy.linalg.solve(matrix, vector, assume_a="pos"))
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])


def extragradient(operator: Operator, feasible: Set, x0: Vector, lipschitz: float, tolerance: float = 1e-10) -> Vector:
    """The solution of a monotone VI on a set by Korpelevich's extragradient method with step η = 1/(2L).

    Stops when the natural residual ‖x − Proj(x − ηF̂(x))‖/η is below `tolerance` times ‖F̂(x0)‖ + L‖x‖. An operator
    that does not change (L = 0) is that of a problem without data, which any point solves.
    """
    x = feasible.projected(x0)
    if lipschitz == 0:
        return x
    step = 0.5 / lipschitz
    size = np.linalg.norm(operator(x))
    for _ in range(200_000):
        half = feasible.projected(x - step * operator(x))
        if np.linalg.norm(half - x) <= tolerance * step * (size + lipschitz * np.linalg.norm(x)):
            return half
        x = feasible.projected(x - step * operator(half))
    raise InputError("no exact fit was found in 200000 extragradient steps: the problem is too ill-conditioned for it")


def solve_linear(matrix: Any, vector: Vector, feasible: Set) -> Vector:
    """The x with Ax = b, the shortest if there are many, or the solution of the VI of Ax − b on a smaller set."""
    if isinstance(feasible, WholeSpace):
        return least_norm(matrix, vector)
    return extragradient(lambda x: matrix @ x - vector, feasible, np.zeros_like(vector), spectral_norm(matrix))
