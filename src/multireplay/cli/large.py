"""The work of `multireplay fit --on` and `--workers`: a model of a record that stays where it is, read by workers."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
from scipy.special import xlogy

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.layout import Layout, MappedColumn, Part, resolve_time
from multireplay.buffer.disk.memory import bytes_of
from multireplay.buffer.disk.scaled import ScaledBuffer
from multireplay.buffer.disk.stream import check_order
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitting import SCORES, Fit, Shares, told
from multireplay.cli.inferred import inference_of, summaries_of
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.cli.prepared import FEWEST, Wanted, too_few
from multireplay.diagnose import diagnose
from multireplay.engine.sums import BlockSum, Kept, fold
from multireplay.engine.sums import Part as Sums
from multireplay.errors import ConvergenceWarning, DivergenceWarning, InputError
from multireplay.estimators.standardize import Standardization
from multireplay.problems import GLM, Problem
from multireplay.solve import solve
from multireplay.spread import spread_over
from multireplay.tables import Recipe, Term

LINKS = {ModelKind.linear: "identity", ModelKind.logistic: "logistic", ModelKind.poisson: "exp"}


class FeatureMoments(BlockSum):
    """Sums of features, less those of one row, and of their squares; and of targets, and of y(1 − y), 0 for classes."""

    def __init__(self, problem: Problem, around: Vector) -> None:
        self.problem, self.around = problem, around

    def zero(self) -> Sums:
        return np.zeros(len(self.around)), np.zeros(len(self.around)), np.zeros(2)

    def of(self, block: Columns) -> Sums:
        rows, y = np.asarray(block["features"], np.float64) - self.around, np.asarray(block["targets"], np.float64)
        return rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows), np.array([y.sum(), y @ (1 - y)])

    def standardization(self, sums: Sums, rows: int, standardize: bool) -> Standardization:
        """Of so many rows; a feature that does not vary is 0."""
        if not standardize:
            return Standardization(np.zeros(len(self.around)), np.ones(len(self.around)), True)
        mean, square = sums[0] / rows, sums[1] / rows
        variance = np.maximum(square - mean**2, 0.0)
        varies = variance > 10 * np.finfo(np.float64).eps * square
        scale = np.sqrt(np.where(varies, variance, 1.0))
        return Standardization(self.around + np.where(sums[1] > 0, mean, 0.0), scale, True)


class ScoreSum(BlockSum):
    """What scores of predictions are made of: rows, targets, squares, squared errors, right classes, and for counts."""

    def __init__(self, problem: GLM, coef: Vector, intercept: float, centre: float) -> None:
        self.problem, self.coef, self.intercept, self.centre = problem, coef, intercept, centre

    def zero(self) -> Sums:
        return (np.zeros(9),)

    def of(self, block: Columns) -> Sums:
        y = np.asarray(block["targets"], np.float64)
        scores = np.asarray(block["features"], np.float64) @ self.coef + self.intercept
        fitted, off = self.problem.response(scores), y - self.centre
        sums = len(y), y.sum(), off.sum(), off @ off, (y - fitted) @ (y - fitted), ((scores > 0) == (y > 0.5)).sum()
        counts = xlogy(y, y).sum(), xlogy(y, np.maximum(fitted, 1e-300)).sum(), fitted.sum()
        return (np.array([*sums, *counts], dtype=np.float64),)

    @staticmethod
    def score(kind: ModelKind, sums: Vector) -> float | None:
        """The score that these sums make; None where it is not defined."""
        rows, total, off, squares, errors, right, own, cross, fitted = sums
        if kind is ModelKind.logistic:
            return float(right / rows)
        if kind is ModelKind.linear:
            left, whole = errors, squares - off**2 / rows
        else:
            left, whole = own - cross - total + fitted, own - xlogy(total, total / rows)
        return float(1 - left / whole) if whole > 0 else None


def fit_large(file: DataFile, wanted: Wanted, settings: Mapping[str, Any], shares: Shares, on: Any) -> Fit:
    """A model of all rows, scored on the last of them by a fit to the others, with a word on dependence."""
    import multireplay

    stored, features, left_out = _columns(file, wanted)
    rows, kind = len(stored), wanted.kind
    held = round(shares.held_out * rows) if rows >= 50 else 0
    held = 0 if held < 2 else held
    problem = GLM(LINKS[kind])
    record = spread_over(problem, stored, on)
    sums = FeatureMoments(problem, np.asarray(record.head()["features"][0], np.float64))
    first, last = fold(record, sums, np.array([0, rows - held, rows])) if held else (fold(record, sums)[0], sums.zero())
    whole = tuple(one + other for one, other in zip(first, last, strict=True))
    if kind is ModelKind.logistic and not (whole[2][1] == 0 and 0 < whole[2][0] < rows):
        raise InputError(f"{file.path}: {wanted.target!r} has to be 0 and 1, and both, to be fitted where it is stored")
    began = time.perf_counter()
    scale = sums.standardization(whole, rows, settings["standardize"])
    result = _solved(kind, settings, ScaledBuffer(stored, _as_scaled(scale)), on)
    seconds = time.perf_counter() - began
    trial = None
    if held and first[2][0] > 0 and not (kind is ModelKind.logistic and first[2][0] == rows - held):
        by = sums.standardization(first, rows - held, settings["standardize"])
        tried = _solved(kind, settings, ScaledBuffer(stored, _as_scaled(by), rows - held), on)
        level = float(first[2][0] / (rows - held))
        score = ScoreSum(problem, *by.undone(tried.x), level)
        (found,) = fold(record, score, np.array([rows - held, rows]), kept=Kept(rows - held, [score.zero()], _nothing))
        trial = _trial(kind, found[0], rows - held, level)
    diagnosis = diagnose(stored, on=on)
    names = (*features, "(intercept)")
    known = (result.uncertainty.mapped(scale.way_back(), names),)
    known[0].notes = tuple(note.replace("the ridge", f"alpha={settings['alpha']:g}") for note in known[0].notes)
    summaries = tuple(summaries_of(known, shares.level))
    coef, intercept = scale.undone(result.x)
    fitted = {
        "data": str(file.path), "rows": rows, "rows_dropped": {}, "chains": 1, "time": wanted.time, "group": None,
        "na": [], "left_out": left_out, "about_rows": list(diagnosis.about), **settings, "status": told(result.status),
        "ok": result.status.ok, "converged": result.converged,
        "distance": None if result.status.code == "diverged" else result.distance,
        "free": [[names[i] for i in group] for group in result.free], "passes_taken": result.passes,
        "seconds": round(seconds, 3), "holdout": trial,
        "diagnosis": {"tau": diagnosis.tau, "ess": diagnosis.ess, "sentence": diagnosis.in_short},
        "dependence": None, "multireplay": multireplay.__version__,
    }  # fmt: skip
    model = Model(
        kind, wanted.target, features, coef[None, :], np.array([intercept]),
        (0, 1) if kind is ModelKind.logistic else (), fitted, inference_of(known, summaries), _recipe(file, features),
    )  # fmt: skip
    return Fit(model, (result,), scale.scale, summaries, known)


def _columns(file: DataFile, wanted: Wanted) -> tuple[StoredBuffer, tuple[str, ...], dict[str, str]]:
    """The record as it is stored, the names of its features, and the columns that are left out, with the reason."""
    aside = [name for name in (wanted.target, wanted.time) if name is not None]
    for name in aside[:1]:
        if file.features.get(name, ("", 0))[1] is not None:
            file.refuse(name)
    left_out = {}
    if wanted.features is None:
        names = [name for name, (column, _) in file.features.items() if column not in aside]
        left_out = {name: "holds no numbers" for name in file.source.refused if name not in aside}
    else:
        names = [one for name in wanted.features for one in file.expand(name)]
    if not names:
        raise InputError(f"{file.path} has no other columns of numbers; it has {', '.join(file.names)}")
    if wanted.time is not None:
        check_order(file.source, resolve_time(wanted.time, file.source), bytes_of(file.memory))
    parts = []
    for column, group in groupby((file.features[name] for name in names), key=lambda pair: pair[0]):
        places = [place for _, place in group]
        parts.append(Part(column, None if places[0] is None else tuple(places)))  # type: ignore[arg-type]
    columns = {"features": Layout(tuple(parts), False), "targets": Layout((Part(wanted.target),), True)}
    mapped = {name: MappedColumn(layout) for name, layout in columns.items()}
    if file.source.rows < FEWEST:
        raise too_few(file, file.source.rows, Counter())
    return StoredBuffer(file.source, mapped, bytes_of(file.memory), names), tuple(names), left_out


def _recipe(file: DataFile, features: tuple[str, ...]) -> Recipe:
    return Recipe(tuple(Term(*file.features[name]) for name in features))


def _as_scaled(scale: Standardization) -> Any:
    return tuple(scale.mean.tolist()), tuple(scale.scale.tolist())


def _solved(kind: ModelKind, settings: Mapping[str, Any], buffer: StoredBuffer, on: Any) -> Any:
    problem = GLM(LINKS[kind], ridge=settings["alpha"], unpenalized=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DivergenceWarning)
        return solve(problem, buffer, passes=settings["passes"], step=settings["step"], holdout=None, on=on)


def _trial(kind: ModelKind, sums: Vector, learnt: int, level: float) -> dict[str, Any]:
    score, rows = ScoreSum.score(kind, sums), int(sums[0])
    share = float(sums[1] / rows)
    baseline = (share if level > 0.5 else 1 - share) if kind is ModelKind.logistic else None
    why = None if score is not None else "there is nothing to explain: all are the same"
    return {
        "learnt": learnt,
        "rows": rows,
        "metric": SCORES[kind],
        "score": score,
        "why_not": why,
        "baseline": baseline,
    }


def _nothing(row: int) -> None:
    """Nobody keeps a score that was begun."""
