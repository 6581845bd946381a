"""Solving a mean operator without stochastic steps: the yardstick of every comparison.

By dense algebra while there are few features, and by iteration for more than 2000 sparse ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import diags_array, issparse
from scipy.sparse.linalg import LinearOperator, cg, lsmr, svds

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.errors import InputError
from multireplay.problems.base import row_blocks
from multireplay.problems.constrained import affine_vi, natural_residual
from multireplay.problems.directions import Directions, directions_of, is_nearly_singular
from multireplay.problems.packed import Rows
from multireplay.problems.residual import ResidualProblem, dense_products, is_wide
from multireplay.sets import Set, WholeSpace

if TYPE_CHECKING:
    from multireplay.problems.glm import GLM

Operator = Callable[[Vector], Vector]

BLOCK = 2**13
PATIENCE = 50_000
CLOSE = 1e-9
"""A sparse equation counts as solved when each row is, up to this share of the size of its terms."""
TOLERANCE = 1e-11


class Balance(NamedTuple):
    """F̂ at a point, and by coordinate the mean absolute size of the terms that cancel in it."""

    value: Vector
    terms: Vector

    def vanishes(self, tolerance: float) -> bool:
        """Whether F̂ is 0 up to `tolerance` times the size of its terms."""
        return bool((np.abs(self.value) <= tolerance * self.terms).all())


class EstimatingEquation:
    """F̂(x) + ridge·x = 0 of a GLM, Σ a_t (f(a_tᵀx) − y_t) = 0, for z = s·x in units that suit its features.

    s² is the mean square of each feature plus its ridge, so that all coordinates of z are of one size whatever the
    units of the features, which are a/s in z; the penalty is ridge/s² by coordinate, the problem's own not added.
    Where features are all but combinations of others, x = Bz instead, in a basis in which they are not.
    """

    def __init__(self, problem: GLM, columns: Columns, ridge: Vector) -> None:
        features: Any = columns["features"]
        self.problem = problem
        self.sparse = issparse(features)
        sizes = _sparse_root_mean_squares(features) if self.sparse else _root_mean_squares(features)
        self.scale = np.hypot(sizes, np.sqrt(ridge))
        self.scale[self.scale == 0] = 1.0
        held = ridge / self.scale / self.scale
        self.penalty: Any = diags_array(held) if is_wide(features) else np.diag(held)
        self.count = features.shape[0]
        scaled = features.multiply(1 / self.scale).tocsr() if self.sparse else features
        self.columns: Columns = {**columns, "features": scaled}
        self.known: Directions | None = None
        if not is_wide(scaled) and is_nearly_singular(self.jacobian(np.zeros(len(ridge)))):
            self.known = directions_of(features, columns.get("weights"), self.scale, ridge)
            self.penalty = self.known.basis.T @ (ridge[:, None] * self.known.basis)
            self.columns = columns
            self.__dict__.pop("_linear", None)

    @property
    def start(self) -> Vector:
        """z = 0."""
        return np.zeros(self.penalty.shape[0])

    def original(self, z: Vector) -> Vector:
        """x, the shortest that z stands for."""
        return z / self.scale if self.known is None else self.known.shortest(z)

    def _parts(self) -> Iterator[Columns]:
        """The columns with features in units of z: dense ones in blocks, so that no copy of them all is made."""
        if self.sparse and self.known is None:
            yield self.columns
            return
        for start in range(0, self.count, BLOCK):
            part = {name: column[start : start + BLOCK] for name, column in self.columns.items()}
            rows = part["features"]
            yield {**part, "features": rows / self.scale if self.known is None else rows @ self.known.basis}

    def balance(self, z: Vector) -> Balance:
        """F̂ and the mean size of its terms w_t|a_t|(|f| + |y_t|), penalty included."""
        penalty = self.penalty @ z
        value, terms = np.zeros_like(z), np.zeros_like(z)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts():
                rows, targets, weights = part["features"], part["targets"], part.get("weights", 1.0)
                means = self.problem.link.function(rows @ z)
                value += rows.T @ (weights * (means - targets))
                terms += abs(rows).T @ (weights * (np.abs(means) + np.abs(targets)))
            return Balance(value / self.count + penalty, terms / self.count + np.abs(penalty))

    def jacobian(self, z: Vector) -> Any:
        """The derivative of F̂ by z; for very many sparse features, of which there are no weights, as a function."""
        if is_wide(self.columns["features"]):
            rows: Any = self.columns["features"]
            slopes = self.problem.link.derivative(rows @ z) / self.count
            return LinearOperator(
                (len(z), len(z)), lambda v: rows.T @ (slopes * (rows @ v)) + self.penalty @ v, dtype=np.float64
            )
        total = self._linear
        if total is None:
            total = sum(self.problem.jacobian_sum(z, part) for part in self._parts())
        return total / self.count + self.penalty

    @cached_property
    def _linear(self) -> Any:
        """The sum of a linear problem's moments in units of z, which is its Jacobian everywhere; None of others."""
        moments = map(self.problem.moments, self._parts())
        first = next(moments)
        return None if first is None else sum((matrix for matrix, _ in moments), first[0])  # type: ignore[misc]


