"""What all estimators have in common: their parameters, a fit by `solve`, and a stream by `Stream`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from multireplay._check import Vector, number_in, whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.names import INTERCEPT, distinct, warn_unordered
from multireplay.errors import AutocorrelationWarning, InputError, warn
from multireplay.errors import ConvergenceWarning as NotConverged
from multireplay.estimators.dependence import Dependence, examine, looked_at
from multireplay.estimators.standardize import Columns, Standardization, measured
from multireplay.estimators.uncertain import Inference
from multireplay.estimators.usable import as_table, refuse_by_place, usable_as_they_are
from multireplay.problems import Problem
from multireplay.replay import Replay
from multireplay.result import Result
from multireplay.solve import solve
from multireplay.solving.resolve import DEFAULT_TAIL
from multireplay.steps import Schedule
from multireplay.streaming.answer import StreamResult
from multireplay.streaming.stream import Stream

GROWTH = 1.25
"""While the buffer fills, the rows so far are solved anew each time there are this many times more of them."""


class Start(NamedTuple):
    """Where the online algorithm starts: how features are standardized, and x0."""

    standardization: Standardization
    x: Vector


@dataclass(eq=False, repr=False)
class MEREstimator(Inference, BaseEstimator):  # type: ignore[misc]
    """A linear predictor that is learnt from rows in time order. See `MERRegressor` for the parameters."""

    rival: ClassVar[str]
    """Who would have learnt in order, for the warning."""
    target: ClassVar[str] = "targets"
    """The problem's column that y becomes."""
    _array_names: ClassVar[Sequence[str] | None] = None
    """What the columns of X are called where X itself has no names."""

    alpha: float = 1e-4
    _: KW_ONLY
    fit_intercept: bool = True
    standardize: bool = True
    passes: int | None = None
    replay: Replay | None = None
    step: float | Schedule | Literal["auto"] = "auto"
    average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL
    capacity: int = 4096
    warn_autocorrelation: bool = False
    missing: Literal["error", "drop"] = "error"

    def predict(self, X: Any) -> Any:
        """wᵀx + b for every row of X."""
        return self._scores(X)

    def _problem(self) -> Problem:
        """The problem that the parameters ask for."""
        raise NotImplementedError

    def _level(self, columns: Mapping[str, Any], targets: Vector) -> float:
        """Where the intercept starts: the best constant prediction."""
        raise NotImplementedError

    def _keep(self, standardization: Standardization, x: Vector) -> None:
        """Set `coef_` and `intercept_`."""
        self.coef_: Vector
        self.intercept_: Any
        self.coef_, self.intercept_ = standardization.undone(x)

    def _penalty(self) -> dict[str, Any]:
        """The arguments of the problem that say what is penalized."""
        return {"ridge": number_in("alpha", self.alpha), "unpenalized": int(bool(self.fit_intercept))}

    def _x0(self, buffer: Buffer) -> Vector:
        """Where a fit starts."""
        x0 = np.zeros(buffer["features"].shape[1])
        if self.fit_intercept:
            x0[-1] = self._level(buffer.columns, buffer[self.target])
        return x0

    def _options(self, x0: Vector) -> dict[str, Any]:
        """How a record is solved in any order."""
        # no rows are held out: the penalty is what is against overfitting
        return {"step": self.step, "average": self.average, "x0": x0, "holdout": None}

    def _solved(self, columns: Columns, targets: Vector) -> tuple[Start, Result, Buffer]:
        """Solve the problem on standardized features."""
        rows, weights = columns["features"], columns.get("weights")
        standardization = measured(rows, weights, standardize=self.standardize, intercept=bool(self.fit_intercept))
        named = getattr(self, "feature_names_in_", self._array_names)
        names = None if named is None else distinct([*named, *[INTERCEPT] * bool(self.fit_intercept)])
        # a copy: the loops would be compiled once more for memory that cannot be written to
        given = {**standardization.columns(columns), self.target: np.array(targets, order="C")}
        buffer = Buffer(**self._completed(given), names=names)
        options = {"passes": self.passes, "replay": self.replay, **self._options(self._x0(buffer))}
        with warnings.catch_warnings(action="ignore", category=NotConverged):  # which is scikit-learn's here
            result = self._told(solve(self._problem(), buffer, **options))
        return Start(standardization, result.x), result, buffer

    def _completed(self, columns: Columns) -> Columns:
        """What is solved, given the standardized columns of the rows so far."""
        return columns

    def _told(self, result: Result) -> Result:
        """The result as it speaks here: of alpha, and of a column that is always 0 once it is centred as constant."""
        said, swapped = result.status, [("ridge=...", "alpha=...")]
        if self.fit_intercept and self.standardize:
            swapped += [(" is never active", " is constant"), (" are never active", " are constant")]
        texts = [said.message, *result.notes]
        for old, new in swapped:
            texts = [text.replace(old, new) for text in texts]
        message, *notes = texts
        return replace(result, status=replace(said, message=message), notes=tuple(notes))

    @property
    def _called(self) -> list[Any]:
        """What the columns of X are called: by name, or by number where they have none."""
        return list(getattr(self, "feature_names_in_", self._array_names or range(self.n_features_in_)))

    @property
    def converged_(self) -> bool:
        """Whether the fit is within a tenth of a standard error of the exact one: see `Result.converged`."""
        return bool(self.results_[0].converged)

    @property
    def free_(self) -> tuple[tuple[Any, ...], ...]:
        """Groups of columns, by name or number, that the rows do not settle, see `Result.free`."""
        names = [*self._called, *[INTERCEPT] * bool(self.fit_intercept)]
        groups = (dict.fromkeys(names[i % len(names)] for i in group) for group in self.results_[0].free)
        return tuple(dict.fromkeys(map(tuple, groups)))

    def _fit(self, columns: Columns, targets: Vector) -> Any:
        """Fit to a whole record, and forget any stream."""
        start, result, buffer = self._solved(columns, targets)
        self._fitted, self.results_ = start, (result,)
        self._stream: PartialFit | None = None
        self._keep(*start)
        if result.status.code == "not converged":
            warn(result.status.message, ConvergenceWarning)
        self.dependence_: Dependence | None = None
        if self.warn_autocorrelation and result.status.ok:
            names = [f"feature {name!r}" for name in self._called]
            problem, buffer, x0 = self._examined(buffer)
            part = buffer[len(buffer) - looked_at(len(buffer)) :]
            self.dependence_ = examine(problem, part, names, self.target, self._options(x0))
            if self.dependence_ is not None and self.dependence_.biased:
                warn(self.dependence_.sentence(self.rival), AutocorrelationWarning)
        return self

    def _examined(self, buffer: Buffer) -> tuple[Problem, Buffer, Vector]:
        """What a pass in order is tried on, and from where."""
        return self._problem(), buffer, self._x0(buffer)

    def _partial_fit(self, columns: Columns, targets: Vector) -> Any:
        """Take in the next rows of a stream; after `fit`, go on from what it found."""
        stream: PartialFit | None = getattr(self, "_stream", None)
        if stream is None:
            stream = PartialFit(whole_number("capacity", self.capacity, least=2), self.target)
            if hasattr(self, "_fitted"):
                stream.result = self.results_[0]
                stream.begin(self, self._fitted, getattr(stream.result.run, "record", None))
        stream.take(self, columns, targets)
        assert stream.start is not None
        self._stream = stream
        self._keep(stream.start.standardization, stream.answer)
        return self

    def _validated(self, *arrays: Any, **options: Any) -> Any:
        """Rows, and y beside them, checked, with `n_features_in_` and `feature_names_in_` set or compared with."""
        if not options.get("reset", True) and usable_as_they_are(self, arrays, options.get("ensure_min_samples", 1)):
            return arrays if len(arrays) > 1 else arrays[0]
        if self.missing == "drop":  # in rows to predict: those to learn from are gone
            options = {"ensure_all_finite": "allow-nan", **options}
        if options.get("reset") and hasattr(self, "recipe_"):
            del self.recipe_  # learnt anew, from something else
        if hasattr(self, "recipe_") and not isinstance(arrays[0], np.ndarray):
            arrays = (_designed(self.recipe_, arrays[0])[0], *arrays[1:])
        try:
            return validate_data(self, *arrays, accept_sparse="csr", dtype=[np.float64, np.float32], **options)
        except (ValueError, TypeError):
            if np.ndim(arrays[0]) == 2:
                refuse_by_place(*arrays)
            raise

    @classmethod
    def from_formula(cls, formula: str, data: Any, *, groups: Any = None, **settings: Any) -> Any:
        """An estimator fitted by a formula, which then predicts from tables with the same columns.

        Parameters
        ----------
        formula : str
            As ``"load ~ temp + C(weekday) + log(hour)"``: columns, C(column) for categories, numbers, arithmetic inside
            ``{}``, interactions, and log, log10, log1p, exp, sqrt, abs, sin, cos. Text is categories by itself. Needs
            the package formulaic, which the extra 'formula' has.
        data : data frame (pandas, polars), Arrow table or dictionary of columns
            The rows, in time order.
        groups : array of shape (rows,) or name of a column, optional
            Which of several series a row belongs to.
        **settings
            Parameters of the estimator.

        Examples
        --------
        >>> import multireplay as mr
        >>> data = {"load": [3.0, 5.0, 8.0, 9.0] * 50, "heat": [1.0, 2.0, 3.0, 4.0] * 50, "day": ["Mon", "Tue"] * 100}
        >>> model = mr.MERRegressor.from_formula("load ~ heat + day", data)
        >>> model.names_
        ('heat', 'day[T.Tue]', '(intercept)')
        >>> model.predict({"heat": [2.0], "day": ["Mon"]}).round(1)
        array([5.5])
        """
        from multireplay.tables.formula import FormulaRecipe

        if groups is None:
            warn_unordered({"data": data})
        table = as_table(data)
        recipe = FormulaRecipe.of(formula, table)
        found = cls(**{"fit_intercept": recipe.intercept, **settings})
        rows, usable = _designed(recipe, table)
        if found.missing == "error" and not usable.all():
            bad = int(np.argmin(usable))
            raise InputError(f"row {bad} (counting from 0) has something missing; missing='drop' leaves such rows out")
        labels = table.column(groups).to_numpy() if isinstance(groups, str) else groups
        targets = found._target_of(table.column(recipe.target), recipe.target)
        found.fit(rows, targets, **({} if labels is None else {"groups": labels}))
        found.recipe_ = recipe
        return found

    def _target_of(self, column: Any, name: str) -> Any:
        from multireplay.tables.cells import as_numbers

        return as_numbers(column, name)

    def _scores(self, X: Any) -> Vector:
        """The linear predictor."""
        check_is_fitted(self, "coef_")
        rows = self._validated(X, reset=False)
        return np.asarray(safe_sparse_dot(rows, self.coef_.T, dense_output=True) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _designed(recipe: Any, data: Any) -> tuple[Any, Any]:
    """What a formula makes of a table, as a data frame, and which rows it could be made of."""
    import pandas as pd

    design = recipe.design(as_table(data))
    return pd.DataFrame(design.matrix, columns=list(recipe.names)), design.usable


class PartialFit:
    """Rows that come in parts, learnt by `multireplay.Stream`.

    The first `capacity` rows are kept as they are. While they come in, the answer is what `multireplay.solve` makes of
    the rows so far. When they are complete, the standardization they give is kept for good, and the run begins with
    them. After `begin` with what `fit` found, it begins at once, with the rows of `fit` where they are still there.
    """

    def __init__(self, capacity: int, target: str) -> None:
        self.capacity = capacity
        self.target = target
        self.start: Start | None = None
        self.result: Result | None = None
        self.run: Stream | None = None
        self._kept: list[Columns] = []
        self._rows = self._solved = 0

    def begin(self, host: MEREstimator, start: Start, record: Any = None) -> None:
        """Begin the run, with a record that was fitted, if there is one."""
        self.start, self.run = start, Stream(host._problem())
        if record is not None:
            ones = {} if self.target == "rewards" else {"weights": np.ones(record.length)}
            self.run.observe_many({**ones, **record.columns})

    def take(self, host: MEREstimator, columns: Columns, targets: Vector) -> None:
        """Take in a block of rows."""
        block = {**columns, self.target: targets}
        if self.run is not None:
            self._observe(block)
            return
        count = min(len(targets), self.capacity - self._rows)
        # a copy, because the caller may use the memory of a block for the next one
        self._kept.append({name: column[:count].copy() for name, column in block.items()})
        self._rows += count
        complete = self._rows == self.capacity
        if not complete and self._rows < GROWTH * self._solved:
            return
        record = {name: stacked([kept[name] for kept in self._kept]) for name in block}
        shared = {name: record[name] for name in columns}
        self.start, self.result, _ = host._solved(shared, record[self.target])
        self._solved = self._rows
        if complete:
            self._kept, self.result = [], None
            self.begin(host, self.start)
            self._observe(record)
            self._observe({name: column[count:] for name, column in block.items()})

    def _observe(self, block: Columns) -> None:
        assert self.start is not None
        assert self.run is not None
        if len(block[self.target]):
            self.run.observe(**self.start.standardization.columns(block))

    @property
    def answer(self) -> Vector:
        """The answer of the run that predictions are made with, and x0 until it has seen as many rows as that has."""
        assert self.start is not None
        found = None if self.run is None or self._fills else self.run.predictor
        return self.start.x if found is None else found.copy()

    @property
    def told(self) -> Result | StreamResult:
        """What the answer comes from: the stream, or the fit it began with until that has as many rows."""
        assert self.run is not None or self.result is not None
        return self.result if self.run is None or self._fills else self.run.result()  # type: ignore[return-value]

    @property
    def _fills(self) -> bool:
        return self.run is None or self.run.position < self.capacity


def stacked(blocks: Sequence[Any]) -> Any:
    """Blocks of rows one after the other: sparse where all are, arrays of numbers or of rows otherwise."""
    if all(sparse.issparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    return np.concatenate([block.toarray() if sparse.issparse(block) else block for block in blocks])
