"""What regression and policy evaluation share: one residual a sample, times its features, plus a penalty."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, diags_array, issparse

from multireplay._check import Positions, Vector, number_in, whole_number
from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import array_of, as_numpy, is_foreign, like
from multireplay.errors import FeatureError, InputError
from multireplay.problems.base import GROWTH, UNBOUNDED, Problem, picked, row_blocks
from multireplay.problems.packed import IndexedRows, Rows, largest_square, square_lengths, stretch_totals

NARROW = 32
"""Up to so many features moments are summed in pieces …"""
PIECE = 450_000
"""… of so many multiplications: OpenBLAS then takes a product for a small one, and for none that is worth threads."""
DENSE = 2000
"""Up to this many sparse features a d × d matrix is made dense."""


@dataclass(frozen=True)
class Penalty:
    """The L2 penalty of a problem: λx added to its operator, on all coordinates of x but the last `unpenalized`.

    It is the same on every sample, so that its mean is exact.
    """

    ridge: float
    unpenalized: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", number_in("ridge", self.ridge))
        object.__setattr__(self, "unpenalized", whole_number("unpenalized", self.unpenalized, least=0))

    def check(self, dim: int) -> None:
        """Raise if there are fewer coordinates than are to be left out."""
        if self.unpenalized > dim:
            raise InputError(f"unpenalized={self.unpenalized} is more than the {dim} coordinates there are")

    @property
    def fields(self) -> tuple[float | None, int]:
        """What the loops read: no ridge is None, for which they are compiled without one."""
        return self.ridge or None, self.unpenalized

    @property
    def text(self) -> str:
        """How it is written among the arguments of a problem; empty without a ridge."""
        left_out = f", unpenalized={self.unpenalized}" if self.unpenalized else ""
        return f", ridge={self.ridge:g}{left_out}" if self.ridge else ""

    def diagonal(self, dim: int) -> Vector:
        """λ by coordinate, 0 where it is left out."""
        values = np.zeros(dim)
        values[: dim - self.unpenalized] = self.ridge
        return values

    def added(self, value: Vector, x: Vector) -> Vector:
        """F + λx; F itself without a ridge."""
        return value + self.diagonal(len(x)) * x if self.ridge else value


class ResidualProblem(Problem):
    """A problem whose operator is one number a sample times its features, plus a ridge::

        F̃(x, ξ_t) = r_t(x) ψ_t + λx

    r_t depends on x through a score that is linear in it: f(a_tᵀx) − y_t in a regression, the TD error in policy
    evaluation. A subclass says what ψ_t and r_t are; means, bounds and Jacobians follow from that here.
    """

    outcome: ClassVar[str]
    """The column of what is observed: y_t, or the rewards."""
    penalty: Penalty

    @abstractmethod
    def rows(self, columns: Columns) -> Rows:
        """ψ_t as a matrix."""

    @abstractmethod
    def residuals_at(self, points: Vector, columns: Columns) -> Vector:
        """r_t(x): of shape (rows,) at one point, of shape (points, rows) at each row of `points`."""

    @abstractmethod
    def scores(self, samples: Any, x: Vector) -> Vector:
        """The part of r_t(x) that is linear in x, for every row of packed samples."""

    @abstractmethod
    def slope(self, samples: Any) -> float | None:
        """The largest derivative of r_t by its score over these samples, before weights; None if it is not known."""

    @abstractmethod
    def jacobian_sum(self, x: Vector, columns: Columns) -> Any:
        """Σ_t ∂F̃(x, ξ_t)/∂x over the rows, without the penalty: A of `moments` where the operator is linear.

        Dense rows are multiplied in their own precision: who wants another converts them before.
        """

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        if basis is None:
            return self, columns
        return self, {
            name: column @ basis if name in ("features", "next_features") else column
            for name, column in columns.items()
        }

    def second_moments(self, columns: Columns) -> Any:
        """Σ_t w_t ψ_t ψ_tᵀ over the rows."""
        rows = self.rows(columns)
        if not isinstance(rows, np.ndarray):
            return dense_products(rows, rows)
        half = rows if "weights" not in columns else rows * np.sqrt(columns["weights"])[:, None]
        return half.T @ half

    def dim(self, columns: Columns) -> int:
        return int(self.rows(columns).shape[1])

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        rows, residuals = self.rows(columns), self.residuals_at(x, columns)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.penalty.added(np.asarray(rows.T @ residuals / rows.shape[0], dtype=np.float64), x)

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        rows = self.rows(columns)
        if not isinstance(rows, np.ndarray):
            return np.array([rows.T @ self.residuals_at(x, columns) for x in points], dtype=np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            if len(points) == 1:  # products of a matrix and a vector: twice as fast as of two matrices
                points = points[0]
            return np.atleast_2d(np.asarray(np.dot(self.residuals_at(points, columns), rows), dtype=np.float64))

    def energies(
        self, x: Vector, columns: Columns, starts: Positions, which: Positions | None = None
    ) -> tuple[Vector, Vector]:
        rows, errors = self.rows(columns), np.square(self.residuals_at(x, columns), dtype=np.float64)
        weights = columns.get("weights")
        if not isinstance(rows, np.ndarray):  # neither kind has weights
            each = np.zeros((len(starts), len(errors)))
            each[np.searchsorted(starts, np.arange(len(errors)), side="right") - 1, np.arange(len(errors))] = 1.0
            found = squared_products(rows, np.vstack([errors, each]), which)
            return found[0], found[1:]
        squares = np.square(picked(rows, which), dtype=np.float64)
        heavy = squares if weights is None else squares * weights[:, None]
        return np.dot(errors, squares), stretch_totals(heavy, starts)

    def operator_along(self, x: Vector, directions: Vector, columns: Columns) -> Vector:
        return np.asarray(self.residuals_at(x, columns)[:, None] * (self.rows(columns) @ directions))

    def penalty_diagonal(self, dim: int) -> Vector:
        return self.penalty.diagonal(dim)

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        """The derivative of F̂ at x, Σ_t ∂F̃(x, ξ_t)/∂x / B; the penalty is in it."""
        count = self.rows(columns).shape[0]
        found: Vector = plus_diagonal(self.jacobian_sum(x, columns) / count, self.penalty_diagonal(len(x)))
        return found

    def outcomes_of(self, samples: Any) -> Vector:
        """What was observed, from packed samples."""
        found = getattr(samples, self.outcome)
        return found if isinstance(found, np.ndarray) else as_numpy(found)

    def weights_of(self, samples: Any) -> Vector | None:
        """The weights of packed samples, where there are any."""
        weights = getattr(samples, "weights", None)
        return weights if weights is None or isinstance(weights, np.ndarray) else as_numpy(weights)

    def largest_square(self, samples: Any) -> float:
        """max w_t‖ψ_t‖² over packed samples."""
        return largest_square(samples.features, self.weights_of(samples))

    def lipschitz(self, samples: Any) -> float | None:
        """The largest slope of a residual times max w_t‖ψ_t‖², plus λ."""
        slope = self.slope(samples)
        return None if slope is None else slope * self.largest_square(samples) + self.penalty.ridge

    def heaviest(self, samples: Any) -> float:
        """The largest weight of packed samples, 1 without weights."""
        weights = self.weights_of(samples)
        return 1.0 if weights is None else largest(weights)

    def size(self, outcome: float, scores: Vector) -> float:
        """How large a residual may be with these scores and outcomes of at most that size."""
        return outcome + largest(scores)

    def limit(self, samples: Any, x0: Vector) -> float:
        """10⁸ times the size of a residual at x0, times the largest weight."""
        scores = self.scores(samples, x0) if x0.any() else np.zeros(1)  # at 0 without a pass
        return self.heaviest(samples) * GROWTH * self.size(largest(self.outcomes_of(samples)), scores) or UNBOUNDED

    def extreme_rows(self, samples: Any, x0: Vector) -> NDArray[np.intp]:
        rows, weights = samples.features, self.weights_of(samples)
        dense = type(rows) is np.ndarray
        lengths = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) if dense else square_lengths(rows)
        watched = [self.outcomes_of(samples), self.scores(samples, x0)]
        return extremes(lengths, *watched) if weights is None else extremes(weights * lengths, weights, *watched)


def squared_products(rows: Rows, weights: Vector, which: Positions | None) -> Vector:
    """Σ_t w_t ψ_t² of sparse rows or rows of a table, for each row w of `weights`."""
    if isinstance(rows, IndexedRows):
        states = rows.table.shape[0]
        weights = np.array([np.bincount(rows.index, part, minlength=states) for part in weights])
        rows = rows.table
    chosen = rows if which is None else rows[:, which]
    squares = chosen.astype(np.float64).power(2) if issparse(chosen) else np.square(chosen, dtype=np.float64)
    return np.asarray((squares.T @ weights.T).T)


def weighted(values: Vector, columns: Columns) -> Vector:
    """The values times the weights of their rows, where there are any."""
    return values * columns["weights"] if "weights" in columns else values


def packed_weights(columns: Columns) -> Vector | None:
    """The weights of the rows for the loops, which are compiled without them where there are none."""
    return np.ascontiguousarray(columns["weights"], dtype=np.float64) if "weights" in columns else None


def extremes(*values: NDArray[Any]) -> NDArray[np.intp]:
    """Where each of these arrays is largest and smallest."""
    return np.unique([place for array in values for place in (array.argmax(), array.argmin())])


def largest(values: NDArray[Any]) -> float:
    """max |v_t|."""
    return max(float(values.max()), -float(values.min()))


def times(rows: Rows, x: Vector) -> Any:
    """Rows times a vector or a matrix; arrays by `np.dot`, for @ keeps other threads waiting while it has few rows."""
    return np.dot(rows, x) if isinstance(rows, np.ndarray) else rows @ x


def scores_of(rows: Rows, x: Vector) -> Vector:
    """⟨ψ_t, x⟩ of every row, in NumPy: in blocks, of which float64 copies may be made."""
    if type(rows) is not np.ndarray and is_foreign(rows):
        return as_numpy(rows @ like(x, rows)).astype(np.float64)
    return np.concatenate([block @ x for block in row_blocks(rows)])


def refuse_overflow(rows: Rows, names: tuple[str, ...] | None = None) -> None:
    """Raise where sums of squares of these features are beyond the range of numbers, because of the largest feature.

    It looks at all of them, and so is for when a sum has not come out finite.
    """
    given = array_of(rows)
    matrix: Any = given.table if isinstance(given, IndexedRows) else as_numpy(given) if is_foreign(given) else given
    if issparse(matrix):
        sizes = np.zeros(matrix.shape[1])
        np.maximum.at(sizes, matrix.indices, np.abs(matrix.data))
    else:
        sizes = np.abs([matrix.max(axis=0), matrix.min(axis=0)]).max(axis=0)
    feature = int(sizes.argmax())
    if sizes[feature] > np.sqrt(np.finfo(matrix.dtype).max / matrix.shape[0]):
        raise FeatureError(
            feature,
            f"has values of up to {sizes[feature]:.3g}, whose squares add up beyond the range of {matrix.dtype}: "
            "divide its column by their size",
            names,
        )


def products(left: Rows, right: Rows, weights: Vector | None = None) -> Any:
    """Σ_t w_t l_t r_tᵀ: a dense matrix, or a sparse one if it must stay so. Rows of a table must be of the same one.

    Dense rows are summed in blocks, in float64 also where they are not.
    """
    if isinstance(left, IndexedRows):
        size = left.table.shape[0]
        counted = np.ones(len(left)) if weights is None else weights
        visits = coo_array((counted, (left.index, right.index)), shape=(size, size)).tocsr()
        return _dense_unless_wide(left.table.T @ (visits @ right.table))
    if issparse(left):
        left, right = left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
        weighted = right if weights is None else right.multiply(weights[:, None]).tocsr()
        return _dense_unless_wide((left.T @ weighted).tocsr())
    total = np.zeros((left.shape[1], right.shape[1]))
    every = np.broadcast_to(1.0, left.shape[0]) if weights is None else weights
    for one, other, weight in zip(*map(row_blocks, (left, right, every)), strict=True):
        wide = other.astype(np.float64, copy=False)
        total += one.astype(np.float64, copy=False).T @ (wide if weights is None else weight[:, None] * wide)
    return total


@np.errstate(over="ignore", invalid="ignore")
def joint_moments(left: NDArray[Any], right: NDArray[Any], outcome: NDArray[Any]) -> tuple[Vector, Vector]:
    """Σ_t l_t r_tᵀ and Σ_t o_t l_t of dense rows in float64.

    For few features in pieces that linear algebra multiplies as they are, where for larger ones it would copy them to
    its own order first, and never as the product of a matrix with itself, which is slower there; for many features that
    takes half the multiplications.
    """
    dim = left.shape[1]
    if dim > NARROW:
        return left.T @ right, outcome @ left
    at_once, matrix, vector = PIECE // dim**2, np.zeros((dim, dim)), np.zeros(dim)
    for start in range(0, len(left), at_once):
        rows = slice(start, start + at_once)
        matrix += left[rows].T @ (right[rows].copy() if right is left else right[rows])
        vector += outcome[rows] @ left[rows]
    return matrix, vector


def dense_products(left: Rows, right: Rows, weights: Vector | None = None) -> Vector:
    """`products` as a dense matrix."""
    found = products(left, right, weights)
    return np.asarray(found.toarray() if issparse(found) else found)


def is_wide(rows: Rows) -> bool:
    """Whether these are sparse rows or a sparse matrix with more features than are made dense."""
    return bool(issparse(rows)) and rows.shape[1] > DENSE


def _dense_unless_wide(matrix: Any) -> Any:
    return matrix.toarray() if issparse(matrix) and not is_wide(matrix) else matrix


def plus_diagonal(matrix: Any, diagonal: Vector) -> Any:
    """The matrix with these numbers added to its diagonal."""
    if not diagonal.any():
        return matrix
    if issparse(matrix):
        return (matrix + diags_array(diagonal)).tocsr()
    return matrix + np.diag(diagonal)
