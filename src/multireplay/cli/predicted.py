"""What `multireplay predict` has found, on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multireplay.cli.data_file import DataFile
from multireplay.cli.options import ModelKind
from multireplay.cli.predicting import Predictor, scored, truth_of
from multireplay.errors import InputError
from multireplay.report import write
from multireplay.report.sections import predicted, repeat
from multireplay.tables import as_times

WHAT = {ModelKind.linear: "responses", ModelKind.logistic: "probabilities", ModelKind.poisson: "counts"}


def write_page(path: Path, predictor: Predictor, made: Any, score: dict[str, Any] | None, command: str) -> Path:
    """A page with the predictions row by row, how they are spread, and how good they are if that is known."""
    model, record = predictor.model, predictor.record
    there = np.asarray(made.is_valid().to_numpy())
    values = np.asarray(made.drop_null().to_numpy())
    rows = np.flatnonzero(there)
    both = truth_of(record, model)
    classes = tuple(map(str, model.classes))
    actual = None if both is None else both[0][there]
    drawn = {name: np.concatenate(parts)[there] for name, parts in (predictor.drawn or {}).items()}
    found = predicted.Predictions(
        model.target,
        WHAT[model.kind],
        values.astype(str) if classes else values,
        rows,
        _times(record, model.fitted.get("time"), rows),
        actual.astype(str) if classes and actual is not None else actual,
        None if both is None else ~both[1][there],
        drawn.get("chance"),
        (drawn["low"], drawn["high"]) if "low" in drawn else None,
        classes,
    )
    said = [f"{len(values)} predictions of {model.target} by a {model.kind.value} model."]
    if score is not None:
        said.append(scored(score, f"against the column {model.target} of the same file"))
    labels = model.classes if len(model.coef) > 1 else ("",)
    coefficients = [
        {"class": str(label), "feature": name, "coefficient": float(value)}
        for label, row in zip(labels, model.coef, strict=True)
        for name, value in zip(model.features, row, strict=True)
    ]
    sections = [predicted.section(found, said, {"Coefficients": coefficients}), repeat.repeated(command)]
    return write(path, f"{model.target}, predicted for {record.path.name}", sections)


def _times(record: DataFile, name: Any, rows: Any) -> tuple[str, list[Any]] | None:
    """When the rows were, where the file has the time and it does not go back, as it does with several series."""
    if name not in record.names:
        return None
    try:
        times = as_times(record.table([name]).column(name), name)
    except InputError:
        return None
    if times.clock or times.missing.any() or (np.diff(times.values) < 0).any():
        return None
    return name, [times.show(row) for row in rows.tolist()] if times.dates else times.values[rows].tolist()
