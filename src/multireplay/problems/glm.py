"""Generalized linear models y = f(aᵀx*) + noise, as a monotone variational inequality."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Vector, number_in
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import array_of
from multireplay.errors import InputError
from multireplay.problems.base import UNBOUNDED, as_constraint, refuse_outside
from multireplay.problems.constrained import newton_vi
from multireplay.problems.exact import EstimatingEquation, extragradient, largest_second_moment, root_of, solve_linear
from multireplay.problems.links import as_link
from multireplay.problems.packed import Rows, SparseRegressionSamples, nonzeros
from multireplay.problems.residual import (
    Penalty,
    ResidualProblem,
    dense_products,
    is_wide,
    joint_moments,
    largest,
    packed_weights,
    plus_diagonal,
    products,
    refuse_overflow,
    scores_of,
    times,
    weighted,
)
from multireplay.sets import Set, WholeSpace

PROBABILITIES = ("logistic", "probit")
"""Links whose values are probabilities."""
RATES = "give rates as targets, counts/exposure, and the exposure as weights, or leave it out"
NAMED = "if it is meant as 'weights', give it that name, and otherwise leave it out"


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
        return np.asarray(self.features[i])


class GLM(ResidualProblem):
    """Regression with a monotone link f, by the operator of the paper (Eq. glm_definition)::

        F̃(x, ξ_t) = a_t (f(a_tᵀx) − y_t)

    Columns: ``features`` a_t of shape (B, d), ``targets`` y_t of shape (B,), and optionally ``weights`` w_t ≥ 0 of
    shape (B,). There is no intercept: give a column of ones. Features may be a scipy sparse matrix: a step on the whole
    space then costs O(nonzeros of its row), and on a feasible set O(d). With weights and a ridge λ, for dense features,
    the operator is::

        F̃(x, ξ_t) = w_t a_t (f(a_tᵀx) − y_t) + λx

    For the identity, logistic and exp links, and no others, this is the gradient of −log of a likelihood (least
    squares, logistic and Poisson regression), and the fit is maximum likelihood. With "probit", "softplus",
    "leaky_relu" or a link of your own it is the root of the same equation E[a(f(aᵀx) − y)] = 0: it comes to the true x*
    as the record grows, and its standard errors are its own, but it is not the maximum-likelihood fit of, say, a probit
    model, whose score has weights f'/(f(1 − f)).

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
    check_targets : bool
        Whether targets outside the range of a built-in link are an error, as they are by default: the logistic and
        probit links need values in [0, 1], the exp link values of at least 0. False for y = f(aᵀx*) + noise. The fit is
        then the root of the mean operator, where there is one, and not maximum likelihood.

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
    elsewhere = MappingProxyType({"exposure": RATES, "exposures": RATES, "sample_weight": NAMED})
    outcome: ClassVar[str] = "targets"

    def __init__(
        self,
        link: str | Callable[[float], float] = "identity",
        constraint: Set | None = None,
        lipschitz: float | None = None,
        ridge: float = 0.0,
        unpenalized: int = 0,
        check_targets: bool = True,
    ) -> None:
        self._link_argument = link
        self.link = as_link(link, lipschitz)
        self._lipschitz = lipschitz
        self.constraint = as_constraint(constraint)
        self.penalty = Penalty(ridge, unpenalized)
        if not isinstance(check_targets, bool | np.bool_):
            raise InputError(f"check_targets must be True or False, not {check_targets!r}")
        self.check_targets = bool(check_targets)

    @property
    def has_probabilities(self) -> bool:
        """Whether targets are probabilities, as the mean that the link makes is."""
        return self.link.name in PROBABILITIES and self.check_targets

    @property
    def compiled(self) -> bool:
        return self.link.compiled is not None

    @property
    def users_code(self) -> bool:
        return not isinstance(self._link_argument, str)

    def check(self, columns: Columns) -> None:
        targets, link = columns["targets"], self.link.name
        anyway = f"for a mean of that range plus noise, GLM({link!r}, check_targets=False)"
        if self.has_probabilities:
            refuse_outside("targets", targets, 1, f"the {link} link needs values in [0, 1]; {anyway}")
        if link == "exp" and self.check_targets:
            refuse_outside("targets", targets, math.inf, f"the exp link needs values of at least 0; {anyway}")
        if "weights" in columns:
            refuse_outside("weights", columns["weights"], math.inf, "a weight is at least 0")
        self.penalty.check(self.dim(columns))
        if issparse(columns["features"]) and (self.penalty.ridge or "weights" in columns):
            raise InputError("weights and ridge=... need dense features, not a sparse matrix")

    def rows(self, columns: Columns) -> Rows:
        return columns["features"]

    def samples(self, columns: Columns) -> RegressionSamples | SparseRegressionSamples:
        targets = np.ascontiguousarray(columns["targets"], dtype=np.float64)  # else loops are compiled for strides too
        features: Rows = columns["features"]
        if issparse(features):
            return SparseRegressionSamples(nonzeros(features), targets, self.link.compiled)
        weights = packed_weights(columns)
        return RegressionSamples(features, targets, self.link.compiled, weights, *self.penalty.fields)

    def operator(self, x: Vector, samples: RegressionSamples, row: int) -> Vector:
        features = samples.row(row)
        error = self.link.function(features @ x) - samples.targets[row]
        weights = getattr(samples, "weights", None)
        if weights is not None:
            error = weights[row] * error
        return self.penalty.added(np.asarray(error * features, dtype=np.float64), x)

    def residuals_at(self, points: Vector, columns: Columns) -> Vector:
        means = self.link.function(times(columns["features"], points.T).T)
        return weighted(means - columns["targets"], columns)

    def scores(self, samples: RegressionSamples, x: Vector) -> Vector:
        return scores_of(samples.features, x)

    def slope(self, samples: RegressionSamples | SparseRegressionSamples) -> float | None:
        """L_f; for the exp link, whose slope has no bound, max(1, max y_t)."""
        if self.link.name == "exp" and not self.users_code:
            return max(1.0, float(self.outcomes_of(samples).max()))
        return None if math.isinf(self.link.lipschitz) else self.link.lipschitz

    def limit(self, samples: RegressionSamples, x0: Vector) -> float:
        return UNBOUNDED if self.users_code else super().limit(samples, x0)

    def size(self, outcome: float, scores: Vector) -> float:
        """The largest |y_t| + |a_tᵀx|, or the largest |f(a_tᵀx)| if larger; 1 where both are probabilities."""
        if self.has_probabilities:
            return 1.0
        return max(super().size(outcome, scores), largest(self.link.function(scores)))

    def curvature(self, x: Vector, columns: Columns) -> Vector:
        """The Jacobian of F̂ at x, Σ w_t f'(a_tᵀx) a_t a_tᵀ / B plus the ridge, which is symmetric."""
        return np.asarray(super().jacobian(x, columns))

    def jacobian(self, x: Vector, columns: Columns) -> Vector | None:
        """The derivative of F̂ at x, for a link whose derivative is known; the ridge is in it."""
        return self.curvature(x, columns) if self.has_jacobian else None

    def bend(self, x: Vector, columns: Columns, moves: Vector) -> Vector | None:
        """½ Σ_k F̂''(x)[δ_k, δ_k] over `moves` δ_k, a row each: what curvature adds to F̂ while x varies by them.

        ½ Σ_t w_t a_t f''(s_t) v_t / B, with v_t = Σ_k (a_tᵀδ_k)² and f'' its mean within √v_t of the score s_t. None
        where the link is not curved or rows are not dense, and for probabilities: there curvature stretches x and its
        standard errors alike, and intervals hold as they are.
        """
        rows = self.rows(columns)
        if self.is_linear or self.has_probabilities or not self.has_jacobian or not isinstance(rows, np.ndarray):
            return None
        scores, width = rows @ x, np.sqrt(np.square(rows @ moves.T).sum(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            change = self.link.derivative(scores + width) - self.link.derivative(scores - width)
        return np.asarray(weighted(width * change / 4, columns) @ rows / len(rows), dtype=np.float64)

    def response(self, scores: Vector) -> Vector:
        return np.asarray(self.link.function(scores), dtype=np.float64)

    def slopes(self, x: Vector, columns: Columns) -> Vector | None:
        if self.link.name == "identity" and "weights" not in columns:
            return None
        return weighted(self.link.derivative(times(self.rows(columns), x)), columns)

    def jacobian_sum(self, x: Vector, columns: Columns) -> Vector:
        rows, slopes = self.rows(columns), self.slopes(x, columns)
        if not isinstance(rows, np.ndarray):
            return dense_products(rows, rows, slopes)
        half = rows if slopes is None else rows * np.sqrt(np.maximum(slopes, 0))[:, None].astype(rows.dtype, copy=False)
        return half.T @ half  # of one matrix with itself: half the multiplications

    def jacobian_diagonal(self, x: Vector, columns: Columns) -> Vector:
        rows, slopes = self.rows(columns), self.slopes(x, columns)
        if not isinstance(rows, np.ndarray):
            return super().jacobian_diagonal(x, columns)
        return np.asarray(np.square(rows).sum(axis=0) if slopes is None else slopes @ np.square(rows))

    def recession(self, samples: RegressionSamples, v: Vector) -> float | None:
        if self.link.name not in (*PROBABILITIES, "exp") or not self.check_targets:
            return None
        scores, targets, weights = self.scores(samples, v), self.outcomes_of(samples), self.weights_of(samples)
        if weights is not None:
            scores = np.where(weights > 0, scores, 0.0)
        full = (targets == 1) & (self.link.name in PROBABILITIES)
        return float(np.where(targets == 0, scores, np.where(full, -scores, np.abs(scores))).max())

    @property
    def is_gradient(self) -> bool:
        return self.link.integral is not None

    @property
    def has_jacobian(self) -> bool:
        return not self.users_code

    @property
    def is_linear(self) -> bool:
        return self.link.name == "identity" and not self.users_code

    def descent(self, x: Vector, columns: Columns) -> tuple[float, Vector] | None:
        if self.link.integral is None:
            return None
        rows, targets = self.rows(columns), columns["targets"]
        scores = times(rows, x)
        losses = weighted(self.link.integral(scores) - targets * scores, columns)
        errors = weighted(self.link.function(scores) - targets, columns)
        return float(losses.sum(dtype=np.float64)), np.asarray(times(rows.T, errors), dtype=np.float64)

    def moments(self, columns: Columns) -> tuple[Any, Vector] | None:
        """Σ w_t a_t a_tᵀ and Σ w_t y_t a_t for the identity link, None for the others; see `Problem`."""
        if not self.is_linear:
            return None
        rows, targets = self.rows(columns), columns["targets"].astype(np.float64, copy=False)
        weights = columns["weights"].astype(np.float64, copy=False) if "weights" in columns else None
        if isinstance(rows, np.ndarray) and rows.dtype == np.float64:
            heavy = rows if weights is None else rows * weights[:, None]
            return joint_moments(heavy, rows, targets)
        return products(rows, rows, weights), rows.T @ weighted(targets, columns)

    def loss(self, x: Vector, columns: Columns) -> float | None:
        """The mean of w_t(∫f(a_tᵀx) − y_t a_tᵀx), whose gradient is F̂(x) but for the ridge, which predicts nothing.

        For a canonical link this is the likelihood's.
        """
        if self.link.integral is None:
            return None
        scores = scores_of(array_of(columns["features"]), x)
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.mean(weighted(self.link.integral(scores) - columns["targets"] * scores, columns)))

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """The x with F̂(x) + ridge·x = 0, or the solution of that VI on the feasible set. Weights count.

        For the identity, logistic and exp links this is maximum likelihood (least squares, logistic and Poisson
        regression) where targets are in the link's range. Otherwise it is the root of the same estimating equation
        Σ a_t (f(a_tᵀx) − y_t) = 0, which is what every stochastic method here converges to, and not the maximum
        likelihood of, say, a probit model.

        Parameters
        ----------
        buffer : Buffer
            The record.
        ridge : float
            L2 penalty on all of x, beside the problem's own: adds (ridge/2)‖x‖² to the mean loss. 0 by default.
        """
        ridge = number_in("ridge", ridge)
        columns = self.columns(buffer)
        samples, zero = self.samples(columns), np.zeros(self.dim(columns))
        penalty = ridge + self.penalty_diagonal(len(zero))
        if isinstance(self.constraint, WholeSpace):
            equation = EstimatingEquation(self, {**columns, "targets": samples.targets}, penalty)
            return equation.original(root_of(equation))
        linear = None if is_wide(samples.features) else self.moments(columns)
        if linear is not None:
            if not np.isfinite(linear[0]).all():
                refuse_overflow(columns["features"], self.names(buffer, len(zero)))
            matrix, vector = (part / len(samples.targets) for part in linear)
            return solve_linear(plus_diagonal(matrix, penalty), vector, self.constraint)
        if not is_wide(samples.features):
            return newton_vi(
                lambda x: self.mean_operator(x, columns) + ridge * x,
                lambda x: self.curvature(x, columns) + ridge * np.eye(len(x)),
                self.constraint,
                zero,
            )
        slope = self.slope(samples)
        if slope is None:
            raise InputError(
                "an exact fit on a constraint set needs the link's largest slope: GLM(link, lipschitz=...)"
            )
        refuse_overflow(samples.features, self.names(buffer, len(zero)))
        top = self.heaviest(samples) * slope * largest_second_moment(samples.features) + ridge + self.penalty.ridge
        return extragradient(lambda x: self.mean_operator(x, columns) + ridge * x, self.constraint, zero, top)

    def __reduce__(self) -> tuple[Any, ...]:
        penalty = self.penalty.ridge, self.penalty.unpenalized
        return (GLM, (self._link_argument, self.constraint, self._lipschitz, *penalty, self.check_targets))

    def __repr__(self) -> str:
        unchecked = "" if self.check_targets else ", check_targets=False"
        return f"GLM(link={self.link.name!r}{self.penalty.text}{unchecked})"
