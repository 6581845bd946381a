"""Generalized linear models y = f(aᵀx*) + noise, as a monotone variational inequality."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_blocks
from multireplay.errors import InputError
from multireplay.problems.base import (
    GROWTH,
    UNBOUNDED,
    Problem,
    as_constraint,
    blocks_in_cache,
    extremes,
    largest,
    largest_square,
    square_lengths,
)
from multireplay.problems.estimating import estimating_equation, largest_second_moment
from multireplay.problems.exact import as_ridge, extragradient, newton
from multireplay.problems.links import as_link
from multireplay.problems.packed import SparseRegressionSamples, nonzeros
from multireplay.problems.penalty import Penalty
from multireplay.problems.rows import Rows, dense_products, is_sparse
from multireplay.sets import Set, WholeSpace

PROBABILITIES = ("logistic", "probit")
"""Links whose values are probabilities."""


class RegressionSamples(NamedTuple):
    """What the loops read: covariates and response a row, and the link as a code or a jitted function.

    Without weights or without a ridge these are None, so that the loop is compiled without them.
    """

    features: NDArray[Any]
    targets: NDArray[Any]
    link: Any
    weights: Vector | None = None
    ridge: float | None = None
    unpenalized: int = 0

    def row(self, i: int) -> NDArray[Any]:
        """a_i."""
        return np.asarray(self.features[i])


class GLM(Problem):
    """Regression with a monotone link f, by the operator of the paper (Eq. glm_definition)::

        F̃(x, ξ_t) = a_t (f(a_tᵀx) − y_t)

    Columns: ``features`` a_t of shape (B, d), ``targets`` y_t of shape (B,), and optionally ``weights`` w_t ≥ 0 of
    shape (B,). There is no intercept: give a column of ones. Features may be a scipy sparse matrix: a step on the whole
    space then costs O(nonzeros of its row), and on a feasible set O(d). With weights and a ridge λ, for dense features,
    the operator is::

        F̃(x, ξ_t) = w_t a_t (f(a_tᵀx) − y_t) + λx

    Parameters
    ----------
    link : str or callable
        "identity" (least squares), "logistic", "probit", "exp" (Poisson), "softplus", "leaky_relu" (slope 0.01 below
        0), or your own increasing function of one number. A Numba-jitted one runs in the compiled loop, a plain one
        in the Python loop.
    constraint : Set, optional
        Feasible set of x, the whole space by default.
    lipschitz : float, optional
        Largest slope L_f of your own link; needed only for ``step="auto"``.
    ridge : float
        L2 penalty λ: adds (λ/2)‖x‖² to the mean loss. 0 by default.
    unpenalized : int
        How many of the last coordinates, such as that of a column of ones, the penalty leaves out. 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((2000, 2))
    >>> y = rng.poisson(np.exp(A @ [0.5, -0.5]))
    >>> mr.GLM(link="exp").fit_exactly(mr.Buffer(features=A, targets=y)).round(2)
    array([ 0.49, -0.47])
    """

    required: Mapping[str, int] = MappingProxyType({"features": 2, "targets": 1})
    optional: Mapping[str, int] = MappingProxyType({"weights": 1})

    def __init__(
        self,
        link: str | Callable[[float], float] = "identity",
        constraint: Set | None = None,
        lipschitz: float | None = None,
        ridge: float = 0.0,
        unpenalized: int = 0,
    ) -> None:
        self._link_argument = link
        self.link = as_link(link, lipschitz)
        self._lipschitz = lipschitz
        self.constraint = as_constraint(constraint)
        self.penalty = Penalty(ridge, unpenalized)

    @property
    def compiled(self) -> bool:
        return self.link.compiled is not None

    @property
    def users_code(self) -> bool:
        return not isinstance(self._link_argument, str)

    def check(self, columns: Columns) -> None:
        targets = columns["targets"]
        if self.link.name in PROBABILITIES and not (targets.min() >= 0 and targets.max() <= 1):
            bad = int(np.flatnonzero((targets < 0) | (targets > 1))[0])
            raise InputError(
                f"column 'targets' holds {targets[bad]:g} at row {bad} (counting from 0); "
                f"the {self.link.name} link needs values in [0, 1]"
            )
        if self.link.name == "exp" and not targets.min() >= 0:
            bad = int(np.flatnonzero(targets < 0)[0])
            raise InputError(
                f"column 'targets' holds {targets[bad]:g} at row {bad} (counting from 0); "
                "the exp link needs values of at least 0"
            )
        if "weights" in columns and not columns["weights"].min() >= 0:
            bad = int(np.flatnonzero(columns["weights"] < 0)[0])
            raise InputError(
                f"column 'weights' holds {columns['weights'][bad]:g} at row {bad} (counting from 0); "
                "a weight is at least 0"
            )
        self.penalty.check(self.dim(columns))
        if is_sparse(columns["features"]) and (self.penalty.ridge or "weights" in columns):
            raise InputError("weights and ridge=... need dense features, not a sparse matrix")

    def dim(self, columns: Columns) -> int:
        return int(columns["features"].shape[1])

    def samples(self, columns: Columns) -> RegressionSamples | SparseRegressionSamples:
        targets = np.ascontiguousarray(columns["targets"], dtype=np.float64)  # else loops are compiled for strides too
        features: Rows = columns["features"]
        if is_sparse(features):
            return SparseRegressionSamples(nonzeros(features), targets, self.link.compiled)
        weights = np.ascontiguousarray(columns["weights"], dtype=np.float64) if "weights" in columns else None
        return RegressionSamples(features, targets, self.link.compiled, weights, *self.penalty.fields)

    def operator(self, x: Vector, samples: RegressionSamples, row: int) -> Vector:
        features = samples.row(row)
        error = self.link.function(features @ x) - samples.targets[row]
        weights = getattr(samples, "weights", None)
        if weights is not None:
            error = weights[row] * error
        return self.penalty.added(np.asarray(error * features, dtype=np.float64), x)

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        features = columns["features"]
        errors = _weighted(self.link.function(features @ x) - columns["targets"], columns)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.penalty.added(np.asarray(features.T @ errors / features.shape[0], dtype=np.float64), x)

    def mean_operators(self, points: Vector, columns: Columns) -> Vector:
        features = columns["features"]
        if not isinstance(features, np.ndarray):
            return super().mean_operators(points, columns)
        total = np.zeros_like(points)
        for part in blocks_in_cache(columns):
            errors = self.link.function(part["features"] @ points.T) - part["targets"][:, None]
            if "weights" in part:
                errors = errors * part["weights"][:, None]
            with np.errstate(invalid="ignore", over="ignore"):
                total += errors.T @ part["features"]
        return np.asarray(total / features.shape[0] + self.penalty.diagonal(points.shape[1]) * points)

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        features = columns["features"]
        errors = self.link.function(features @ points.T) - columns["targets"][:, None]
        if "weights" in columns:
            errors = errors * columns["weights"][:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(errors.T @ features if isinstance(features, np.ndarray) else (features.T @ errors).T)

    def penalty_at(self, points: Vector) -> Vector:
        return self.penalty.diagonal(points.shape[1]) * points

    def moments(self, columns: Columns) -> tuple[Vector, Vector] | None:
        """Σ w_t a_t a_tᵀ and Σ w_t y_t a_t for the identity link."""
        if self.link.name != "identity" or self.users_code:
            return None
        rows, targets = columns["features"], _weighted(columns["targets"], columns)
        return dense_products(rows, rows, self._weights(columns)), np.asarray(rows.T @ targets, dtype=np.float64)

    def lipschitz(self, samples: RegressionSamples) -> float | None:
        """L_f · max w_t‖a_t‖² + λ; for the exp link, whose slope has no bound, L_f is taken as max(1, max y_t)."""
        slope = self._largest_slope(samples)
        return (
            None
            if slope is None
            else slope * largest_square(samples.features, getattr(samples, "weights", None)) + self.penalty.ridge
        )

    def _largest_slope(self, samples: RegressionSamples | SparseRegressionSamples) -> float | None:
        if self.link.name == "exp" and not self.users_code:
            return max(1.0, float(samples.targets.max()))
        return None if math.isinf(self.link.lipschitz) else self.link.lipschitz

    def limit(self, samples: RegressionSamples, x0: Vector) -> float:
        """10⁸ times the size of the data at x0: the largest |y_t| + |a_tᵀx0|, or the largest |f(a_tᵀx0)| if larger.

        With weights, times the largest of them. Where f and y_t are probabilities no residual is larger than 1.
        """
        if self.users_code:
            return UNBOUNDED
        weights = getattr(samples, "weights", None)
        heaviest = 1.0 if weights is None else largest(weights)
        if self.link.name in PROBABILITIES:
            return (heaviest * GROWTH) or UNBOUNDED
        scores = [block @ x0 for block in row_blocks(samples.features)] if x0.any() else [np.zeros(1)]
        size = largest(samples.targets) + max(map(largest, scores))
        return heaviest * GROWTH * max(size, *(largest(self.link.function(score)) for score in scores)) or UNBOUNDED

    def extreme_rows(self, samples: RegressionSamples, x0: Vector) -> NDArray[np.intp]:
        scores = samples.features @ x0
        lengths, weights = square_lengths(samples.features), getattr(samples, "weights", None)
        if weights is None:
            return extremes(lengths, samples.targets, scores)
        return extremes(weights * lengths, weights, samples.targets, scores)

    def curvature(self, x: Vector, columns: Columns) -> Vector:
        """The Jacobian of F̂ at x, Σ w_t f'(a_tᵀx) a_t a_tᵀ / B plus the ridge, which is symmetric."""
        rows = columns["features"]
        slopes = _weighted(self.link.derivative(rows @ x), columns)
        moments = np.asarray(dense_products(rows, rows, slopes) / rows.shape[0])
        return moments + np.diag(self.penalty.diagonal(len(x)))

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        """The same, for a link whose derivative is known."""
        return None if self.users_code else self.curvature(x, columns)

    def _weights(self, columns: Columns) -> Vector | None:
        return columns["weights"].astype(np.float64, copy=False) if "weights" in columns else None

    def loss(self, x: Vector, columns: Columns) -> float | None:
        """The mean of w_t(∫f(a_tᵀx) − y_t a_tᵀx), whose gradient is F̂(x) but for the ridge, which predicts nothing.

        For a canonical link this is the likelihood's.
        """
        if self.link.integral is None:
            return None
        scores = columns["features"] @ x
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean(_weighted(self.link.integral(scores) - columns["targets"] * scores, columns)))

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """The x with F̂(x) + ridge·x = 0, or the solution of that VI on the feasible set. Weights count.

        For the identity, logistic and exp links this is maximum likelihood (least squares, logistic and Poisson
        regression). For the others it is the root of the same estimating equation Σ a_t (f(a_tᵀx) − y_t) = 0, which
        is what every stochastic method here converges to, and not the likelihood of, say, a probit model.

        Parameters
        ----------
        buffer : Buffer
            The record.
        ridge : float
            L2 penalty on all of x, beside the problem's own: adds (ridge/2)‖x‖² to the mean loss. 0 by default.
        """
        ridge = as_ridge(ridge)
        columns = self.columns(buffer)
        samples = self.samples(columns)
        zero = np.zeros(self.dim(columns))
        if isinstance(self.constraint, WholeSpace):
            penalty = ridge + self.penalty.diagonal(len(zero))
            equation = estimating_equation(
                samples.features, samples.targets, self.link, penalty, self._weights(columns)
            )
            return newton(equation, zero) / equation.scale
        slope = self._largest_slope(samples)
        if slope is None:
            raise InputError(
                "an exact fit on a constraint set needs the link's largest slope: GLM(link, lipschitz=...)"
            )
        weights = self._weights(columns)
        heaviest = 1.0 if weights is None else largest(weights)
        top = heaviest * slope * largest_second_moment(samples.features) + ridge + self.penalty.ridge
        return extragradient(lambda x: self.mean_operator(x, columns) + ridge * x, self.constraint, zero, top)

    def __reduce__(self) -> tuple[Any, ...]:
        penalty = self.penalty.ridge, self.penalty.unpenalized
        return (GLM, (self._link_argument, self.constraint, self._lipschitz, *penalty))

    def __repr__(self) -> str:
        return f"GLM(link={self.link.name!r}{self.penalty.text})"


def _weighted(values: Vector, columns: Columns) -> Vector:
    """The values times the weights of their rows, where there are any."""
    return values * columns["weights"] if "weights" in columns else values
