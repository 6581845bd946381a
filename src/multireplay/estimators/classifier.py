"""Logistic regression on a dependent record, as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.estimators.base import stacked
from multireplay.estimators.regressors import WeightedEstimator, as_weights
from multireplay.estimators.standardize import Columns, Standardization
from multireplay.estimators.uncertain import Band, chance_bands
from multireplay.estimators.usable import kept_rows, taken
from multireplay.inference import LongRun, Uncertainty
from multireplay.problems import Multinomial


@dataclass(eq=False, repr=False)
class MERClassifier(ClassifierMixin, WeightedEstimator):  # type: ignore[misc]
    """Logistic regression on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean logistic loss plus (alpha/2)‖w‖², as `SGDClassifier(loss="log_loss")` does;
    `LogisticRegression` has C = 1/(rows · alpha). With more than two classes the loss is multinomial, as there: the
    probabilities of all classes are in proportion to exp(w_kᵀx + b_k).

    Parameters
    ----------
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, missing, warn_autocorrelation
        As in `MERRegressor`.
    class_weight : None, "balanced" or dict, default=None
        What the rows of a class count, as {label: weight}, times their own weights; 1 for a class that is not there.
        "balanced" gives all classes the same weight together; `partial_fit`, which does not know them all, has no such
        thing. As with other weights, only proportions matter in `fit`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    coef_, intercept_ : ndarray of shape (1, features) and (1,), or (classes, features) and (classes,)
        For two classes of the second, otherwise of each: they sum to 0 over the classes.
    coef_se_, intercept_se_, names_, uncertainties_
        As in `MERRegressor`, with one `Uncertainty` a row of `coef_`.
    n_features_in_, feature_names_in_, converged_, free_, results_, dependence_
        As in `MERRegressor`; ``results_`` has one `Result` for all classes.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((4000, 2))
    >>> y = np.where(rng.random(4000) < 1 / (1 + np.exp(-X @ [1.0, -2.0])), "up", "down")
    >>> model = mr.MERClassifier().fit(X, y)
    >>> model.coef_.round(1)
    array([[ 0.9, -1.8]])
    >>> model.predict([[2.0, 0.0]]), model.predict_proba([[2.0, 0.0]]).round(1)
    (array(['up'], dtype='<U4'), array([[0.1, 0.9]]))
    """

    link: ClassVar[str] = "logistic"
    rival: ClassVar[str] = "SGDClassifier(shuffle=False)"

    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MERClassifier:
        """Fit to a record whose rows are in time order, as in `MERRegressor.fit`; y has the labels."""
        kept = kept_rows(self, X, y, groups)
        rows, labels = self._validated(taken(X, kept), taken(y, kept), reset=True)
        check_classification_targets(labels)
        weights = self._with_classes(np.unique(labels), labels, taken(sample_weight, kept))
        columns, labels = self._record(rows, labels, weights, kept)
        self.classes_: NDArray[Any] = _two_or_more(np.unique(labels))
        self._fit(columns, self._codes(labels))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> MERClassifier:
        """Take in the next rows of a stream, by `multireplay.Stream`; see `MERRegressor.partial_fit`.

        Of more than two classes, one that has not been seen yet counts as half a row.

        Parameters
        ----------
        X, y, sample_weight
            The next rows, oldest first, their labels, and weights, where 1 is that of an ordinary row.
        classes : array, optional
            All labels that will ever come; needed on the first call, unless `fit` came before.
        """
        begun = hasattr(self, "coef_")
        if classes is None and not begun:
            raise InputError("the first call of partial_fit needs classes=..., all labels that will ever come")
        kept = kept_rows(self, X, y, None, more=True)
        if kept is not None and not len(kept.rows):
            return self
        rows, labels = self._validated(taken(X, kept), taken(y, kept), reset=not begun)
        if classes is not None:
            known = _two_or_more(np.unique(classes))
            if begun and not np.array_equal(known, self.classes_):
                raise InputError(f"classes are {known} now, and were {self.classes_} so far; they cannot change")
            self.classes_ = known
        strange = np.flatnonzero(~np.isin(labels, self.classes_))
        if strange.size:
            raise InputError(
                f"y is {labels[strange[0]]} at row {strange[0]} (counting from 0), "
                f"which is not one of the classes {self.classes_}"
            )
        if self.class_weight == "balanced":
            raise InputError(
                "class_weight='balanced' needs all rows, and partial_fit has only some: give weights as {label: weight}"
            )
        weights = self._with_classes(self.classes_, labels, taken(sample_weight, kept))
        columns, labels = self._block(rows, labels, weights)
        self._partial_fit(columns, self._codes(labels))
        return self

    def decision_function(self, X: Any) -> Vector:
        """wᵀx + b for every row of X: shape (rows,) for two classes, (rows, classes) for more."""
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Vector:
        """Probabilities of the classes, shape (rows, classes)."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1))
        each = expit(scores)
        return np.hstack([1 - each, each])

    def predict_interval(self, X: Any, level: float = 0.95, by: LongRun | None = None) -> Band:
        """What `predict_proba` gives with the two ends of its interval: (probabilities, low, high).

        Each is of shape (rows, classes); see `MERRegressor.predict_interval` for the parameters.
        """
        return chance_bands(self.uncertainties_, self._rows_at(X), level, by)

    def predict_log_proba(self, X: Any) -> Vector:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row of X."""
        scores = self._scores(X)
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores).all(axis=1)))
            raise InputError(f"row {row} (counting from 0) has something missing, so that it has no class")
        best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _codes(self, labels: NDArray[Any]) -> Vector:
        """The numbers of the classes."""
        return np.searchsorted(self.classes_, labels).astype(np.float64)

    def _fitted_as(self, index: int) -> str:
        labels = self.classes_.tolist()
        which = f"{labels[1]!r} against {labels[0]!r}" if len(labels) == 2 else f"{labels[index]!r} of {len(labels)}"
        return f"{super()._fitted_as(index)}, class {which},"

    def _target_of(self, column: Any, name: str) -> NDArray[Any]:
        from multireplay.tables.cells import as_classes

        labels, empty = as_classes(column, name)
        if empty.any():
            labels = labels.astype(object)
            labels[empty] = None
        return labels

    def _classes_told(self) -> Sequence[Any]:
        return list(self.classes_.tolist())

    def _inverse(self, mean: float, rows: int) -> float:
        share = min(max(mean, 0.5 / rows), 1 - 0.5 / rows)  # as if half a row were of the other class
        return math.log(share / (1 - share))

    def _problem(self) -> Any:
        """The likelihood of all classes."""
        return super()._problem() if len(self.classes_) == 2 else Multinomial(len(self.classes_), **self._penalty())

    def _x0(self, buffer: Buffer) -> Vector:
        if len(self.classes_) == 2:
            return super()._x0(buffer)
        shares = np.bincount(buffer["targets"].astype(np.intp), buffer.columns.get("weights")) / len(buffer)
        return self._x0_of(shares, buffer["features"].shape[1])

    def _x0_of(self, shares: Vector, width: int) -> Vector:
        """Where a fit of several classes starts, given their shares of the rows."""
        problem = self._problem()
        x0 = np.zeros((problem.classes - 1, width))
        if self.fit_intercept:
            x0[:, -1] = problem.contrasts.T @ np.log(shares)
        return x0.ravel()

    def _completed(self, columns: Columns) -> Columns:
        """With half a row, in the middle, of every class that has not been seen: otherwise there is no fit."""
        unseen = np.setdiff1d(np.arange(len(self.classes_)), columns["targets"])
        if len(self.classes_) == 2 or not len(unseen):
            return columns
        features, count = columns["features"], len(unseen)
        more = {
            "features": np.tile(np.average(features, axis=0, weights=columns["weights"]), (count, 1)),
            "weights": np.full(count, 0.5),
            "targets": unseen,
        }
        return {name: stacked([column, more[name].astype(column.dtype)]) for name, column in columns.items()}

    def _examined(self, buffer: Buffer) -> tuple[Any, Buffer, Vector]:
        """Of several classes the one that is most nearly half of them, against the rest."""
        if len(self.classes_) == 2:
            return super()._examined(buffer)
        codes = buffer["targets"].astype(np.intp)
        chosen = int(np.argmin(np.abs(np.bincount(codes) / len(codes) - 0.5)))
        groups = None if buffer.chains is None else buffer.chains.numbers
        found = Buffer(**{**buffer.columns, "targets": (codes == chosen) * 1.0}, groups=groups)
        return super()._problem(), found, super()._x0(found)

    def _mapped(self, back: Any) -> tuple[Uncertainty, ...]:
        if len(self.classes_) == 2:
            return super()._mapped(back)
        found, contrasts = self._learnt, Multinomial(len(self.classes_)).contrasts
        return tuple(found.mapped(sparse.kron(row[None, :], back), self.names_) for row in contrasts)

    def _with_classes(self, classes: NDArray[Any], labels: NDArray[Any], sample_weight: Any) -> Any:
        """The weights of the rows times those of their classes."""
        given = self.class_weight
        if given is None:
            return sample_weight
        weights, codes = as_weights(sample_weight, len(labels)), np.searchsorted(classes, labels)
        if isinstance(given, Mapping):
            known = classes.tolist()
            strange = [label for label in given if label not in known]
            if strange and any(label not in given for label in known):
                raise InputError(f"class_weight has a weight for {strange[0]!r}, which is not one of {known}")
            factors = as_weights([given.get(label, 1.0) for label in known], len(known))
        elif given == "balanced":
            totals = np.bincount(codes, weights)
            factors = np.divide(totals.sum(), len(classes) * totals, out=np.zeros_like(totals), where=totals > 0)
        else:
            raise InputError(f"class_weight must be None, 'balanced' or {{label: weight}}, not {given!r}")
        return weights * factors[codes]

    def _keep(self, standardization: Standardization, x: Vector) -> None:
        several = len(self.classes_) > 2
        pairs = [standardization.undone(point) for point in (self._problem().coefficients(x) if several else [x])]
        self.coef_ = np.array([coefficients for coefficients, _ in pairs])
        self.intercept_ = np.array([intercept for _, intercept in pairs])


def _two_or_more(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) < 2:
        raise InputError(f"a classifier needs rows of at least two classes, but there is only one class, {classes[0]}")
    return classes