def root_of(equation: EstimatingEquation) -> Vector:
    """The root of a monotone operator by Newton steps from 0, halved until F̂ falls.

    That F̂ vanishes, against the size of its own terms, is not enough for a root: where the operator flattens out, it
    vanishes on the way to infinity too. There the next Newton direction is as long as the one before, some percent of
    z; at a root it shrinks to nothing. There may be no root to go to, as for logistic regression on separable data.
    """
    z = equation.start
    at = equation.balance(z)
    if at.vanishes(0.1 * TOLERANCE):
        return z
    weights = np.where(at.terms > 0, at.terms, 1.0)
    direction = _solve(equation.jacobian(z), at.value)
    for _ in range(200):
        there = at.vanishes(TOLERANCE)
        if there and _largest(direction) <= 1e-12 * _largest(z):
            break
        found = _line_search(equation, z, direction, at.value, weights, least=1.0 if there else 0.0)
        if found is None:
            break
        z, at = found
        before, direction = _largest(direction), _solve(equation.jacobian(z), at.value)
        if there and _largest(direction) > 0.5 * before:
            break  # rounding allows no better, or it runs off to infinity
    if at.vanishes(1e3 * TOLERANCE) and _largest(direction) <= 1e-3 * _largest(z):
        return z
    raise InputError(
        f"no exact fit was found: the mean operator is still {_largest(at.value):.1e} at |x| = {_largest(z):.1e}. "
        "The data may be separable, so that there is no fit; a small ridge=... makes it exist"
    )


def _line_search(
    equation: EstimatingEquation, z: Vector, direction: Vector, value: Vector, weights: Vector, least: float
) -> tuple[Vector, Balance] | None:
    """The first of z − d, z − d/2, z − d/4, … at which F̂, in units of `weights`, is smaller; None if none is.

    Shares of d below `least`, or lost in the rounding of z, are not tried.
    """
    size = _largest(value / weights)
    share = 1.0
    while share >= least and share * _largest(direction) > 1e-17 * _largest(z):
        trial = z - share * direction
        at = equation.balance(trial)
        if _largest(at.value / weights) <= (1 - 1e-4 * share) * size:
            return trial, at
        share /= 2
    return None


def _largest(vector: Vector) -> float:
    return float(np.abs(vector).max())


def _solve(matrix: Any, vector: Vector) -> Vector:
    """By Cholesky where the matrix allows it, otherwise the least-norm solution; by iteration if it is too large."""
    if not isinstance(matrix, np.ndarray):  # as well as it can be had: Newton's steps check themselves
        return np.asarray(cg(matrix, vector, rtol=1e-13, maxiter=PATIENCE)[0])
    return dense_solution(matrix, vector, assume_a="pos")


