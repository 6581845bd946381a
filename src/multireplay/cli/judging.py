"""Predictions beside what came true, where the file has it, and a page on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.cli.fitting import SCORES
from multireplay.cli.model import Kind, Model
from multireplay.cli.record import Record
from multireplay.errors import InputError

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def truth_of(record: Record, model: Model) -> NDArray[Any] | None:
    """The target's column, if the file has it without gaps."""
    if model.target not in (*record.features, *record.source.refused):
        return None
    try:
        return record.classes(model.target) if model.kind is Kind.logistic else record.matrix([model.target])[:, 0]
    except InputError:
        return None


def judged(model: Model, predicted: NDArray[Any], truth: NDArray[Any]) -> dict[str, Any] | None:
    """The score of the predictions, None where it has no meaning: one row, or counts below 0."""
    from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

    if len(truth) < 2 or (model.kind is Kind.poisson and (truth.min() < 0 or not np.isfinite(predicted).all())):
        return None
    if model.kind is Kind.linear:
        score = r2_score(truth, predicted)
    elif model.kind is Kind.poisson:
        score = d2_tweedie_score(truth, predicted, power=1)
    else:
        score = accuracy_score(truth.astype(str), predicted.astype(str))
    return {"metric": SCORES[model.kind], "score": float(score)}


def write_page(
    path: Path, model: Model, record: Record, predicted: NDArray[Any], score: dict[str, Any] | None, command: str
) -> Path:
    """A page with how the predictions are spread, and how good they are if that is known."""
    from multireplay.report import report_of_tables

    if model.kind is Kind.logistic:
        names, counts = np.unique(predicted, return_counts=True)
        spread = [
            {"class": str(name), "rows": int(count), "share": f"{count / len(predicted):.2%}"}
            for name, count in zip(names, counts, strict=True)
        ]
    else:
        values = np.quantile(predicted, SHARES)
        spread = [
            {"share of rows below": f"{share:.0%}", "prediction": float(value)}
            for share, value in zip(SHARES, values, strict=True)
        ]
    notes = [f"{len(predicted)} predictions of {model.target} by a {model.kind.value} model."]
    if score is not None:
        notes.append(f"{score['metric']} against the column {model.target} of the same file: {score['score']:.4g}.")
    tables: dict[str, Any] = {"Predictions": spread}
    if len(model.coef) == 1:
        weights = zip(model.features, model.coef[0], strict=True)
        tables["Coefficients"] = [{"feature": name, "coefficient": float(value)} for name, value in weights]
    title = f"{model.target}, predicted for {record.path.name}"
    return report_of_tables(path, title, tables, notes=notes, command=command)
