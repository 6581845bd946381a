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
from multireplay.cli.data_file import DataFile
from multireplay.cli.model import Kind, Model
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


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learnt from which rows, and the arguments of the estimator."""

    kind: Kind
    rows: NDArray[Any]
    targets: NDArray[Any]
    settings: Mapping[str, Any]
    name: str
    """Of the file and the target, for errors."""

    @classmethod
    def read(
        cls, file: DataFile, kind: Kind, target: str, features: Sequence[str], settings: Mapping[str, Any]
    ) -> Task:
        """Read the rows and the targets."""
        rows = file.matrix(features)
        if kind is Kind.logistic:
            targets = file.classes(target)
        elif target in file.features:
            targets = file.matrix([target])[:, 0]
        else:
            file.expand(target)  # raises, unless it is a column with several numbers a row
            raise InputError(f"{file.path}: the target {target!r} has several numbers a row; name one, as {target}[0]")
        return cls(kind, rows, targets, settings, f"{file.path}, target {target!r}")

    def fitted(self, examine: bool = True) -> Any:
        """The estimator, fitted. What it warns of is in its results, and in its dependence if that is examined."""
        from multireplay.estimators import MERClassifier, MERPoissonRegressor, MERRegressor

        kinds = {Kind.linear: MERRegressor, Kind.logistic: MERClassifier, Kind.poisson: MERPoissonRegressor}
        estimator = kinds[self.kind](**self.settings, warn_autocorrelation=examine)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AutocorrelationWarning)
            warnings.simplefilter("ignore", DivergenceWarning)
            try:
                return estimator.fit(self.rows, self.targets)
            except ValueError as error:
                raise InputError(f"{self.name}: {error}") from None

    def held_out(self, share: float) -> dict[str, Any] | None:
        """The score on the last rows of a fit to the others; None where nothing is held out."""
        count = round(share * len(self.rows))
        if len(self.rows) < FEWEST or count < 2:
            return None
        learnt = replace(self, rows=self.rows[:-count], targets=self.targets[:-count])
        names, counts = np.unique(learnt.targets, return_counts=True)
        if self.kind is Kind.logistic and len(names) < 2:
            return None
        estimator = learnt.fitted(examine=False)
        if not _all_ok(estimator):
            return None
        test = self.targets[-count:]
        baseline = float(np.mean(test == names[counts.argmax()])) if self.kind is Kind.logistic else None
        score = float(estimator.score(self.rows[-count:], test))
        scored = {"metric": SCORES[self.kind], "score": score, "baseline": baseline}
        return {"learnt": len(learnt.rows), "rows": count, **scored}


def fit_model(
    file: DataFile, kind: Kind, target: str, features: Sequence[str], settings: Mapping[str, Any], share: float
) -> Fit:
    """Read, fit, score on the last rows, and look at the dependence.

    Parameters
    ----------
    file, kind, target, features
        What to learn, from what.
    settings : mapping
        Arguments of the estimator.
    share : float
        Share of the rows that is held out for the score, 0 for none.
    """
    import multireplay

    with bar("rows", counts=False, transient=True) as progress:
        shown = progress.add_task("reading", total=10 * file.rows)

        def done(following: str, share: float) -> None:
            progress.update(shown, advance=10 * file.rows * share, description=following)

        task = Task.read(file, kind, target, features, settings)
        done("fitting", 0.1)
        held = task.held_out(share)
        done("fitting", 0.4)
        began = time.perf_counter()
        estimator = task.fitted()
        seconds = time.perf_counter() - began
        done("diagnosing", 0.4)
        codes = task.targets if task.targets.dtype.kind in "fiub" else np.unique(task.targets, return_inverse=True)[1]
        diagnosis = diagnose({**{name: task.rows[:, place] for place, name in enumerate(features)}, target: codes})
        done("done", 0.1)
    results: tuple[Result, ...] = estimator.results_
    fitted = {
        "data": str(file.path),
        "rows": len(task.rows),
        **settings,
        "status": [str(result.status) for result in results] if len(results) > 1 else str(results[0].status),
        "ok": _all_ok(estimator),
        "passes_taken": max(result.passes for result in results),
        "seconds": round(seconds, 3),
        "holdout": held,
        "diagnosis": {"tau": diagnosis.tau, "ess": diagnosis.ess, "sentence": diagnosis.sentence},
        "dependence": _dependence(estimator, features),
        "multireplay": multireplay.__version__,
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
    return Fit(model, results, task.rows.std(axis=0), diagnosis)


def _all_ok(estimator: Any) -> bool:
    return all(result.status.ok for result in estimator.results_)


def _dependence(estimator: Any, features: Sequence[str]) -> str | None:
    """What learning in order would have cost, if that is worth a word."""
    found = estimator.dependence_
    if found is None or not found.biased or not _all_ok(estimator):
        return None
    names = {f"feature {place}": repr(name) for place, name in enumerate(features)}
    named = replace(found, column=names.get(found.column, found.column))
    return str(named.sentence(estimator.rival)).removesuffix(" warn_autocorrelation=False silences this.")
