"""The work of `multireplay fit` on a record that stays where it is: larger than memory, or read by workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Columns
from multireplay.buffer.disk.scaled import ScaledBuffer
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.cli.data_file import DataFile
from multireplay.cli.designed import LABELS, Designed, one
from multireplay.cli.fitting import Learnt
from multireplay.cli.options import ModelKind
from multireplay.cli.prepared import Wanted
from multireplay.cli.scores import Tally, tally
from multireplay.cli.surveyed import Standing, prepare_there, stored_as
from multireplay.cli.targets import SAME, in_other_units
from multireplay.diagnose.stored import diagnose_stored
from multireplay.engine.sums import BlockSum, Kept, Part, fold
from multireplay.estimators.stored import Moments, MomentsSum, fit_stored
from multireplay.problems import GLM, Problem
from multireplay.spread import SpreadRecord, as_workers, spread_over
from multireplay.tables.chains import last_of


class ScoreSum(BlockSum):
    """What the score of an estimator's predictions is made of; `classes` are the numbers of those that it knows."""

    def __init__(self, problem: Problem, kind: ModelKind, estimator: Any, classes: Sequence[int]) -> None:
        self.problem, self.kind, self.classes = problem, kind, np.array(classes)
        self.coef, self.intercept = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)

    def zero(self) -> Part:
        return (Tally(),)

    def of(self, block: Columns) -> Part:
        y = np.asarray(block["targets"], np.float64)
        scores = np.asarray(block["features"], np.float64) @ self.coef.T + self.intercept
        if self.kind is ModelKind.logistic:
            best = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
            return (tally(self.kind, y.astype(np.int64), self.classes[best]),)
        with np.errstate(over="ignore"):
            fitted = np.exp(scores[:, 0]) if self.kind is ModelKind.poisson else scores[:, 0]
        spans = np.asarray(block["weights"], np.float64) if "weights" in block else None
        return (
            tally(self.kind, y if spans is None else y * spans, fitted if spans is None else fitted * spans, spans),
        )

    def add(self, total: Part, part: Part) -> Part:
        return (total[0].joined(part[0]),)


class _Fitting(NamedTuple):
    """A record that is ready, the sums over it, and who makes estimators and does the work."""

    ready: Standing
    record: SpreadRecord
    sums: MomentsSum
    make: Callable[..., Any]
    on: Any

    def fitted(self, moments: Moments, left_out: Positions, rows: int, examine: bool = True) -> Any:
        """An estimator of the rows that these moments are of: so many, the first of those that are not left out."""
        estimator = self.make(warn_autocorrelation=examine)
        estimator._array_names = self.ready.plan.recipe.names
        response = self.ready.designed.response
        assert response is not None
        present, weights = np.flatnonzero(moments.weight), np.ones(len(moments.weight))
        if response.kind is ModelKind.logistic:
            if getattr(estimator, "class_weight", None) is not None:
                weights[present] = moments.weight.sum() / (len(present) * moments.weight[present])
            estimator.classes_ = np.array(response.classes)[present]
            told = weights[present] if np.ptp(weights[present]) > 0 else weights[:0]
            response = replace(response, classes=tuple(estimator.classes_.tolist()), weights=tuple(map(float, told)))
        elif response.weights:
            response = replace(response, weights=(response.weights[0] * rows / float(moments.weight[0]),))
        whole = moments.together(weights)
        shares = whole.mean[0, -1:] if len(weights) == 1 else (weights * moments.weight)[present] / whole.weight[0]
        scale = self.sums.standardization(whole, rows, estimator.standardize)
        stored = stored_as(replace(self.ready.designed, response=response), self.ready.stored.memory, left_out)
        scaled = ScaledBuffer(stored, (tuple(scale.mean.tolist()), tuple(scale.scale.tolist())), rows)
        return fit_stored(estimator, scaled, scale, shares, self.on)

    def tried(self, parts: list[Moments], bounds: Positions, held: int, words: str) -> dict[str, Any] | None:
        """The score on the end of every series of a fit to the other rows; None where nothing is held out."""
        learnt, tested = (reduce(Moments.joined, parts[first::2]) for first in (0, 1))
        kind, rows, groups = self.ready.plan.response.kind, len(self.ready.stored), len(self.ready.chains.series)
        if kind is ModelKind.logistic and np.count_nonzero(learnt.weight) < 2:
            return None
        dropped = self.ready.stored.made_of[2]
        ends = bounds[1:].reshape(-1, 2)
        if groups > 1:
            aside = np.concatenate([np.arange(low, high) for low, high in ends.tolist()])
            dropped = np.union1d(dropped, self.ready.stored.stored_rows(aside))
        estimator = self.fitted(learnt, dropped, rows - held, examine=False)
        if estimator.results_[0].status.code == "diverged":
            return None
        score = ScoreSum(self.sums.problem, kind, estimator, np.flatnonzero(learnt.weight).tolist())
        if groups > 1:
            found = [part for (part,) in fold(self.record, score, bounds)[1::2]]
        else:
            ends, kept = np.array([rows - held, rows]), Kept(rows - held, [score.zero()], _nothing)
            found = [part for (part,) in fold(self.record, score, ends, kept=kept)]
        baseline = None
        if kind is ModelKind.logistic:
            baseline = float(tested.weight[learnt.weight.argmax()] / tested.weight.sum())
        about = {"learnt": rows - held, "rows": held, "groups": groups, "on": words}
        return {**about, **reduce(Tally.joined, found).score(kind), "baseline": baseline}


