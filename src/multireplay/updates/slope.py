"""Dividing by a Jacobian: what a correction is made with, and standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from multireplay._check import Vector
from multireplay.buffer.foreign import Array, as_numpy, like
from multireplay.engine.sums import (
    Batches,
    BlockSum,
    Folding,
    Part,
    as_batches,
    batch_bounds,
    fold,
    operator_batches,
)
from multireplay.problems.base import as_double
from multireplay.updates.inverse import Inverse

if TYPE_CHECKING:
    from multireplay.buffer.columns import Columns
    from multireplay.buffer.record import Record
    from multireplay.problems import Problem

CONDITION = {"f": 3e-6, "d": 1e-11}
"""The reciprocal condition number below which a matrix is not to be relied on, in single and double precision."""
POWER_STEPS = 4


class Lapack:
    """Cholesky's factors of a matrix that has them, and LU otherwise."""

    def __init__(self, matrix: Vector) -> None:
        self.whole, self.kind = matrix, matrix.dtype
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
        """The reciprocal condition number, as LAPACK estimates it."""

    def divide(self, values: Vector, transposed: bool = False) -> Vector:
        """The inverse of the matrix, or of its transpose, times each column."""
        with np.errstate(over="ignore"):
            right = values.astype(self.kind, copy=False)
        if self._symmetric:
            return np.asarray(self._solver(self._factors[0], right)[0])
        return np.asarray(self._solver(*self._factors, right, trans=int(transposed))[0])

    def rate(self, half: Vector, steps: int) -> float:
        """‖A⁻¹ · half‖ by power iteration."""
        vector, size = np.random.default_rng(0).standard_normal(len(half)).astype(half.dtype), 0.0
        for _ in range(steps):
            vector /= np.linalg.norm(vector) or 1.0
            moved = self.divide((half @ vector)[:, None])[:, 0]
            size = float(np.linalg.norm(moved))
            vector = half.T @ self.divide(moved[:, None], transposed=True)[:, 0]
        return size

    def wobble(self, half: Vector, steps: int) -> float:
        """‖half + halfᵀ‖ by power iteration: how far A + Aᵀ may be from what it would be of more rows."""
        vector, size = np.random.default_rng(1).standard_normal(len(half)).astype(half.dtype), 0.0
        for _ in range(steps):
            vector /= np.linalg.norm(vector) or 1.0
            vector = half @ vector + half.T @ vector
            size = float(np.linalg.norm(vector))
        return size

    def is_monotone(self, margin: float) -> bool:
        """Whether A + Aᵀ is positive definite, or not by more than so much."""
        try:
            np.linalg.cholesky(self.whole + self.whole.T + margin * np.eye(len(self.whole), dtype=self.kind))
        except np.linalg.LinAlgError:
            return False
        return True


