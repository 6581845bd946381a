"""Counts on a dependent record, as a scikit-learn estimator."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.estimators.regression import SingleTarget


class MERPoissonRegressor(RegressorMixin, SingleTarget):  # type: ignore[misc]
    """Poisson regression with a log link on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean of exp(z) − y·z with z = wᵀx + b, plus (alpha/2)‖w‖², which is what scikit-learn's
    `PoissonRegressor` minimizes for the same alpha.

    Parameters
    ----------
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, warn_autocorrelation
        As in `MERRegressor`, and so are the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((4000, 2))
    >>> y = rng.poisson(np.exp(X @ [0.5, -0.5] + 1))
    >>> model = mr.MERPoissonRegressor().fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.5, -0.5]), 1.0)
    >>> round(model.score(X, y), 1)
    0.6
    """

    link: ClassVar[str] = "exp"
    rival: ClassVar[str] = "stochastic gradient descent without shuffling"

    def predict(self, X: Any) -> Vector:
        """The expected count exp(wᵀx + b) for every row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self._scores(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance explained, as `PoissonRegressor` scores itself.

        Parameters
        ----------
        X, y, sample_weight
            Rows, counts, and weights.
        """
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        rows, targets = super()._checked(X, y, reset=reset)
        if (targets < 0).any():
            bad = int(np.flatnonzero(targets < 0)[0])
            raise InputError(f"y is {targets[bad]:g} at row {bad} (counting from 0); counts are at least 0")
        return rows, targets

    def _inverse(self, mean: float, rows: int) -> float:
        return math.log(max(mean, 0.5 / rows))  # no count at all is as good as half of one

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
