"""Exact solutions on a feasible set: the affine variational inequality, and Newton's method by means of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.sets import Set

AIM = 1e-11
"""Residuals below this are at rounding level: what is left to do is done until rounding allows no better."""
CLOSE = 1e-8
"""Residuals up to this still count as solved, for sets whose projection is itself no better."""
STEPS = 2000
FLOOR = 1e-14
"""Singular values below this share of the largest are rounding."""


class AffineSolution(NamedTuple):
    """A point of X, and whether it is close enough to a solution to be one."""

    x: Vector
    converged: bool


class _Point(NamedTuple):
    """Where an iteration stands: z, x = Proj(z), the normal map there and its worst entry as a share of its terms."""

    z: Vector
    x: Vector
    value: Vector
    residual: float


class _NormalMap:
    """N(z) = z − x + γ(Mx − q) with x = Proj(z), whose roots are the solutions of the VI of Mx − q (Robinson 1992).

    At a root z = x − γ(Mx − q), and x is the solution.
    """

    def __init__(self, matrix: Vector, vector: Vector, feasible: Set, step: float) -> None:
        self.matrix, self.vector, self.feasible, self.step = matrix, vector, feasible, step
        self._sizes, self._eye = np.abs(matrix), np.eye(len(vector))

    def at(self, z: Vector) -> _Point:
        x = self.feasible.projected(z)
        value = z - x + self.step * (self.matrix @ x - self.vector)
        terms = np.abs(z) + np.abs(x) + self.step * (self._sizes @ np.abs(x) + np.abs(self.vector))
        shares = np.abs(value) / np.where(terms > 0, terms, 1.0)
        return _Point(z, x, value, float(shares.max()))

    def newton(self, point: _Point) -> Vector:
        """The semismooth Newton direction (γMP + I − P)⁻¹N with the derivative P of the projection."""
        slope = self.feasible.derivative(point.z)
        jacobian = self.step * (self.matrix @ slope + FLOOR * slope) + self._eye - slope
        try:
            return np.asarray(np.linalg.solve(jacobian, point.value))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(jacobian, point.value, rcond=None)[0])

    def full_steps(self, point: _Point, count: int) -> tuple[_Point, int]:
        """Newton steps until rounding allows no better, at most `count`; the best point and the number of steps."""
        best = point
        for done in range(count):
            point = self.at(point.z - self.newton(point))
            if not (np.isfinite(point.residual) and np.isfinite(point.z).all()):
                return best, done + 1
            improved = point.residual < 0.5 * best.residual
            best = point if point.residual < best.residual else best
            if best.residual == 0 or (best.residual <= AIM and not improved):
                return best, done + 1
        return best, count

    def damped_steps(self, point: _Point, count: int) -> tuple[_Point, int]:
        """Newton steps halved until ‖(I + γM)⁻¹N‖ falls; ends where no share of a step makes it fall.

        This is the length of a step of Douglas and Rachford from z, a measure in units of x in all directions, the
        flat ones of M too.
        """
        resolvent = scipy.linalg.lu_factor(self._eye + self.step * self.matrix)

        def length(there: _Point) -> float:
            return float(np.linalg.norm(scipy.linalg.lu_solve(resolvent, there.value, check_finite=False)))

        size = length(point)
        for done in range(count):
            if point.residual <= 1e-9:
                return point, done
            direction, share = self.newton(point), 1.0
            while share > 0.05:
                trial = self.at(point.z - share * direction)
                trial_size = length(trial)
                if trial_size <= (1 - 0.1 * share) * size:
                    break
                share /= 2
            else:
                return point, done + 1
            point, size = trial, trial_size
        return point, count


def well_scaled(matrix: Vector, feasible: Set) -> tuple[Vector, Vector, Set]:
    """Units S in which the diagonal of A is 1, with SAS and the set in them; those of x where the set has no others."""
    sizes = np.sqrt(np.abs(np.diag(matrix)))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    there = feasible.in_units(scale)
    return (np.ones_like(scale), matrix, feasible) if there is None else (scale, scale[:, None] * matrix * scale, there)


def affine_vi(matrix: Vector, vector: Vector, feasible: Set, start: Vector | None = None) -> AffineSolution:
    """The x in X with ⟨Ax − b, y − x⟩ ≥ 0 for all y in X, to rounding, for a monotone A (A + Aᵀ ≥ 0).

    For a symmetric A this is the minimizer of xᵀAx/2 − bᵀx on X, for X = R^d a solution of Ax = b. A may be singular;
    then one of the solutions is found. Only the projection on X is used, and its derivative, in units in which the
    diagonal of A is 1, where X has a projection in them.

    Newton's method for the normal map (Robinson 1992; Qi and Sun 1993), which finds the face of a polyhedron and solves
    on it exactly, is tried first. Where its full steps do not converge, they solve a sequence of easier problems, those
    of A + τI about the point before: the proximal point algorithm (Martinet 1970; Rockafellar 1976), with a τ that
    grows where a problem turns out too hard (with a large one Newton's steps are those of Douglas and Rachford; Lions
    and Mercier 1979) and falls where it does not. Each of their solutions is a start for full steps on A itself.

    Parameters
    ----------
    matrix, vector
        A and b.
    feasible
        X.
    start
        Where to start, 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.sets import NonNegative
    >>> found = affine_vi(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0]), NonNegative())
    >>> found.x, found.converged
    (array([0.5, 0. ]), True)
    """
    if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
        raise InputError("the mean operator is not finite: its data are too large for double precision")
    scale, matrix, feasible = well_scaled(matrix, feasible)
    vector, start = scale * vector, None if start is None else start / scale
    values = np.linalg.svd(matrix, compute_uv=False)
    unit = float(values[0]) or float(np.abs(vector).max()) or 1.0
    A, b, values = matrix / unit, vector / unit, values / unit
    x = feasible.projected(np.zeros_like(b) if start is None else start)
    far = (np.linalg.norm(x) + np.linalg.norm(b)) / (100 * FLOOR)  # where only a problem without a solution leads
    force, exact = b - A @ x, _NormalMap(A, b, feasible, 1.0)
    best, steps = exact.full_steps(exact.at(x + force), 20)
    weight = 0.01
    while best.residual > AIM and steps < STEPS:
        step = float(np.exp(-np.log(values + weight + FLOOR).mean()))
        near = _NormalMap(A + weight * np.eye(len(b)), b + weight * x, feasible, step)
        point, more = near.damped_steps(near.at(x + step * force), 15)
        steps += more + 1
        x, force = point.x, (point.z - point.x) / step
        if point.residual > 1e-9:
            weight = min(10 * weight, 1e6)
            continue
        weight = 0.03 * weight if weight > FLOOR else 0.0
        found, more = exact.full_steps(exact.at(x + force), 8)
        steps += more
        best = found if found.residual < best.residual else best
    converged = best.residual <= CLOSE and bool(np.linalg.norm(best.x) <= far)
    return AffineSolution(scale * best.x, converged)


def natural_residual(matrix: Vector, vector: Vector, feasible: Set, x: Vector) -> float:
    """‖x − Proj(x − (Ax − b)/L)‖ / (‖x‖ + ‖b‖/L) with the largest singular value L of A: 0 at a solution.

    It is of the x that is handed over, in its own units, whatever units the x was found in.
    """
    top = float(np.linalg.norm(matrix, 2)) or float(np.abs(vector).max()) or 1.0
    away = x - feasible.projected(x - (matrix @ x - vector) / top)
    return float(np.linalg.norm(away) / ((np.linalg.norm(x) + np.linalg.norm(vector) / top) or 1.0))


def newton_vi(
    gradient: Callable[[Vector], Vector], jacobian: Callable[[Vector], Vector], feasible: Set, start: Vector
) -> Vector:
    """The minimizer on X of a convex function with this gradient F and this Jacobian J of it, to rounding.

    By the method of Josephy (1979): the next point solves the VI of F(x) + J(x)(y − x) in y. The step there is halved
    until the slope along it is not positive, which makes the function fall; a full one may go beyond the minimum on
    its line by a tenth of the slope at its start, as it does when it is nearly there.
    """
    x, before = feasible.projected(start), np.inf
    for _ in range(200):
        value, slope = gradient(x), jacobian(x)
        found = affine_vi(slope, slope @ x - value, feasible, start=x)
        direction = found.x - x
        length, fall = float(np.linalg.norm(direction)), -float(value @ direction)
        scale = float(np.linalg.norm(found.x))
        rounding = length <= 1e-7 * scale and not (fall > 0 and length < 0.5 * before)
        if found.converged and (length <= 1e-13 * scale or rounding):
            return found.x
        if not fall > 0 or not np.isfinite(length):
            break
        share = 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            while share > 1e-12 and not gradient(x + share * direction) @ direction <= 0.1 * fall * (share == 1):
                share /= 2
        x, before = x + share * direction, length
    raise InputError(
        f"no exact fit was found on {feasible!r}: Newton's method ends at |x| = {np.abs(x).max():.1e}. The data may be "
        "separable, so that there is no fit; a small ridge=... makes it exist"
    )
