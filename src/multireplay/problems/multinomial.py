"""Multinomial logistic regression: one likelihood for all classes, as a monotone variational inequality."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.sparse import csr_array, eye_array, issparse, kron
from scipy.special import logsumexp, softmax

from multireplay._check import Positions, Vector, number_in, whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.errors import InputError
from multireplay.problems.base import Problem, picked, refuse, refuse_outside
from multireplay.problems.constrained import newton_vi
from multireplay.problems.packed import largest_square
from multireplay.problems.residual import Penalty, extremes, packed_weights, weighted

if TYPE_CHECKING:
    from multireplay.buffer.disk import StoredBuffer


class ClassSamples(NamedTuple):
    """What the loop reads: covariates and the number of the class a row, and weights, if there are any."""

    features: NDArray[Any]
    targets: NDArray[np.intp]
    weights: Vector | None = None

    def row(self, i: int) -> NDArray[Any]:
        return np.asarray(self.features[i])


class Multinomial(Problem):
    """Logistic regression of several classes, with P(y_t = k) in proportion to exp(w_kᵀa_t).

    Columns: ``features`` a_t of shape (B, d), dense, ``targets`` of shape (B,) with the numbers 0, …, classes − 1, and
    optionally ``weights`` of shape (B,). There is no intercept: give a column of ones.

    One vector may be added to all w_k without any change, so that x has d·(classes − 1) coordinates: contrasts between
    the classes, in an orthonormal basis Q of the vectors that sum to 0 (Helmert's). W = QX, with X the rows of x, sums
    to 0 over the classes, and has the length of x, so that a ridge on x is a ridge on all w_k, as in scikit-learn's
    `LogisticRegression`. The operator is the gradient of the loss −log P(y_t)::

        F̃(x, ξ_t) = w_t Qᵀ(p_t − e_{y_t}) ⊗ a_t + λx

    `coefficients` makes W of x, and `map_of` says of one class what ``result.uncertainty.mapped`` needs. Steps run in
    the Python loop.

    Parameters
    ----------
    classes : int
        How many there are, at least 2.
    ridge : float
        L2 penalty λ: adds (λ/2)Σ_k‖w_k‖² to the mean loss. 0 by default.
    unpenalized : int
        How many of the last coefficients of every class the penalty leaves out. 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> A = np.column_stack([rng.standard_normal(6000), np.ones(6000)])
    >>> scores = A @ np.array([[1.0, 0.0, -1.0], [0.5, 0.0, -0.5]])
    >>> y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    >>> problem = mr.Multinomial(3)
    >>> result = mr.solve(problem, mr.Buffer(features=A, targets=y))
    >>> problem.coefficients(result.x).round(1) + 0.0
    array([[ 1. ,  0.5],
           [ 0. ,  0. ],
           [-1. , -0.5]])
    >>> result.uncertainty.mapped(problem.map_of(0, 2), ["slope", "constant"]).standard_error.round(2)
    array([0.03, 0.03])
    """

    required: Mapping[str, int] = MappingProxyType({"features": 2, "targets": 1})
    optional: Mapping[str, int] = MappingProxyType({"weights": 1})
    by_feature = False
    compiled = False
    has_jacobian = True
    is_gradient = True

    def __init__(self, classes: int, ridge: float = 0.0, unpenalized: int = 0) -> None:
        self.classes = whole_number("classes", classes, least=2)
        self.penalty = Penalty(ridge, unpenalized)
        self.contrasts: Vector = np.asarray(helmert(self.classes)).T

    def check(self, columns: Columns) -> None:
        targets, last = columns["targets"], self.classes - 1
        refuse_outside("targets", targets, last, f"with {self.classes} classes they are numbered from 0 to {last}")
        refuse(targets != np.floor(targets), "targets", targets, "classes are whole numbers")
        if "weights" in columns:
            refuse_outside("weights", columns["weights"], math.inf, "a weight is at least 0")
        if issparse(columns["features"]):
            raise InputError("Multinomial needs dense features, not a sparse matrix")
        self.penalty.check(columns["features"].shape[1])

    def dim(self, columns: Columns) -> int:
        return (self.classes - 1) * int(columns["features"].shape[1])

    def rows(self, columns: Columns) -> NDArray[Any]:
        """a_t as a matrix."""
        return columns["features"]

    def names(self, buffer: Buffer | StoredBuffer, dim: int) -> tuple[str, ...] | None:
        given = buffer.feature_names
        numbers = range(1, self.classes)
        return None if given is None else tuple(f"{name} (contrast {number})" for number in numbers for name in given)

    def samples(self, columns: Columns) -> ClassSamples:
        return ClassSamples(columns["features"], columns["targets"].astype(np.intp), packed_weights(columns))

    def coefficients(self, x: Vector) -> Vector:
        """W, of shape (classes, d): the coefficients of every class, which sum to 0 over the classes."""
        return np.asarray(self.contrasts @ x.reshape(self.classes - 1, -1))

    def map_of(self, number: int, width: int) -> csr_array:
        """The sparse matrix that makes the coefficients of one class, of so many features, of x."""
        return csr_array(kron(self.contrasts[number : number + 1], eye_array(width)))

    def class_scores(self, x: Vector, features: Vector) -> Vector:
        """w_kᵀa of every row and class."""
        return np.asarray(features @ self.coefficients(x).T)

    def chances(self, x: Vector, features: Vector) -> Vector:
        """P(y = k) of every row and class."""
        return np.asarray(softmax(self.class_scores(x, features), axis=-1))

    def scores(self, samples: ClassSamples, x: Vector) -> Vector:
        """The scores of packed samples."""
        return self.class_scores(x, samples.features)

    def operator(self, x: Vector, samples: ClassSamples, row: int) -> Vector:
        features = samples.row(row)
        error = softmax(self.coefficients(x) @ features)
        error[samples.targets[row]] -= 1.0
        if samples.weights is not None:
            error *= samples.weights[row]
        return np.outer(error @ self.contrasts, features).ravel() + self.penalty_diagonal(len(x)) * x

    def _errors(self, x: Vector, columns: Columns) -> Vector:
        """w_t Qᵀ(p_t − e_{y_t}) of every row."""
        with np.errstate(invalid="ignore", over="ignore"):
            found = softmax(self.class_scores(x, columns["features"]), axis=1)
        found[np.arange(len(found)), columns["targets"].astype(np.intp)] -= 1.0
        return _heavy(found, columns) @ self.contrasts

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        rows = columns["features"]
        return np.array([(self._errors(x, columns).T @ rows).ravel() for x in points], dtype=np.float64)

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        total = self.operator_sums(x[None, :], columns)[0]
        return np.asarray(total / row_count(columns) + self.penalty_diagonal(len(x)) * x)

    def operator_along(self, x: Vector, directions: Vector, columns: Columns) -> Vector:
        parts = np.tensordot(columns["features"], directions.reshape(self.classes - 1, -1, directions.shape[1]), (1, 1))
        return np.asarray(np.einsum("tj,tjm->tm", self._errors(x, columns), parts))

    def descent(self, x: Vector, columns: Columns) -> tuple[float, Vector]:
        scores = self.class_scores(x, columns["features"]).astype(np.float64, copy=False)
        own = scores[np.arange(len(scores)), columns["targets"].astype(np.intp)]
        losses = weighted(logsumexp(scores, axis=1) - own, columns)
        return float(losses.sum()), self.operator_sums(x[None, :], columns)[0]

    def loss(self, x: Vector, columns: Columns) -> float:
        """The mean of −log P(y_t) with its weights, but for the ridge, which predicts nothing."""
        return self.descent(x, columns)[0] / row_count(columns)

    def jacobian_sum(self, x: Vector, columns: Columns) -> Vector:
        rows, q = columns["features"], self.contrasts
        chances = softmax(self.class_scores(x, rows), axis=1)
        means, chances = chances @ q, _heavy(chances, columns)
        heavy, width = _heavy(means, columns), rows.shape[1]
        found = np.zeros((self.classes - 1, width, self.classes - 1, width))
        for j in range(self.classes - 1):
            for i in range(j + 1):
                block = rows.T @ ((chances @ (q[:, i] * q[:, j]) - means[:, i] * heavy[:, j])[:, None] * rows)
                found[i, :, j], found[j, :, i] = block, block.T
        return found.reshape(self.dim(columns), -1)

    def jacobian(self, x: Vector, columns: Columns) -> Vector:
        """The derivative of F̂ at x; the ridge is in it."""
        return self.jacobian_sum(x, columns) / row_count(columns) + np.diag(self.penalty_diagonal(len(x)))

    curvature = jacobian

    def second_moments(self, columns: Columns) -> Vector:
        rows = columns["features"]
        return np.asarray(np.kron(np.eye(self.classes - 1), rows.T @ _heavy(rows, columns)), dtype=np.float64)

    def in_basis(self, columns: Columns, basis: Vector | None) -> tuple[Problem, Columns]:
        return (self, columns) if basis is None else (_InBasis(self, basis), columns)

    def energies(
        self, x: Vector, columns: Columns, starts: Positions, which: Positions | None = None
    ) -> tuple[Vector, Vector]:
        squares = np.square(columns["features"], dtype=np.float64)
        found = (np.square(self._errors(x, columns)).T @ squares).ravel()
        sizes = np.add.reduceat(_heavy(squares, columns), starts, axis=0)
        return picked(found, which), picked(np.tile(sizes, self.classes - 1), which)

    def recession(self, samples: ClassSamples, v: Vector) -> float:
        scores = self.scores(samples, v)
        short = scores.max(axis=1) - scores[np.arange(len(scores)), samples.targets]
        return float((short if samples.weights is None else short[samples.weights > 0]).max(initial=0.0))

    def lipschitz(self, samples: ClassSamples) -> float:
        """Half of max w_t‖a_t‖², plus λ."""
        return 0.5 * largest_square(samples.features, samples.weights) + self.penalty.ridge

    def extreme_rows(self, samples: ClassSamples, x0: Vector) -> NDArray[np.intp]:
        lengths = np.einsum("ij,ij->i", samples.features, samples.features, dtype=np.float64)
        return extremes(lengths if samples.weights is None else samples.weights * lengths)

    def penalty_diagonal(self, dim: int) -> Vector:
        return np.tile(self.penalty.diagonal(dim // (self.classes - 1)), self.classes - 1)

    def response(self, scores: Vector) -> Vector:
        raise InputError("an interval of one score says nothing of several classes: MERClassifier has predict_interval")

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        """The maximum-likelihood fit, with a `ridge` on all of x beside the problem's own. Weights count."""
        columns, ridge = self.columns(buffer), number_in("ridge", ridge)
        return newton_vi(
            lambda x: self.mean_operator(x, columns) + ridge * x,
            lambda x: self.jacobian(x, columns) + ridge * np.eye(len(x)),
            self.constraint,
            np.zeros(self.dim(columns)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (Multinomial, (self.classes, self.penalty.ridge, self.penalty.unpenalized))

    def __repr__(self) -> str:
        return f"Multinomial(classes={self.classes}{self.penalty.text})"


class _InBasis(Multinomial):
    """The problem of z with x = Bz, on the rows as they are: only its matrices are asked for."""

    def __init__(self, problem: Multinomial, basis: Vector) -> None:
        super().__init__(problem.classes)
        self.basis = basis.reshape(problem.classes - 1, -1, basis.shape[1])

    def _parts(self, columns: Columns) -> Vector:
        """a_tᵀB of every contrast: shape (contrasts, rows, coordinates of z)."""
        return np.asarray(columns["features"] @ self.basis)

    def second_moments(self, columns: Columns) -> Vector:
        return np.asarray(sum(part.T @ _heavy(part, columns) for part in self._parts(columns)))

    def jacobian_sum(self, x: Vector, columns: Columns) -> Vector:
        """Σ_t Σ_k w_t p_tk v_tk v_tkᵀ, with v_tk what class k has beyond the mean of the classes."""
        parts = self._parts(columns)
        chances = softmax((parts @ x).T @ self.contrasts.T, axis=1)
        means, total = chances @ self.contrasts, np.zeros((len(x), len(x)))
        for number, chance in enumerate(np.sqrt(_heavy(chances, columns)).T):
            half = chance[:, None] * np.einsum("tj,jtm->tm", self.contrasts[number] - means, parts)
            total += half.T @ half
        return total


def _heavy(values: Vector, columns: Columns) -> Vector:
    """Rows of values times the weights of their rows, where there are any."""
    return values * columns["weights"][:, None] if "weights" in columns else values
