"""What all estimators have in common: their parameters, a fit by `solve`, and a stream by `Online`."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from multireplay._check import Vector, number_in, whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.errors import AutocorrelationWarning
from multireplay.estimators.dependence import Dependence, examine
from multireplay.estimators.standardize import Standardization, measured
from multireplay.estimators.stream import STANDARDIZED, Columns, Start, Stream
from multireplay.online import Online
from multireplay.problems import Problem
from multireplay.replay import Replay
from multireplay.result import Result
from multireplay.solve import solve
from multireplay.solving.resolve import DEFAULT_TAIL
from multireplay.steps import Schedule


class LinearEstimator(BaseEstimator):  # type: ignore[misc]
    """A linear predictor that is learnt from rows in time order. See `MERRegressor` for the parameters."""

    rival: ClassVar[str]
    """Who would have learnt in order, for the warning."""
    target: ClassVar[str] = "targets"
    """The problem's column that y becomes."""

    coef_: Vector
    intercept_: Any
    results_: tuple[Result, ...]
    dependence_: Dependence | None
    _fitted: Start | None
    _stream: Stream | None

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        fit_intercept: bool = True,
        standardize: bool = True,
        passes: int | None = None,
        replay: Replay | None = None,
        step: float | Schedule | Literal["auto"] = "auto",
        average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL,
        capacity: int = 4096,
        warn_autocorrelation: bool = True,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.passes = passes
        self.replay = replay
        self.step = step
        self.average = average
        self.capacity = capacity
        self.warn_autocorrelation = warn_autocorrelation

    def _problem(self) -> Problem:
        """The problem that the parameters ask for."""
        raise NotImplementedError

    def _level(self, columns: Columns, targets: Vector) -> float:
        """Where the intercept starts: the best constant prediction."""
        raise NotImplementedError

    def _keep(self, standardization: Standardization, points: tuple[Vector, ...]) -> None:
        """Set `coef_` and `intercept_`."""
        self.coef_, self.intercept_ = standardization.undone(points[0])

    def _penalty(self) -> dict[str, Any]:
        """The arguments of the problem that say what is penalized."""
        return {"ridge": number_in("alpha", self.alpha), "unpenalized": int(bool(self.fit_intercept))}

    def _solved(self, columns: Columns, targets: Vector) -> tuple[Start, tuple[Result, ...], tuple[Buffer, ...]]:
        """Solve one problem for each column of the targets, all on the same standardized features."""
        problem = self._problem()
        standardization = measured(
            columns["features"],
            columns.get("weights"),
            standardize=bool(self.standardize),
            intercept=bool(self.fit_intercept),
        )
        shared = {
            name: standardization.design(column) if name in STANDARDIZED else column for name, column in columns.items()
        }
        # a copy: the loops would be compiled once more for memory that cannot be written to
        buffers = tuple(Buffer(**shared, **{self.target: one}) for one in np.array(targets.T, order="C"))
        options: dict[str, Any] = {"passes": self.passes, "replay": self.replay, "step": self.step}
        options |= {"average": self.average, "holdout": None}  # the penalty is what is against overfitting
        results = tuple(
            solve(problem, buffer, x0=self._x0(shared, buffer[self.target]), **options) for buffer in buffers
        )
        return Start(standardization, tuple(result.x for result in results)), results, buffers

    def _x0(self, columns: Columns, targets: Vector) -> Vector:
        x0 = np.zeros(columns["features"].shape[1])
        if self.fit_intercept:
            x0[-1] = self._level(columns, targets)
        return x0

    def _fit(self, columns: Columns, targets: Vector) -> None:
        """Fit to a whole record, with targets of shape (rows, problems), and forget any stream."""
        start, self.results_, buffers = self._solved(columns, targets)
        self._fitted, self._stream = start, None
        self._keep(*start)
        self.dependence_ = None
        if self.warn_autocorrelation and all(result.status.ok for result in self.results_):
            self._examine(buffers[int(np.argmax(targets.var(axis=0)))])

    def _examine(self, buffer: Buffer) -> None:
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        names = [f"feature {name!r}" for name in names] or [f"feature {index}" for index in range(self.n_features_in_)]
        x0 = self._x0(dict(buffer.columns), buffer[self.target])
        options = {"step": self.step, "average": self.average, "x0": x0, "holdout": None}
        self.dependence_ = examine(self._problem(), buffer, names, self.target, options)
        if self.dependence_ is not None and self.dependence_.biased:
            warnings.warn(self.dependence_.sentence(self.rival), AutocorrelationWarning, stacklevel=4)

    def _partial_fit(self, columns: Columns, targets: Vector) -> None:
        """Take in the next rows of a stream; after `fit`, go on from what it found."""
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None:
            stream = Stream(whole_number("capacity", self.capacity, least=2), self.target)
            fitted: Start | None = getattr(self, "_fitted", None)
            if fitted is not None:
                stream.begin(self, fitted)
        stream.take(self, columns, targets)
        assert stream.start is not None
        self._stream = stream
        self._keep(stream.start.standardization, stream.answers)

    def _start(self, columns: Columns, targets: Vector) -> Start:
        """Where a stream starts that begins with this record."""
        return self._solved(columns, targets)[0]

    def _online(self, x0: Vector) -> Online:
        """A run of the online algorithm from that start."""
        return Online(self._problem(), self.capacity, self.step, repeat_last=True, average=self.average, x0=x0)

    def _validated(self, *arrays: Any, **options: Any) -> Any:
        """Rows, and y beside them, checked, with `n_features_in_` and `feature_names_in_` set or compared with."""
        return validate_data(self, *arrays, accept_sparse="csr", dtype=[np.float64, np.float32], **options)

    def _scores(self, X: Any) -> Vector:
        """The linear predictor."""
        check_is_fitted(self, "coef_")
        rows = self._validated(X, reset=False)
        return np.asarray(safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
