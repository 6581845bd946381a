"""The work of `multireplay fit`: from a record to a model, a score on its last rows, and a word on dependence."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.cli.data_file import DataFile
from multireplay.cli.inferred import doubts_in, inference_of, summaries_of
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.cli.prepared import FEWEST, Prepared, Wanted, needed, prepare, too_few
from multireplay.cli.scores import score_by
from multireplay.cli.targets import check_spans
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import AutocorrelationWarning, DivergenceWarning, InputError
from multireplay.inference import Summary, Uncertainty
from multireplay.result import Result, Status
from multireplay.show.progress import bar

MEANINGS = {
    "R²": "the share of the variance explained",
    "accuracy": "{:.4g} for the most frequent class alone",
    "D²": "the share of the deviance explained",
}


class Shares(NamedTuple):
    """The share of the rows that is held out, and the level of intervals."""

    held_out: float = 0.2
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found: a model, whose ``fitted`` has all about it in plain values, and the runs behind it."""

    model: Model
    results: tuple[Result, ...]
    """One a row of the coefficients."""
    spread: Vector
    """Standard deviation of every feature."""
    summaries: tuple[Summary, ...] = ()
    """The table of every row of the coefficients."""
    known: tuple[Uncertainty, ...] = ()
    """How well each is known, in the units of the file."""

    @property
    def worst(self) -> Status:
        """How it went: a run that diverged comes before one that has not converged, and that before all others."""
        worst = max((result.status for result in self.results), key=lambda status: (_diverged(status), not status.ok))
        return Status(worst.code, told(worst))

    @property
    def diverged(self) -> bool:
        """Whether there is no model to speak of."""
        return _diverged(self.worst)

    def sentences(self) -> list[str]:
        """All that a person should know besides the coefficients."""
        held, dependence = self.model.fitted["holdout"], self.model.fitted["dependence"]
        lines = [str(self.worst), *self.model.fitted["about_rows"], *doubts_in(self.model)]
        if held is not None:
            meaning = MEANINGS[held["metric"]].format(held["baseline"])
            fit = f"A fit to the {'first' if held['groups'] == 1 else 'other'} {held['learnt']} rows has"
            if held["score"] is None:
                lines.append(f"{fit} no {held['metric']} on {held['on']}: {held['why_not']}.")
            else:
                lines.append(f"{fit} on {held['on']} {held['metric']} = {held['score']:.4g} ({meaning}).")
        lines.append(self.model.fitted["diagnosis"]["sentence"])
        return [*lines, dependence] if dependence else lines


class Learnt(NamedTuple):
    """What came of a record, in memory or where it is: a fitted estimator, and all there is to say of the rows."""

    estimator: Any
    recipe: Any
    rows: int
    chains: int
    time: str | None
    dropped: Mapping[str, int]
    left_out: Mapping[str, str]
    sentences: list[str]
    held: dict[str, Any] | None
    diagnosis: Diagnosis
    spread: Vector
    seconds: float


def fit_model(file: DataFile, wanted: Wanted, settings: Mapping[str, Any], shares: Shares, on: Any = None) -> Fit:
    """Read, fit, score on the share of the rows that is held out, and look at the dependence.

    A record that is too large for memory, or that workers read, stays where it is.
    """
    import multireplay
    from multireplay.estimators import MERClassifier, MERPoissonRegressor, MERRegressor

    kinds = {ModelKind.linear: MERRegressor, ModelKind.logistic: MERClassifier, ModelKind.poisson: MERPoissonRegressor}
    make = partial(kinds[wanted.kind], **settings)
    if on is None and file.fits(needed(file, wanted)):
        found = _fitted_here(file, wanted, make, shares.held_out)
    else:
        from multireplay.cli.large import fitted_there

        found = fitted_there(file, wanted, make, shares.held_out, on)
    kind, estimator, diagnosis = wanted.kind, found.estimator, found.diagnosis
    results: tuple[Result, ...] = estimator.results_
    endings = [result.status for result in results]
    ok = all(status.ok for status in endings)
    statuses = list(map(told, endings))
    known = estimator.uncertainties_
    summaries = tuple(summaries_of(known, shares.level))
    fitted = {
        "data": str(file.path),
        "rows": found.rows,
        "rows_dropped": dict(found.dropped),
        "chains": found.chains,
        "time": found.time,
        "group": wanted.group,
        "na": list(file.na),
        "left_out": found.left_out,
        "about_rows": found.sentences,
        **settings,
        "status": statuses if len(results) > 1 else statuses[0],
        "ok": ok,
        "converged": estimator.converged_,
        "distance": None if any(map(_diverged, endings)) else max(result.distance for result in results),
        "free": list(map(list, estimator.free_)),
        "passes_taken": max(result.passes for result in results),
        "seconds": round(found.seconds, 3),
        "holdout": found.held,
        "diagnosis": {"tau": diagnosis.tau, "ess": diagnosis.ess, "sentence": diagnosis.in_short},
        "dependence": _dependence(estimator) if ok else None,
        "multireplay": multireplay.__version__,
    }
    model = Model(
        kind,
        wanted.target,
        tuple(found.recipe.names),
        np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)),
        np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        tuple(np.asarray(estimator.classes_).tolist()) if kind is ModelKind.logistic else (),
        fitted,
        inference_of(known, summaries),
        found.recipe,
        wanted.also[0] if wanted.also else None,
        softmax=kind is ModelKind.logistic and len(estimator.classes_) > 2,
    )
    return Fit(model, results, found.spread, summaries, known)


