"""Least squares on a dependent record, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from multireplay._check import Vector
from multireplay.estimators.regression import SingleTarget


class MERRegressor(RegressorMixin, SingleTarget):  # type: ignore[misc]
    """Linear regression on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean of (y − wᵀx − b)²/2 plus (alpha/2)‖w‖², from rows that are far apart in time, put right in
    passes over all of them (`multireplay.solve`). Do not shuffle the rows: their order is what replay works with. To
    choose between parameters use `TimeSeriesSplit`, not a shuffled split.

    Parameters
    ----------
    alpha : float, default=1e-4
        L2 penalty, as in `SGDRegressor`; `Ridge` has rows · alpha. The intercept is left out. With `standardize` it is
        the coefficients of the standardized features that are penalized, as with a `StandardScaler` before.
    fit_intercept : bool, default=True
        Whether to learn b.
    standardize : bool, default=True
        Bring every feature to mean 0 and standard deviation 1 in a pass of its own, and undo it in `coef_` and
        `intercept_`. Sparse features, and all features without an intercept, are only divided by their standard
        deviation.
    passes : int, optional
        The most passes over the rows. By default as many as it takes, at most 5 (`multireplay.Newton`): on fewer than
        8192 rows the first one comes to the exact minimum, on more usually the second. Where that cannot be used, as
        with more than about 1000 features, or alpha=0 and features that leave the answer open, it is variance
        reduction, and 1 is a plain pass, 3 one round, 5 two.
    replay : multireplay replay scheme, optional
        Take plain steps in that order instead; `multireplay.Multiscale()` is the paper's algorithm. With `passes` of 3
        and more, rounds of variance reduction in that order.
    step : float, multireplay.steps schedule or "auto", default="auto"
        Step size, for the standardized features. A number asks for steps: rounds of variance reduction.
    average : "none", "full", "weighted" or a fraction in (0, 1], default=7/8
        Which iterates a plain pass, or an epoch of `partial_fit`, averages.
    capacity : int, default=4096
        Buffer size of `partial_fit`: memory for twice as many rows is taken.
    warn_autocorrelation : bool, default=True
        Look at the last rows, and warn (`AutocorrelationWarning`) if learning them in order would have been biased, see
        `dependence_`. Costs at most half a pass on a long record.

    Attributes
    ----------
    coef_ : ndarray of shape (features,)
        w, for the features as they were given.
    intercept_ : float
        b.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, if X was a data frame (pandas or polars) with string names.
    results_ : tuple of multireplay.Result
        What `solve` said, after `fit`; ``results_[0].status`` is a sentence.
    dependence_ : Dependence or None
        After `fit`: the autocorrelation time of the rows, and where a pass in order would have ended.

    Notes
    -----
    ``set_output`` is for transformers: it says what ``transform`` gives back. A predictor gives arrays; a pipeline
    whose transformers give data frames passes their names on to `feature_names_in_`.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> X = 50 + 10 * rng.standard_normal((4000, 2))
    >>> y = X @ [1.0, -2.0] + 7 + rng.standard_normal(4000)
    >>> model = mr.MERRegressor().fit(X, y)
    >>> model.coef_.round(2), round(model.intercept_, 1)
    (array([ 1., -2.]), 6.9)
    >>> model.predict([[50.0, 50.0]]).round(1)
    array([-43.])

    Rows that come one block after the other:

    >>> online = mr.MERRegressor(capacity=512)
    >>> for block in range(0, 4000, 100):
    ...     online = online.partial_fit(X[block : block + 100], y[block : block + 100])
    >>> online.coef_.round(1)
    array([ 1., -2.])
    """

    link: ClassVar[str] = "identity"
    rival: ClassVar[str] = "SGDRegressor(shuffle=False)"

    def predict(self, X: Any) -> Vector:
        """wᵀx + b for every row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
        """
        return self._scores(X)
