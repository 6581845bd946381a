"""The work of `multireplay fit`: from a record to a model, a score on its last rows, and a word on dependence."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.cli.model import Kind, Model
from multireplay.cli.record import Record
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import AutocorrelationWarning, DivergenceWarning, InputError
from multireplay.result import Result
from multireplay.show.progress import bar

FEWEST = 50
"""Rows without which nothing is held out."""
SCORES = {Kind.linear: "R²", Kind.logistic: "accuracy", Kind.poisson: "D²"}
MEANINGS = {
    "R²": "the share of the variance explained",
    "accuracy": "{:.4g} for the most frequent class alone",
    "D²": "the share of the deviance explained",
}


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found.

    Attributes
    ----------
    model : Model
        The model, whose ``fitted`` has all of the rest in plain values.
    results : tuple of Result
        What `solve` gave, one a row of the coefficients.
    spread : ndarray
        Standard deviation of every feature.
    diagnosis : Diagnosis
        How dependent features and target are.
    """

    model: Model
    results: tuple[Result, ...]
    spread: Vector
    diagnosis: Diagnosis

    @property
    def ok(self) -> bool:
        """False if a run diverged."""
        return all(result.status.ok for result in self.results)

    @property
    def status(self) -> str:
        """How it went, with the first run that diverged before all others."""
        return str(min(self.results, key=lambda result: result.status.ok).status)

    @property
    def coordinates(self) -> list[str]:
        """Names of what was learnt."""
        return [*self.model.features, "(intercept)"]

    def sentences(self) -> list[str]:
        """All that a person should know besides the coefficients."""
        lines = [self.status]
        held = self.model.fitted["holdout"]
        if held is not None:
            meaning = MEANINGS[held["metric"]].format(held["baseline"])
            lines.append(
                f"A fit to the first {held['learnt']} rows has on the last {held['rows']} rows {held['metric']} = "
                f"{held['score']:.4g} ({meaning})."
            )
        lines.append(self.diagnosis.sentence)
        dependence = self.model.fitted["dependence"]
        return [*lines, dependence] if dependence else lines


def fit_model(
    record: Record, kind: Kind, target: str, features: Sequence[str], settings: Mapping[str, Any], share: float
) -> Fit:
    """Read, fit, score on the last rows, and look at the dependence.

    Parameters
    ----------
    record, kind, target, features
        What to learn, from what.
    settings : mapping
        Arguments of the estimator.
    share : float
        Share of the rows that is held out for the score, 0 for none.
    """
    with bar("rows", counts=False, transient=True) as progress:
        task = progress.add_task("reading", total=10 * record.rows)

        def done(following: str, share: float) -> None:
            progress.update(task, advance=10 * record.rows * share, description=following)

        rows = record.matrix(features)
        targets = record.classes(target) if kind is Kind.logistic else _numbers(record, target)
        done("fitting", 0.1)
        held = _held_out(record, kind, target, rows, targets, settings, share)
        done("fitting", 0.4)
        began = time.perf_counter()
        estimator = _fitted(record, kind, target, rows, targets, settings)
        seconds = time.perf_counter() - began
        done("diagnosing", 0.4)
        codes = np.unique(targets, return_inverse=True)[1] if targets.dtype.kind not in "fiub" else targets
        diagnosis = diagnose({**{name: rows[:, place] for place, name in enumerate(features)}, target: codes})
        done("done", 0.1)
    results: tuple[Result, ...] = estimator.results_
    fitted = {
        "data": str(record.path),
        "rows": len(rows),
        **settings,
        "status": [str(result.status) for result in results] if len(results) > 1 else str(results[0].status),
        "ok": all(result.status.ok for result in results),
        "passes_taken": max(result.passes for result in results),
        "seconds": round(seconds, 3),
        "holdout": held,
        "diagnosis": {"tau": diagnosis.tau, "ess": diagnosis.ess, "sentence": diagnosis.sentence},
        "dependence": _dependence(estimator, features),
        "multireplay": _version(),
    }
    model = Model(
        kind,
        target,
        tuple(features),
        np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64)),
        np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
        tuple(estimator.classes_.tolist()) if kind is Kind.logistic else (),
        fitted,
    )
    return Fit(model, results, rows.std(axis=0), diagnosis)


def _numbers(record: Record, target: str) -> NDArray[Any]:
    if target not in record.features:
        record.expand(target)  # raises, unless it is a column with several numbers a row
        raise InputError(f"{record.path}: the target {target!r} has several numbers a row; name one, as {target}[0]")
    return record.matrix([target])[:, 0]


def _held_out(
    record: Record,
    kind: Kind,
    target: str,
    rows: NDArray[Any],
    targets: NDArray[Any],
    settings: Mapping[str, Any],
    share: float,
) -> dict[str, Any] | None:
    """The score on the last rows of a fit to the others; None where nothing is held out."""
    count = round(share * len(rows))
    if len(rows) < FEWEST or count < 2:
        return None
    learnt, known, test = rows[:-count], targets[:-count], targets[-count:]
    if kind is Kind.logistic and len(np.unique(known)) < 2:
        return None
    estimator = _fitted(record, kind, target, learnt, known, settings, examine=False)
    if not all(result.status.ok for result in estimator.results_):
        return None
    baseline = None
    if kind is Kind.logistic:
        names, counts = np.unique(known, return_counts=True)
        baseline = float(np.mean(test == names[counts.argmax()]))
    score = float(estimator.score(rows[-count:], test))
    return {"learnt": len(learnt), "rows": count, "metric": SCORES[kind], "score": score, "baseline": baseline}


def _fitted(
    record: Record,
    kind: Kind,
    target: str,
    rows: NDArray[Any],
    targets: NDArray[Any],
    settings: Mapping[str, Any],
    examine: bool = True,
) -> Any:
    """The estimator, fitted. What it warns of is in its results, and in its dependence if that is examined."""
    from multireplay.estimators import MERClassifier, MERPoissonRegressor, MERRegressor

    kinds = {Kind.linear: MERRegressor, Kind.logistic: MERClassifier, Kind.poisson: MERPoissonRegressor}
    estimator = kinds[kind](**settings, warn_autocorrelation=examine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AutocorrelationWarning)
        warnings.simplefilter("ignore", DivergenceWarning)
        try:
            return estimator.fit(rows, targets)
        except ValueError as error:
            raise InputError(f"{record.path}, target {target!r}: {error}") from None


def _dependence(estimator: Any, features: Sequence[str]) -> str | None:
    """What learning in order would have cost, if that is worth a word."""
    found = estimator.dependence_
    if found is None or not found.biased or not all(result.status.ok for result in estimator.results_):
        return None
    names = {f"feature {place}": repr(name) for place, name in enumerate(features)}
    named = replace(found, column=names.get(found.column, found.column))
    return str(named.sentence(estimator.rival)).removesuffix(" warn_autocorrelation=False silences this.")


def _version() -> str:
    import multireplay

    return multireplay.__version__
