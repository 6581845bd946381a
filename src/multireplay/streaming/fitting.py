"""From sums to an answer: the root of the mean operator of all rows that sums, spread rows and the open block know."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.problems import Problem
from multireplay.problems.constrained import affine_vi
from multireplay.problems.directions import is_nearly_singular
from multireplay.sets import WholeSpace
from multireplay.streaming.batches import Sums
from multireplay.streaming.remainder import Remainder
from multireplay.streaming.spread_rows import Stretches
from multireplay.updates.rank import PART

STEPS = 60
CLOSE = 1e-6
"""Newton's steps end with one that is shorter than this share of x, in units in which the slope's diagonal is 1: what
is left is of the order of its square."""
HALVINGS = 12
FLAT = 1e-8
"""A root at which the Jacobian is so much smaller than at the start is on the way to infinity, …"""
NOTHING = 0.1
"""… and so is one at which all rows together know less of a coordinate than this share of what one row does at 0, …"""
FAR = 32.0
"""… or one so far from the point of the sums that these say nothing of it: by so much the scores of rows differ."""

ROUNDING = 1e-14
"""Of the largest, a singular value that is rounding of sums."""
WELL = 1e-4
"""A matrix of a larger reciprocal condition number is not nearly singular."""


class Root(NamedTuple):
    """A point, whether it is the root that was looked for, and F̂'s Jacobian there times the rows."""

    x: Vector
    found: bool
    slope: Vector


def sums_of(problem: Problem, point: Vector, block: Columns) -> Sums:
    """What is kept of a block: Σ F̃ at the point and Σ ∂F̃/∂x; of a linear problem, whose point is 0, its moments."""
    with np.errstate(over="ignore", invalid="ignore"):
        if problem.is_linear:
            matrix, vector = problem.moments(block)  # type: ignore[misc]
            return Sums(-vector, np.asarray(matrix), row_count(block))
        values = problem.operator_sums(point[None, :], block)[0]
        return Sums(values, np.asarray(problem.jacobian_sum(point, block), dtype=np.float64), row_count(block))


class Fitting:
    """F̂ of all rows near a point: exact sums linearized there, what linearization leaves out, and rows as they are.

    For a nonlinear operator the sums of blocks are those at one point p. At another point x the difference is known
    from spread rows, each of which stands for a stretch::

        Σ F̃(x, ξ) ≈ Σ_blocks [F̃(p, ξ) + F̃'(p, ξ)(x − p)] + Σ_spread w [F̃(x, ξ) − F̃(p, ξ) − F̃'(p, ξ)(x − p)]

    The second sum is of second order in x − p, and so is its error; while all rows are among the spread ones it is
    exact.
    """

    def __init__(self, problem: Problem, point: Vector, one_row: Any = 0.0) -> None:
        self.problem, self.point, self.one_row = problem, point, one_row
        self.penalty = problem.penalty_diagonal(len(point))

    def root(self, total: Sums, kept: list[Stretches], tail: Columns | None, start: Vector, held: Any = 0.0) -> Root:
        """The root of F̂ of all rows, those of `tail` as they are; the solution of its VI on the feasible set.

        `held` is a penalty on the sums, by coordinate, beside the problem's own.
        """
        rows = total.rows + (0 if tail is None else row_count(tail))
        penalty = rows * self.penalty + held
        if self.problem.is_linear:
            if tail is not None:
                last = sums_of(self.problem, self.point, tail)
                total = Sums(total.values + last.values, total.slopes + last.slopes, rows)
            slope = total.slopes + np.diag(penalty)
            return Root(self._linear(slope, total.values, np.zeros(len(start))), True, slope)
        left_out = Remainder(self.problem, self.point, kept)
        for begin in (start, np.zeros(len(start))):
            found = self._newton(total, left_out, tail, begin, penalty)
            if found.found:
                return found
        penalty = np.maximum(penalty, np.maximum(np.diag(found.slope), 1e-12) / max(rows, 1.0))
        return self._newton(total, left_out, tail, np.zeros(len(start)), penalty)._replace(found=False)

    def _newton(self, total: Sums, left_out: Remainder, tail: Columns | None, start: Vector, penalty: Vector) -> Root:
        def at(x: Vector) -> tuple[Vector, Vector]:
            value, slope = left_out.at(x)
            value += total.values + total.slopes @ (x - self.point) + penalty * x
            slope += total.slopes + np.diag(penalty)
            if tail is not None:
                last = sums_of(self.problem, x, tail)
                value, slope = value + last.values, slope + last.slopes
            return value, slope

        x, first = start, None
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope = at(x)
            for _ in range(STEPS):
                first = slope if first is None else first
                step = self._linear(slope, value, x) - x
                if not np.isfinite(step).all():
                    break
                sizes = np.sqrt(np.abs(np.diag(slope)))
                if np.abs(sizes * step).max() <= CLOSE * max(np.abs(sizes * x).max(), 1e-300):
                    lost = self.is_lost(x, slope, left_out.kept) or _is_flat(slope, first)
                    return Root(x + step, not lost, first if lost else slope)
                share, size = 1.0, float(step @ -value)
                for _ in range(HALVINGS):  # the slope along a step towards a root of a monotone operator
                    new, derivative = at(x + share * step)
                    if np.isfinite(new).all() and -(new @ step) >= -0.5 * abs(size):
                        break
                    share /= 2
                x, value, slope = x + share * step, new, derivative
        return Root(x, False, slope if first is None else first)

    def is_lost(self, x: Vector, slope: Vector, kept: list[Stretches]) -> bool:
        """Whether x is on the way to infinity: the sum of Jacobians there says next to nothing, or it is far off."""
        if (np.diag(slope) < NOTHING * self.one_row).any():
            return True
        rows = [part.columns.get("features") for part in kept]
        near = (r.shape[1] != len(x) or np.square(r @ (x - self.point)).mean() <= FAR**2 for r in rows if r is not None)
        return not all(near)

    def _linear(self, slope: Vector, value: Vector, x: Vector) -> Vector:
        """The root of value + slope(y − x) in y, or the solution of its VI on the feasible set."""
        feasible = self.problem.constraint
        if not isinstance(feasible, WholeSpace):
            return affine_vi(slope, slope @ x - value, feasible, start=feasible.projected(x)).x
        return x - divided(slope, value)