class Slope:
    """J⁻¹, with J the Jacobian of F̂ on some rows.

    `matrix` is J in units of `scale`, SJS, in which it is well scaled. The inverse of the mean of m independent rows is
    m/(m − d) times too large on average (inverse Wishart), which is taken out where `rows` is given. `damping` is for
    corrections of a fit of the same rows, most of whose error is where J is too small: (1 − d/m)²/(1 + d/m) of J⁻¹ in
    all leaves least of it, a share √(d/m) or so. `slowest` is the smallest eigenvalue of this J⁻¹ times the Jacobian of
    many more rows, where that of m is at most (1 + √(d/m))² times too large (Marchenko and Pastur 1967).

    With `products` there is no matrix, and dividing many columns takes a while: `glance` is `rough` then.
    """

    def __init__(self, matrix: Array, scale: Vector, rows: int | None = None, products: Any = None) -> None:
        self.scale, self.rows, self.rough = scale, rows, products is not None
        self.there: Array = None  # the scale where the columns lie, once it was needed there
        self.share = share = 0.0 if rows is None else min(0.5, len(scale) / rows)
        self.shrink, self.damping = 1 - share, (1 - share) / (1 + share)
        self.slowest = self.shrink / (1 + share**0.5) ** 2
        self.factors: Any = products or (Lapack(matrix) if isinstance(matrix, np.ndarray) else Inverse(matrix))
        self.condition = self.factors.condition

    @property
    def dependable(self) -> bool:
        """Whether the matrix is far enough from a singular one for its precision."""
        return self.condition > CONDITION[self.factors.kind.char]

    def divide(self, values: Vector, transposed: bool = False) -> Vector:
        """The inverse of `matrix` times each column."""
        return np.asarray(self.factors.divide(values, transposed))

    def solve(self, values: Vector) -> Vector:
        """J⁻¹ times each row."""
        return np.asarray(self.shrink * self.scale * self.divide((values * self.scale).T).T, dtype=np.float64)

    def glance(self, batches: Batches) -> Vector:
        """J⁻¹ times the mean of each batch; if `rough`, as `solve` has it only on average over all of them."""
        if not self.rough:
            return self.solve(batches.means)
        scaled = self.factors.roughly((batches.means * self.scale).T, (batches.mean * self.scale)[:, None])
        return np.asarray(self.shrink * self.scale * scaled.T, dtype=np.float64)

    def squared_shrink(self, length: int, freedom: float | None = None) -> float:
        """What J⁻¹ of m rows is to be multiplied by where its square is what matters, as in a variance.

        If W is the sum of m rows' products, E W⁻² = (m − 1)/((m − d)(m − d − 1)(m − d − 3)) (inverse Wishart), so that
        the square of (W/m)⁻¹ is (1 − d/m)⁻³ times too large; but the Jacobian of all n rows, which it stands for, has
        its own (1 − d/n)⁻³, which is in no way an error. On a set d is the number of directions that it leaves.
        """
        free = 1.0 if freedom is None else freedom / len(self.scale)
        return float(((1 - self.share * free) / (1 - min(self.share, len(self.scale) / length) * free)) ** 1.5)

    def images(self, values: Vector, inside: bool = False) -> Vector:
        """J⁻¹ times each row, where the rows are in the basis that J is in, and so are the images if `inside`."""
        return self.solve(values)

    @property
    def full(self) -> Vector:
        """J itself, in the units of x."""
        return np.asarray(self.factors.whole / self.scale[:, None] / self.scale, dtype=np.float64)


def batch_images(record: Record, x: Vector, slope: Slope, how: Folding) -> tuple[Batches, Vector]:
    """F̂ at x by batches, and J⁻¹ times each of them: on a device both are worked out before either is brought home."""
    if not isinstance(slope.factors, Inverse) or record.problem.penalty_diagonal(len(x)).any():
        batches = operator_batches(record, [x], how)[0]
        return batches, slope.glance(batches)
    bounds = batch_bounds(record.length, record.dim, how.pieces)
    problem: Any = record.problem
    if slope.there is None:
        slope.there = like(slope.scale, problem.home)
    there = problem.sums_there(x, next(record.parts(0))[1], bounds)
    divided = slope.factors.divide_rows(there * slope.there)
    images = as_numpy(divided) * (slope.shrink * slope.scale)
    sums = np.asarray(as_numpy(there), dtype=np.float64)
    batches = as_batches(record, x[None, :], sums[:, None], bounds)[0]
    images /= batches.sizes[:, None]
    how.advanced(record.length)
    return batches, images


class DiagonalSum(BlockSum):
    """The diagonal of Σ_t ∂F̃(x, ξ_t)/∂x, without the penalty."""

    def __init__(self, problem: Problem, x: Vector) -> None:
        self.problem, self.x = problem, x

    def zero(self) -> Part:
        return (np.zeros(len(self.x)),)

    def of(self, block: Columns) -> Part:
        return (self.problem.jacobian_diagonal(self.x, as_double(block)),)


def with_diagonal(record: Record, slope: Slope, x: Vector, threads: int) -> Slope:
    """A slope whose Jacobian J, of some rows, becomes DJD with the diagonal of that of all rows, in one pass over them.

    The error of J_jj for a feature that is active in k of the rows is a share √(2/k) or so of it, and all but as large
    in the standard error of x_j. Other entries of its row and column are small beside it, and scaled alike.
    """
    diagonal = fold(record, DiagonalSum(record.problem, x), how=Folding(threads))[0][0] / record.length
    diagonal = diagonal + record.problem.penalty_diagonal(len(x))
    before = np.diag(slope.full)
    ratio = diagonal / np.where(before > 0, before, np.nan)
    ratio = np.sqrt(np.where(ratio > 0, ratio, 1.0))
    factors = slope.factors.whole * ratio[:, None] * ratio
    return Slope(factors.astype(slope.factors.kind), slope.scale, slope.rows)
