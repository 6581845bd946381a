"""Logistic regression on a dependent record, as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.estimators.regressors import WeightedEstimator
from multireplay.estimators.standardize import Standardization
from multireplay.estimators.uncertain import Band, chance_bands
from multireplay.estimators.usable import kept_rows, taken
from multireplay.inference import LongRun


class MERClassifier(ClassifierMixin, WeightedEstimator):  # type: ignore[misc]
    """Logistic regression on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean logistic loss plus (alpha/2)‖w‖², as `SGDClassifier(loss="log_loss")` does;
    `LogisticRegression` has C = 1/(rows · alpha). With more than two classes it learns each against the rest, and in
    `partial_fit` keeps a buffer for each of them.

    Parameters
    ----------
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, warn_autocorrelation
        As in `MERRegressor`.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    coef_, intercept_ : ndarray of shape (1, features) and (1,), or (classes, features) and (classes,)
        For two classes of the second, otherwise of each against the rest.
    coef_se_, intercept_se_, names_, uncertainties_
        As in `MERRegressor`, with one `Uncertainty` a row of `coef_`.
    n_features_in_, feature_names_in_, converged_, free_, results_, dependence_
        As in `MERRegressor`; ``results_`` has one `Result` a row of `coef_`.

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

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> MERClassifier:
        """Fit to a record whose rows are in time order, as in `MERRegressor.fit`; y has the labels."""
        kept = kept_rows(self.missing, X, y, groups)
        rows, labels = self._validated(taken(X, kept), taken(y, kept), reset=True)
        check_classification_targets(labels)
        columns, labels = self._record(rows, labels, taken(sample_weight, kept))
        self.classes_ = _two_or_more(np.unique(labels))
        self._fit(columns, self._indicators(labels))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> MERClassifier:
        """Take in the next rows of a stream, by the online algorithm; see `MERRegressor.partial_fit`.

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
        rows, labels = self._validated(X, y, reset=not begun)
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
        columns, labels = self._block(rows, labels, sample_weight)
        self._partial_fit(columns, self._indicators(labels))
        return self

    def decision_function(self, X: Any) -> Vector:
        """wᵀx + b for every row of X: shape (rows,) for two classes, (rows, classes) for more."""
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Vector:
        """Probabilities of the classes, shape (rows, classes); those of more than two are made to sum to 1."""
        each = expit(self._scores(X))
        if each.shape[1] == 1:
            return np.hstack([1 - each, each])
        total = each.sum(axis=1, keepdims=True)
        even = np.full_like(each, 1 / each.shape[1])
        return np.asarray(np.divide(each, total, out=even, where=total > 0))

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

    def _indicators(self, labels: NDArray[Any]) -> Vector:
        """1 where a row has the class: a column for the second of two, or for each of more."""
        wanted = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return np.asarray(labels[:, None] == wanted, dtype=np.float64)

    def _fitted_as(self, index: int) -> str:
        two = len(self.classes_) == 2
        labels = self.classes_.tolist()
        one, rest = (labels[1], repr(labels[0])) if two else (labels[index], "the rest")
        return f"{super()._fitted_as(index)}, class {one!r} against {rest},"

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

    def _keep(self, standardization: Standardization, points: tuple[Vector, ...]) -> None:
        pairs = [standardization.undone(point) for point in points]
        self.coef_ = np.array([coefficients for coefficients, _ in pairs])
        self.intercept_ = np.array([intercept for _, intercept in pairs])


def _two_or_more(classes: NDArray[Any]) -> NDArray[Any]:
    if len(classes) < 2:
        raise InputError(f"a classifier needs rows of at least two classes, but there is only one class, {classes[0]}")
    return classes
