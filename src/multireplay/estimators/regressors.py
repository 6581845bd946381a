"""Generalized linear models on a dependent record, as scikit-learn estimators: amounts and counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import check_array
from sklearn.utils.validation import _num_samples

from multireplay._check import Vector, one_a_row
from multireplay.errors import InputError, warn
from multireplay.estimators.base import MEREstimator
from multireplay.estimators.standardize import Columns
from multireplay.estimators.uncertain import Band
from multireplay.estimators.usable import kept_rows, taken
from multireplay.inference import LongRun
from multireplay.problems import GLM

if TYPE_CHECKING:
    from multireplay.tables import ChainedRows


class WeightedEstimator(MEREstimator):
    """A GLM of rows with weights: the mean loss plus the L2 penalty (alpha/2)‖w‖², the intercept left out."""

    link: ClassVar[str]

    def _problem(self) -> GLM:
        return GLM(self.link, **self._penalty())

    def _level(self, columns: Mapping[str, Any], targets: Vector) -> float:
        """The link's inverse at the mean target, away from where it is infinite."""
        return self._inverse(float(np.average(targets, weights=columns.get("weights"))), len(targets))

    def _inverse(self, mean: float, rows: int) -> float:
        return mean

    def _record(self, rows: Any, targets: Any, sample_weight: Any, kept: ChainedRows | None) -> tuple[Columns, Any]:
        """Columns and targets of a whole record: without rows of weight 0, the others with weights of mean 1."""
        columns, targets = self._block(rows, targets, sample_weight)
        weights = columns.pop("weights")
        if kept is not None and kept.count > 1:
            columns["groups"] = np.cumsum(kept.starts)[as_weights(sample_weight, len(kept.rows)) > 0]
        if weights.min() < weights.max():
            columns["weights"] = weights / weights.mean()
        return columns, targets

    def _block(self, rows: Any, targets: Any, sample_weight: Any) -> tuple[Columns, Any]:
        """Columns and targets of the next rows of a stream, with weights as they are, 1 where none are given."""
        weights = as_weights(sample_weight, rows.shape[0])
        counts = weights > 0
        if not counts.all():
            rows, targets, weights = rows[counts], targets[counts], weights[counts]
        return {"features": rows, "weights": weights}, targets


