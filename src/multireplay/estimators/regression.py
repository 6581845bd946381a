"""What the estimators of a generalized linear model have in common: the link, weights, where the intercept starts."""

from __future__ import annotations

from numbers import Number
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.estimators.base import LinearEstimator
from multireplay.estimators.stream import Columns
from multireplay.problems import GLM


class RegressionEstimator(LinearEstimator):
    """A GLM with the L2 penalty (alpha/2)‖w‖² beside the mean loss, the intercept left out."""

    link: ClassVar[str]

    def _problem(self) -> GLM:
        return GLM(self.link, **self._penalty())

    def _level(self, columns: Columns, targets: Vector) -> float:
        """The link's inverse at the mean target, away from where it is infinite."""
        return self._inverse(float(np.average(targets, weights=columns.get("weights"))), len(targets))

    def _inverse(self, mean: float, rows: int) -> float:
        return mean

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        """Rows and targets, checked."""
        rows, targets = self._validated(X, y, y_numeric=True, reset=reset)
        return rows, np.asarray(targets, dtype=np.float64)

    def _record(self, rows: Any, targets: Any, sample_weight: Any) -> tuple[Columns, Any]:
        """Columns and targets of a whole record: without rows of weight 0, the others with weights of mean 1."""
        columns, targets = self._block(rows, targets, sample_weight)
        weights = columns.pop("weights")
        if weights.min() < weights.max():
            columns["weights"] = weights / weights.mean()
        return columns, targets

    def _block(self, rows: Any, targets: Any, sample_weight: Any) -> tuple[Columns, Any]:
        """Columns and targets of the next rows of a stream, with weights as they are, 1 where none are given."""
        weights = as_weights(sample_weight, rows.shape[0])
        if weights is None:  # a later block may have some
            return {"features": rows, "weights": np.ones(rows.shape[0])}, targets
        counts = weights > 0
        if not counts.all():
            rows, targets, weights = rows[counts], targets[counts], weights[counts]
        return {"features": rows, "weights": weights}, targets


class SingleTarget(RegressionEstimator):
    """One column of numbers to predict."""

    coef_: Vector
    intercept_: float

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to a record whose rows are in time order.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
            The features, oldest row first.
        y : array of shape (rows,)
            The targets.
        sample_weight : array of shape (rows,), optional
            Weights of the rows, at least 0. Only their proportions matter.
        """
        rows, targets = self._checked(X, y, reset=True)
        columns, targets = self._record(rows, targets, sample_weight)
        self._fit(columns, targets[:, None])
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take in the next rows of a stream, by the online algorithm (`multireplay.Online`).

        The first `capacity` rows fill its buffer. Until then the answer is that of `fit` on the rows so far (worked out
        anew each time there are a quarter more of them). From then on features are standardized as these first rows
        say, every epoch restarts from their answer, and memory does not grow. After `fit` the stream goes on from what
        was fitted. How the rows are cut into blocks makes no difference once the buffer is full.

        Parameters
        ----------
        X, y
            The next rows, oldest first.
        sample_weight : array of shape (rows,), optional
            Weights of the rows, where 1 is that of an ordinary row: unlike in `fit`, they are not divided by their
            mean, since that of the rows to come is not known.
        """
        rows, targets = self._checked(X, y, reset=not hasattr(self, "coef_"))
        columns, targets = self._block(rows, targets, sample_weight)
        self._partial_fit(columns, targets[:, None])
        return self


def as_weights(sample_weight: Any, rows: int) -> Vector | None:
    """One weight of at least 0 a row, not all 0; None stays None, and a number is the weight of every row.

    Raises
    ------
    InputError
        If the weights are negative, all zero or not as many as there are rows.
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Number):
        sample_weight = np.full(rows, sample_weight)
    weights: Vector = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (rows,):
        raise InputError(f"sample_weight has shape {weights.shape}, but X has {rows} rows: it needs ({rows},)")
    if (weights < 0).any():
        bad = int(np.flatnonzero(weights < 0)[0])
        raise InputError(f"sample_weight is {weights[bad]:g} at row {bad} (counting from 0); it must be at least 0")
    if not weights.any():
        raise InputError("all values of sample_weight are zero, so that no row counts; at least one weight must not be")
    return weights