def _fitted_here(file: DataFile, wanted: Wanted, make: Callable[..., Any], share: float) -> Learnt:
    """All of it in memory."""
    with bar("rows", counts=False, transient=True) as progress:
        shown = progress.add_task("reading", total=10 * file.source.rows)

        def done(following: str, share: float) -> None:
            progress.update(shown, advance=10 * file.source.rows * share, description=following)

        ready = prepare(file, wanted)
        if len(ready.targets) < FEWEST:
            raise too_few(file, len(ready.targets), ready.dropped)
        target, features = wanted.target, ready.recipe.names
        learn = partial(_learn, make, f"{file.path}, target {target!r}", features)
        rows, targets = ready.matrix, ready.targets
        extra = _exposure(file, wanted, ready)
        done("fitting", 0.1)
        held = _held_out(learn, wanted.kind, ready, share, extra)
        done("fitting", 0.4)
        began = time.perf_counter()
        estimator = learn(rows, targets, extra)
        seconds = time.perf_counter() - began
        done("diagnosing", 0.4)
        codes = targets if targets.dtype.kind in "fiub" else np.unique(targets, return_inverse=True)[1]
        diagnosis = diagnose({**dict(zip(features, rows.T, strict=True)), target: codes}, groups=ready.groups)
        done("done", 0.1)
    return Learnt(
        estimator, ready.recipe, len(rows), ready.chains.count, ready.time, ready.dropped, ready.left_out,
        ready.sentences(), held, diagnosis, rows.std(axis=0), seconds,
    )  # fmt: skip


def told(status: Status) -> str:
    """What a status says, with options as they are called here."""
    return status.message.replace("alpha=...", "--alpha")


def _diverged(status: Status) -> bool:
    return status.code == "diverged"


def _learn(
    make: Callable[..., Any],
    name: str,
    features: Sequence[str],
    rows: NDArray[Any],
    targets: NDArray[Any],
    extra: Mapping[str, Any] = MappingProxyType({}),
    examine: bool = True,
) -> Any:
    """The estimator, fitted. What it warns of is in its results, and in its dependence if that is examined."""
    from sklearn.exceptions import ConvergenceWarning

    estimator = make(warn_autocorrelation=examine)
    estimator._array_names = features
    with warnings.catch_warnings():
        for kind in (AutocorrelationWarning, ConvergenceWarning, DivergenceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            return estimator.fit(rows, targets, **extra)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None


def _exposure(file: DataFile, wanted: Wanted, ready: Prepared) -> dict[str, NDArray[Any]]:
    """What else a fit is given: the exposure, checked here, where the row of the file is known."""
    if not wanted.also:
        return {}
    name, values = wanted.also[0], ready.also[wanted.also[0]]
    check_spans(file.path, name, values, ready.chains.rows)
    return {"exposure": values}


def _held_out(
    learn: Callable[..., Any], kind: ModelKind, ready: Prepared, share: float, extra: Mapping[str, NDArray[Any]]
) -> dict[str, Any] | None:
    """The score on the end of every series of a fit to the other rows; None where nothing is held out."""
    held, words = ready.chains.last(share)
    rows, targets, count = ready.matrix, ready.targets, int(held.sum())
    if len(rows) < 50 or count < 2:
        return None
    groups = len(ready.chains.series)
    learnt, tried = (~held, held) if groups > 1 else (slice(-count), slice(-count, None))  # without a copy
    names, counts = np.unique(targets[learnt], return_counts=True)
    if kind is ModelKind.logistic and len(names) < 2:
        return None
    first, last = ({name: values[part] for name, values in extra.items()} for part in (learnt, tried))
    estimator = learn(rows[learnt], targets[learnt], first, examine=False)
    if any(_diverged(result.status) for result in estimator.results_):
        return None
    test = targets[tried]
    baseline = float(np.mean(test == names[counts.argmax()])) if kind is ModelKind.logistic else None
    scored = score_by(kind, test, estimator.predict(rows[tried], **last), **last)
    about = {"learnt": len(rows) - count, "rows": count, "groups": groups, "on": words}
    return {**about, **scored, "baseline": baseline}


def _dependence(estimator: Any) -> str | None:
    """What learning in order would have cost, if that is worth a word."""
    found = estimator.dependence_
    if found is None or not found.biased:
        return None
    return str(found.sentence(estimator.rival))
