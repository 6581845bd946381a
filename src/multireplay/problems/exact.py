"""Solving a mean operator without stochastic steps: the yardstick of every comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from multireplay.errors import InputError
from multireplay.sets import Set

Vector = NDArray[np.float64]
Operator = Callable[[Vector], Vector]


def newton(operator: Operator, jacobian: Callable[[Vector], Vector], x0: Vector, tolerance: float = 1e-11) -> Vector:
    """The root of a monotone operator by Newton steps, halved until ‖F̂‖ falls.

    Raises
    ------
    InputError
        If there is no root to go to, as for logistic regression on separable data.
    """
    x = x0.copy()
    value = operator(x)
    size = start = float(np.linalg.norm(value))
    steepest = 0.0
    for _ in range(200):
        slopes = jacobian(x)
        steepness = float(np.linalg.norm(slopes))
        steepest = max(steepest, steepness)
        if size <= tolerance * max(1.0, start):
            break
        direction = _solve(slopes, value)
        length = 1.0
        while length > 1e-10:
            trial = x - length * direction
            trial_value = operator(trial)
            trial_size = float(np.linalg.norm(trial_value))
            if trial_size <= (1 - 1e-4 * length) * size:
                break
            length /= 2
        else:
            break
        x, value, size = trial, trial_value, trial_size
    runs_off = steepness < 1e-6 * steepest  # F̂ vanishes only because f flattens out: the root is at infinity
    if size <= 1e3 * tolerance * max(1.0, start) and not runs_off:
        return x
    raise InputError(
        f"no exact fit was found: the mean operator is still {size:.1e} at ‖x‖ = {np.linalg.norm(x):.1e}. "
        "The data may be separable, so that maximum likelihood does not exist; a small ridge=... makes it exist"
    )


def _solve(matrix: Vector, vector: Vector) -> Vector:
    """By Cholesky where the matrix allows it, otherwise the least-norm solution."""
    try:
        return np.asarray(scipy.linalg.solve(matrix, vector, assume_a="pos"))
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])


def extragradient(operator: Operator, feasible: Set, x0: Vector, lipschitz: float, tolerance: float = 1e-10) -> Vector:
    """The solution of a monotone VI on a set by Korpelevich's extragradient method with step 1/(2L).

    Stops when the natural residual ‖Proj(x − F̂(x)/L) − x‖ is below `tolerance` times the scale of x.
    """
    x = feasible.projected(x0)
    step = 0.5 / lipschitz
    for _ in range(200_000):
        half = feasible.projected(x - step * operator(x))
        if np.linalg.norm(half - x) <= tolerance * step * lipschitz * max(1.0, float(np.linalg.norm(x))):
            return half
        x = feasible.projected(x - step * operator(half))
    raise InputError("no exact fit was found in 200000 extragradient steps: the problem is too ill-conditioned for it")