def _is_flat(slope: Vector, first: Vector) -> bool:
    """Whether a Jacobian is next to nothing in some direction, beside the first, in units in which that one's is 1."""
    if (np.diag(slope) < FLAT * np.diag(first)).any():
        return True
    sizes = np.sqrt(np.abs(np.diag(first)))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    least = _least(scale[:, None] * slope * scale)
    if least >= FLAT:  # at most 1 before, where the diagonal is 1
        return False
    before = _least(scale[:, None] * first * scale)
    return before > ROUNDING and least < FLAT * before


def _least(matrix: Vector) -> float:
    return float(np.linalg.svd(matrix, compute_uv=False)[-1])


def divided(matrix: Vector, vector: Vector) -> Vector:
    """The inverse of a matrix times a vector (or each column of several), in units in which its diagonal is 1.

    The shortest solution where the matrix is singular to rounding, which is told in these units.
    """
    scale, scaled = _in_units(matrix)
    if not np.isfinite(scaled).all():
        return np.full_like(vector, np.nan)
    factors, pivots, _ = dgetrf(scaled)
    if dgecon(factors, np.abs(scaled).sum(axis=0).max())[0] <= WELL:  # takes a tenth of the time of the other look
        free, closing = free_directions(matrix)
        if len(free):
            found, inside = divided(matrix + closing, vector), np.linalg.qr(free.T)[0]
            return np.asarray(found - inside @ (inside.T @ found))
    by = scale if vector.ndim == 1 else scale[:, None]
    return np.asarray(by * dgetrs(factors, pivots, by * vector)[0])


def free_directions(matrix: Vector) -> tuple[Vector, Vector]:
    """Directions of which a matrix says nothing but rounding, a row each, and what closes them when it is added."""
    scale, scaled = _in_units(matrix)
    free = np.zeros((0, len(matrix)))
    if is_nearly_singular(scaled):
        _, values, directions = np.linalg.svd(scaled)
        free = directions[values <= ROUNDING * values[0]]
        free = np.where(np.abs(free) > PART * np.abs(free).max(axis=1, keepdims=True, initial=0.0), free, 0.0)
    return scale * free, (free / scale).T @ (free / scale)


def _in_units(matrix: Vector) -> tuple[Vector, Vector]:
    sizes = np.sqrt(np.abs(np.diag(matrix)))
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    return scale, scale[:, None] * matrix * scale
