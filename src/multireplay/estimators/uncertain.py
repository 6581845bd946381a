"""How well a record knows what an estimator has learnt from it, in the units of X."""

from __future__ import annotations

import html
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.utils.validation import check_is_fitted

from multireplay._check import Vector
from multireplay.buffer.names import INTERCEPT
from multireplay.errors import UncertaintyWarning, warn
from multireplay.inference import BatchMeans, LongRun, Summary, Uncertainty
from multireplay.inference.residuals import distance_of
from multireplay.result import CONVERGED
from multireplay.show.text import by_class
from multireplay.solving.uncertain import made_of
from multireplay.streaming.answer import StreamResult

HELD_BACK = (
    "coefficients are those that predict best, up to {:.2g} standard errors from the fit of the stream; intervals are "
    "around that"
)

Band = tuple[Vector, Vector, Vector]
"""What is fitted, and the two ends of its interval."""


class Summaries(dict[Any, Summary]):
    """The tables of a classifier by class; prints all of them."""

    def __str__(self) -> str:
        return "\n\n".join(f"class {name!r}\n{table}" for name, table in self.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<h4>{html.escape(str(name))}</h4>{table._repr_html_()}" for name, table in self.items())


class Inference:
    """Standard errors, intervals and tables of an estimator, under dependence, for the features as they were given.

    The features that are learnt from are standardized, and coefficients with the intercept are linear in what is learnt
    (`Standardization.way_back`), so that batches of the record say of the one what they say of the other.
    """

    coef_: Vector
    intercept_: Any

    @property
    def names_(self) -> tuple[str, ...]:
        """Of the coefficients, and of the intercept, which is the last where there is one."""
        check_is_fitted(self, "coef_")
        called: list[Any] = self._called  # type: ignore[attr-defined]
        names = [name if isinstance(name, str) else f"x[{name}]" for name in called]
        return (*names, *[INTERCEPT] * self._standardization.intercept)

    @property
    def uncertainties_(self) -> tuple[Uncertainty, ...]:
        """One for every row of `coef_`: all that is known of its coefficients and intercept, in the units of X."""
        check_is_fitted(self, "coef_")
        alpha, found = getattr(self, "alpha", 0.0), self._mapped(self._standardization.way_back())
        for one in found:
            one.notes = tuple(note.replace("the ridge", f"alpha={alpha:g}") for note in one.notes)
        return found

    def _mapped(self, back: Any) -> tuple[Uncertainty, ...]:
        """What is known of every row of `coef_`, given what brings one back to the units of X."""
        return (self._learnt.mapped(back, self.names_),)

    @property
    def _told_by(self) -> Any:
        """The result that is told of: of `fit`, or of the stream since."""
        stream = getattr(self, "_stream", None)
        return self.results_[0] if stream is None else stream.told  # type: ignore[attr-defined]

    @property
    def _learnt(self) -> Uncertainty:
        """What is known of what was learnt, the coefficients of standardized features."""
        told, stream = self._told_by, getattr(self, "_stream", None)
        return told.uncertainty if stream is None else _around_the_fit(stream.answer, told.uncertainty)

    @property
    def coef_se_(self) -> Any:
        """Standard errors of `coef_`, of its shape; None where there are none, and `summary` says why."""
        errors = self._errors()
        return None if errors is None else errors[:, : self.coef_.shape[-1]].reshape(self.coef_.shape)

    @property
    def intercept_se_(self) -> Any:
        """The standard error of `intercept_`, of its shape; 0 where none is fitted."""
        errors = self._errors()
        if errors is None:
            return None
        found = errors[:, -1] if self._standardization.intercept else np.zeros(len(errors))
        return found if np.ndim(self.intercept_) else float(found[0])

    def summary(self, level: float = 0.95, by: LongRun | None = None) -> Summary | Summaries:
        """A table of coefficients and intercept with standard errors, tests against 0 and intervals.

        Of more than two classes there is one for each. Those of which the record has seen too little are marked, with
        an `UncertaintyWarning`. With `alpha` the intervals are those of the penalized fit.

        Parameters
        ----------
        level : float
            Of the intervals.
        by : multireplay.inference.LongRun, optional
            How standard errors are made; `BatchMeans` by default.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> rng = np.random.default_rng(0)
        >>> X = 50 + 10 * rng.standard_normal((4000, 2))
        >>> model = mr.MERRegressor(alpha=0).fit(X, X @ [1.0, -2.0] + 7 + rng.standard_normal(4000))
        >>> print(model.summary())
         name          coefficient   standard error ...
        >>> [(row["name"], row["p"] < 0.01) for row in model.summary().rows]
        [('x[0]', True), ('x[1]', True), ('(intercept)', True)]
        """
        tables, known = [], self.uncertainties_
        for index, found in enumerate(known):
            told, dropped, fitted = self._told_by, getattr(self, "n_dropped_", 0), self._fitted_as(index)
            made = told.made(fitted) if isinstance(told, StreamResult) else made_of(told, fitted)
            made += [f"Rows left out because something was missing: {dropped:,}."] if dropped else []
            with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):  # said below, once
                tables.append(found.summary(level, by, made))
        self._warn(known)
        return tables[0] if len(tables) == 1 else Summaries(zip(self._classes_told(), tables, strict=True))

    def conf_int(self, level: float = 0.95, by: LongRun | None = None) -> Vector:
        """Intervals of coefficients and intercept: shape (features + 1, 2), or (classes, features + 1, 2).

        Rows are in the order of `names_`: the intercept is the last.

        Parameters
        ----------
        level, by
            As in `summary`.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> rng = np.random.default_rng(0)
        >>> X = 50 + 10 * rng.standard_normal((4000, 2))
        >>> model = mr.MERRegressor(alpha=0).fit(X, X @ [1.0, -2.0] + 7 + rng.standard_normal(4000))
        >>> low, high = model.conf_int(level=0.99).T
        >>> (low < [1.0, -2.0, 7.0]).all() and ([1.0, -2.0, 7.0] < high).all()
        np.True_
        """
        known = self.uncertainties_
        with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):
            found = [one.interval(level, by=by) for one in known]
        self._warn(known)
        return np.array(found) if len(found) > 1 else found[0]

    def covariance(self, by: LongRun | None = None) -> Vector:
        """Covariances of coefficients and intercept, in the order of `names_`; of more than two classes, one each."""
        found = [one.covariance(by) for one in self.uncertainties_]
        return np.array(found) if len(found) > 1 else found[0]

    def predict_interval(self, X: Any, level: float = 0.95, by: LongRun | None = None) -> Band:
        """What `predict` gives for rows of X, with the two ends of its interval: (fitted, low, high).

        It is of the mean response, not of one outcome.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (rows, features)
            Features as in `fit`.
        level, by
            As in `summary`.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((4000, 1))
        >>> model = mr.MERPoissonRegressor().fit(X, rng.poisson(np.exp(X[:, 0])))
        >>> fitted, low, high = model.predict_interval([[0.0], [1.0]])
        >>> (low < np.exp([0.0, 1.0])).all() and (np.exp([0.0, 1.0]) < high).all()
        np.True_
        """
        rows = self._rows_at(X)
        response = self._problem().response  # type: ignore[attr-defined]
        ends = self.uncertainties_[0].interval(level, of=rows, by=by)
        return response(rows @ self.uncertainties_[0].x), response(ends[:, 0]), response(ends[:, 1])

    def _warn(self, known: Sequence[Uncertainty]) -> None:
        """Say once which intervals are not to be relied on, whatever the number of classes."""
        pairs = zip(self._classes_told(), known, strict=False)  # of two classes there is one
        notes = [(str(name), note) for name, one in pairs if (note := one.doubt_note())]
        if told := by_class(notes, len(known)):
            warn("; ".join(told), UncertaintyWarning)

    @property
    def _standardization(self) -> Any:
        stream = getattr(self, "_stream", None)
        return (self._fitted if stream is None else stream.start).standardization  # type: ignore[attr-defined]

    def _errors(self) -> Vector | None:
        """Standard errors by row of `coef_`, the intercept last."""
        found = [one.standard_error for one in self.uncertainties_]
        return None if any(error is None for error in found) else np.array(found)

    def _rows_at(self, X: Any) -> Vector:
        """Rows of X with a 1 where there is an intercept: the linear score is such a row times what `names_` names."""
        check_is_fitted(self, "coef_")
        rows = self._validated(X, reset=False)  # type: ignore[attr-defined]
        dense = rows.toarray() if hasattr(rows, "toarray") else rows
        ones = np.ones((len(dense), int(self._standardization.intercept)))
        return np.hstack([np.asarray(dense, dtype=np.float64), ones])

    def _fitted_as(self, index: int) -> str:
        """What a row of `coef_` is a fit of, to begin a sentence."""
        return " ".join(repr(self).split())

    def _classes_told(self) -> Sequence[Any]:
        """What tells the rows of `coef_` apart where there are several."""
        return range(len(np.atleast_2d(self.coef_)))