def dense_solution(matrix: Vector, right: Vector, **known: Any) -> Vector:
    """The solution of a linear system, the shortest where there are many; `known` is for `scipy.linalg.solve`."""
    try:
        with warnings.catch_warnings(action="error", category=scipy.linalg.LinAlgWarning):
            return np.asarray(scipy.linalg.solve(matrix, right, **known))
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def extragradient(operator: Operator, feasible: Set, x0: Vector, lipschitz: float, tolerance: float = 1e-10) -> Vector:
    """The solution of a monotone VI on a set by Korpelevich's extragradient method with step η = 1/(2L).

    For the very many sparse features of which no dense matrix can be made; `affine_vi` is exact, and faster, on others.
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


def solve_known(problem: ResidualProblem, columns: Columns, penalty: Vector) -> Vector:
    """The shortest root of a linear F̂ plus this penalty without a part in what no feature says anything of."""
    rows, count = problem.rows(columns), problem.rows(columns).shape[0]
    sizes = np.sqrt(np.diag(problem.second_moments(columns)) / count + penalty)
    known = directions_of(rows, columns.get("weights"), np.where(sizes > 0, sizes, 1.0), penalty)
    if not known.basis.size:
        return np.zeros(len(sizes))
    inside, parts = problem.in_basis(columns, known.basis)
    matrix, vector = (part / count for part in inside.moments(parts))  # type: ignore[union-attr]
    return known.shortest(least_norm(matrix + known.basis.T @ (penalty[:, None] * known.basis), vector))


def solve_linear(matrix: Any, vector: Vector, feasible: Set) -> Vector:
    """The x with Ax = b, the shortest if there are many, or the solution of the VI of Ax − b on a smaller set."""
    if isinstance(feasible, WholeSpace):
        return least_norm(matrix, vector)
    if issparse(matrix):
        return extragradient(lambda x: matrix @ x - vector, feasible, np.zeros_like(vector), spectral_norm(matrix))
    found = affine_vi(matrix, vector, feasible)
    if not found.converged:
        left = natural_residual(matrix, vector, feasible, found.x)
        raise InputError(
            f"no exact fit was found on {feasible!r}: the residual is still {left:.1e} of the size of x. "
            "There may be none, if the set is unbounded or the problem not monotone; a small ridge=... makes it exist"
        )
    return found.x


def least_norm(matrix: Any, vector: Vector) -> Vector:
    """The shortest solution of a linear system: least squares, or LSMR where the matrix is sparse.

    Rows are scaled to one length first. That changes no solution, and takes out of the condition number how often
    each state is visited.
    """
    if not issparse(matrix):
        if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
            raise InputError("the sums of squares of this record are beyond the range of numbers: rescale its columns")
        return np.asarray(np.linalg.lstsq(matrix, vector, rcond=None)[0])
    sizes = np.sqrt(np.asarray((matrix.multiply(matrix)).sum(axis=1)).ravel())
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    scaled = diags_array(scale).tocsr() @ matrix
    x = lsmr(scaled, scale * vector, atol=1e-14, btol=1e-14, conlim=0, maxiter=PATIENCE)[0]
    wrong = np.abs(matrix @ x - vector)
    terms = abs(matrix) @ np.abs(x) + np.abs(vector)
    if not (wrong <= CLOSE * np.maximum(terms, terms.max() * 1e-6)).all():
        raise InputError(
            f"no exact fit was found: {matrix.shape[0]} sparse features are solved by iteration, and {PATIENCE} steps "
            "did not do; a small ridge=... makes the system better conditioned"
        )
    return np.asarray(x)


def spectral_norm(matrix: Any) -> float:
    """The largest singular value."""
    if not issparse(matrix):
        return float(np.linalg.norm(matrix, 2))
    top = svds(matrix, k=1, v0=np.ones(min(matrix.shape)), return_singular_vectors=False)
    return float(top[0])


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