class MERRegressor(RegressorMixin, WeightedEstimator):  # type: ignore[misc]
    """Linear regression on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean of (y − wᵀx − b)²/2 plus (alpha/2)‖w‖², all rows at once or from some that are far apart in
    time, put right in passes over all of them, whichever costs less (`multireplay.solve`). A fit that has not come to
    the minimum warns with scikit-learn's `ConvergenceWarning`. Do not shuffle the rows: standard errors and `replay`
    go by their order. To choose between parameters use `TimeSeriesSplit`, not a shuffled split.

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
        The most passes over the rows. By default as many as it takes. Where neither an exact fit nor corrections are
        possible, as with very many features, it is variance reduction, and 1 is a plain pass, 3 one round, 5 two.
    replay : multireplay replay scheme, optional
        Take plain steps in that order instead; `multireplay.Multiscale()` is the paper's algorithm. With `passes` of 3
        and more, rounds of variance reduction in that order.
    step : float, multireplay.steps schedule or "auto", default="auto"
        Step size, for the standardized features. A number asks for steps: rounds of variance reduction.
    average : "none", "full", "weighted" or a fraction in (0, 1], default=7/8
        Which iterates a plain pass averages.
    capacity : int, default=4096
        First rows of a stream that `partial_fit` keeps, to know how features are to be standardized.
    missing : "error" or "drop", default="error"
        Rows with a missing value (NaN), in X or y: an error, or left out. Predictions for such rows are NaN.
    warn_autocorrelation : bool, default=False
        Look at the last rows, and warn (`AutocorrelationWarning`) if learning them in order, as others do, would have
        been biased, see `dependence_`. This fit never is. Costs at most half a pass on a long record.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (features,), float
        w and b, for the features as they were given.
    coef_se_, intercept_se_ : ndarray of shape (features,), float
        Their standard errors under dependence; `summary` and `conf_int` have intervals. After `partial_fit` they are
        those of the stream, by its batches.
    names_, uncertainties_ : tuple of str, tuple of multireplay.inference.Uncertainty
        Names of the coefficients and the intercept, and all that is known of them.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of features, and their names if X was a data frame (pandas or polars) with string names.
    n_dropped_ : int
        Rows that `fit`, and `partial_fit` since, left out because something was missing.
    converged_ : bool
        Whether the fit is within a tenth of a standard error of the exact minimum in every coordinate.
    free_ : tuple of tuples
        Groups of columns, by name or number, that the rows do not settle (with alpha=0): constant ones, and those that
        are combinations of one another.
    results_ : tuple of multireplay.Result
        What `solve` said, after `fit`; ``results_[0].status`` is a sentence.
    dependence_ : Dependence or None
        After `fit` with `warn_autocorrelation`: how dependent rows are, and where a pass in order would have ended.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit to a record whose rows are in time order.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
            The features, oldest row first.
        y : array of shape (rows,)
            The targets.
        sample_weight : array of shape (rows,), optional
            Weights of the rows, at least 0. Only their proportions matter.
        groups : array of shape (rows,), optional
            Which of several series a row belongs to, as any labels. The rows of a series are brought together, and the
            series are taken as independent of one another.
        """
        kept = kept_rows(self, X, y, groups)
        rows, targets = self._checked(taken(X, kept), taken(y, kept), reset=True)
        columns, targets = self._record(rows, targets, taken(sample_weight, kept), kept)
        return self._fit(columns, targets)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take in the next rows of a stream, by `multireplay.Stream`: the fit of all that was seen and still holds.

        The first `capacity` rows are kept. Until then the answer is that of `fit` on the rows so far (worked out
        anew each time there are a quarter more of them). From then on features are standardized as these first rows
        say, and memory does not grow. After `fit` the stream goes on from what was fitted. How the rows are cut into
        blocks makes no difference once the first rows are complete.

        Parameters
        ----------
        X, y
            The next rows, oldest first.
        sample_weight : array of shape (rows,), optional
            Weights of the rows, where 1 is that of an ordinary row: unlike in `fit`, they are not divided by their
            mean, since that of the rows to come is not known.
        """
        kept = kept_rows(self, X, y, None, more=True)
        if kept is not None and not len(kept.rows):
            return self
        rows, targets = self._checked(taken(X, kept), taken(y, kept), reset=not hasattr(self, "coef_"))
        columns, targets = self._block(rows, targets, taken(sample_weight, kept))
        return self._partial_fit(columns, targets)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        """Rows and targets, checked."""
        rows, targets = self._validated(X, y, y_numeric=True, reset=reset)
        return rows, np.asarray(targets, dtype=np.float64)


class MERPoissonRegressor(MERRegressor):
    """Poisson regression with a log link on a record whose **rows are in time order** and depend on their neighbours.

    It minimizes the mean of exp(z) − y·z with z = wᵀx + b, plus (alpha/2)‖w‖², which is what scikit-learn's
    `PoissonRegressor` minimizes for the same alpha. Counts over spans of different length have an `exposure` e,
    by which exp(z) is multiplied: that is an offset log e, and the same as the rates y/e with weights e.

    Parameters
    ----------
    alpha, fit_intercept, standardize, passes, replay, step, average, capacity, missing, warn_autocorrelation
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

    Counts of an hour and of a day:

    >>> hours = np.where(rng.random(4000) < 0.5, 1.0, 24.0)
    >>> y = rng.poisson(hours * np.exp(X @ [0.5, -0.5] + 1))
    >>> mr.MERPoissonRegressor().fit(X, y, exposure=hours).coef_.round(1)
    array([ 0.5, -0.5])
    """

    link: ClassVar[str] = "exp"
    rival: ClassVar[str] = "stochastic gradient descent without shuffling"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, exposure: Any = None) -> Any:
        """Fit to a record whose rows are in time order.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in `MERRegressor.fit`; y has the counts.
        exposure : array of shape (rows,), optional
            How long, or how much, was counted in each row, above 0; 1 by default.
        """
        if exposure is not None:
            y, sample_weight = _rates(y, sample_weight, as_exposure(exposure, _num_samples(X), self.missing == "drop"))
        return super().fit(X, y, sample_weight, groups)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> Any:
        """Take in the next rows of a stream; see `MERRegressor.partial_fit`, and `fit` for the exposure."""
        if exposure is not None:
            y, sample_weight = _rates(y, sample_weight, as_exposure(exposure, _num_samples(X), self.missing == "drop"))
        return super().partial_fit(X, y, sample_weight)

    def predict(self, X: Any, exposure: Any = None) -> Vector:
        """The expected count exp(wᵀx + b) for every row of X, times its exposure where that is given."""
        with np.errstate(over="ignore"):
            rates = np.exp(self._scores(X))
        return np.asarray(
            rates if exposure is None else rates * as_exposure(exposure, len(rates), self.missing == "drop")
        )

    def predict_interval(self, X: Any, level: float = 0.95, by: LongRun | None = None, exposure: Any = None) -> Band:
        """What `predict` gives, with the two ends of its interval; see `MERRegressor.predict_interval`."""
        ends = super().predict_interval(X, level, by)
        times = 1.0 if exposure is None else as_exposure(exposure, len(ends[0]), self.missing == "drop")
        fitted, low, high = (end * times for end in ends)
        return fitted, low, high

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """D², the share of the Poisson deviance of the counts y explained, as `PoissonRegressor` scores itself.

        With an exposure it is that of counts whose rate is everywhere the same. NaN, with scikit-learn's
        `UndefinedMetricWarning`, where there is no deviance to explain: where all rates are the same, such as 0.
        """
        rates = self.predict(X)
        if exposure is not None:
            y, sample_weight = _rates(y, sample_weight, as_exposure(exposure, len(rates)))
        if np.ptp(np.asarray(y)) == 0:
            warn(
                "D² is not defined where all counts are the same: there is no deviance to explain",
                UndefinedMetricWarning,
            )
            return math.nan
        return float(d2_tweedie_score(y, rates, sample_weight=sample_weight, power=1))

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        rows, targets = super()._checked(X, y, reset=reset)
        _refuse("y", targets, targets < 0, "counts are at least 0")
        return rows, targets

    def _inverse(self, mean: float, rows: int) -> float:
        return math.log(max(mean, 0.5 / rows))  # no count at all is as good as half of one

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def as_exposure(exposure: Any, rows: int, missing: bool = False) -> Vector:
    """One exposure above 0 a row; NaN only where missing ones are allowed."""
    finite: Any = "allow-nan" if missing else True
    found: Vector = check_array(
        exposure, ensure_2d=False, dtype=np.float64, input_name="exposure", ensure_all_finite=finite
    )
    one_a_row("exposure", found.shape, rows)
    _refuse("exposure", found, found <= 0, "it must be above 0")
    return found


def _refuse(name: str, values: Vector, bad: Any, needs: str) -> None:
    """Raise if any of these values is bad, naming the first of them."""
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} is {values[row]:g} at row {row} (counting from 0); {needs}")


def _rates(y: Any, sample_weight: Any, exposure: Vector) -> tuple[Vector, Vector]:
    """Counts as rates, and what these weigh: with the log link, the same fit."""
    counts: Vector = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_all_finite=False)
    if counts.shape != exposure.shape:
        raise InputError(f"y has shape {counts.shape}, but there are {len(exposure)} rows: it needs ({len(exposure)},)")
    _refuse("y", counts, counts < 0, "counts are at least 0")
    return counts / exposure, as_weights(sample_weight, len(counts)) * exposure


def as_weights(sample_weight: Any, rows: int) -> Vector:
    """One weight of at least 0 a row, not all 0; a number is the weight of every row, and None is 1."""
    if sample_weight is None:
        return np.ones(rows)
    if isinstance(sample_weight, Number):
        sample_weight = np.full(rows, sample_weight)
    weights: Vector = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    one_a_row("sample_weight", weights.shape, rows)
    _refuse("sample_weight", weights, weights < 0, "it must be at least 0")
    if not weights.any():
        raise InputError("all values of sample_weight are zero, so that no row counts; at least one weight must not be")
    return weights