def fitted_there(file: DataFile, wanted: Wanted, make: Callable[..., Any], share: float, on: Any) -> Learnt:
    """A model of all rows, scored on the last of them by a fit to the others, with a word on dependence."""
    ready = prepare_there(file, wanted, as_workers(on))
    stored, chains, problem = ready.stored, ready.chains, GLM()
    record = spread_over(problem, stored, on)
    classes = len(ready.designed.response.classes) if ready.designed.response else 0
    sums = MomentsSum(problem, np.asarray(record.head()["features"][0], np.float64), classes)
    counts, words = last_of(chains.series, share)
    counts = counts if len(stored) >= 50 and counts.sum() >= 2 else np.zeros_like(counts)
    bounds = np.append(0, np.cumsum(np.column_stack([np.array(chains.series) - counts, counts]).ravel()))
    parts = [part for (part,) in fold(record, sums, bounds)]
    moments = reduce(Moments.joined, parts)
    fitting = _Fitting(ready, record, sums, make, on)
    held = fitting.tried(parts, bounds, int(counts.sum()), words) if counts.any() else None
    began = time.perf_counter()
    estimator = fitting.fitted(moments, stored.made_of[2], len(stored))
    seconds = time.perf_counter() - began
    whole = moments.together(np.ones(len(moments.weight)))
    return Learnt(
        estimator, ready.plan.recipe, len(stored), len(chains.lengths), ready.plan.time, ready.dropped,
        ready.plan.left_out, ready.sentences(_twins(ready, moments, whole)), held,
        diagnose_stored(_series(ready.designed, stored, wanted.target), None, on, chains),
        np.sqrt(whole.square[0, :-1] / whole.weight[0]), seconds,
    )  # fmt: skip


def _series(designed: Designed, stored: StoredBuffer, target: str) -> StoredBuffer:
    """All features and the target by name."""
    columns = {**{name: one(name) for name in designed.recipe.names}, target: one(LABELS)}
    return StoredBuffer(designed.as_source(stored.memory), columns, stored.memory, None, stored.made_of[2])


def _twins(ready: Standing, moments: Moments, whole: Moments) -> list[str]:
    """A word on features that are the target in other units."""
    response, names = ready.designed.response, np.array(ready.plan.recipe.names)
    assert response is not None
    square, target = whole.square[0, :-1], whole.square[0, -1]
    if response.kind is not ModelKind.logistic:
        same = np.abs(whole.cross[0]) >= (1 - SAME) * np.sqrt(square * target)
    elif len(response.classes) == 2 and not isinstance(response.classes[0], str | bool):
        same = moments.square[:, :-1].sum(axis=0) <= 2 * SAME * square
    else:
        return []
    return in_other_units(response.name, names[same & (square > 0)].tolist())


def _nothing(row: int) -> None:
    """Nobody keeps a score that was begun."""