def _around_the_fit(x: Vector, known: Uncertainty) -> Uncertainty:
    """What is known of a fit, told of the x that is used in its place."""
    if known.images is None or (x == known.x).all():
        return known
    off = x - known.x
    away = distance_of(off, known.images.standard_error, x, np.ones(len(x)))
    notes = (*known.notes, *([HELD_BACK.format(away)] if away > CONVERGED else []))
    return Uncertainty(x, known.names, replace(known.images, off=off), known.source, "", notes)


def chance_bands(
    found: Sequence[Uncertainty], rows: Vector, level: float = 0.95, by: LongRun | None = None, softmax: bool = True
) -> Band:
    """Probabilities of classes at rows, each of shape (rows, classes), with the two ends of their intervals.

    Of two classes it is the interval of the linear score, through the link. Of more, each is σ_m/Σσ_k with the scores
    z of all of them, whose errors are known together, since they are of the same batches: σ = exp(z), or
    1/(1 + exp(−z)) where each class was told from the rest. To first order the error of its log-odds,
    log σ_m − log Σ_{k≠m} σ_k, is Σ_k g_k times those of the scores, with g_m = (log σ_m)' and
    g_k = −σ_k(log σ_k)'/Σ_{k≠m} σ_k, and the interval of the log-odds is brought back, so that it stays within 0 and 1.
    """
    scores = np.column_stack([rows @ one.x for one in found])
    together = softmax and len(found) > 1
    each = np.exp(scores - scores.max(axis=1, keepdims=True)) if together else expit(scores)
    steep = np.ones_like(each) if together else 1 - each
    ends = np.array([one.interval(level, of=rows, by=by) for one in found])
    if len(found) == 1:
        low, high = expit(ends[0].T)
        return np.hstack([1 - each, each]), np.column_stack([1 - high, low]), np.column_stack([1 - low, high])
    estimator = BatchMeans() if by is None else by
    pieces = [one.pieces(rows, by) for one in found]
    total = np.maximum(each.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    low, high = np.zeros_like(each), np.ones_like(each)
    known = np.isfinite(ends).all(axis=(0, 2))
    for m in range(len(found)):
        others = np.maximum(total[:, 0] - each[:, m], np.finfo(np.float64).tiny)
        slopes = -each * steep / others[:, None]
        slopes[:, m] = steep[:, m]
        spread = estimator.spread(np.sum([slopes[:, k] * pieces[k] for k in range(len(found))], axis=0))
        half = spread.quantile(level) * np.sqrt(spread.variance)
        centre = logit(each[:, m] / total[:, 0])
        low[known, m], high[known, m] = expit(centre - half)[known], expit(centre + half)[known]
    return each / total, low, high
