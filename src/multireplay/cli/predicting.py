"""The work of `multireplay predict`: predictions block by block, to a file that is complete or not there at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._write import completed
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitting import SCORES
from multireplay.cli.inferred import bands
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.errors import InputError
from multireplay.inference import Uncertainty
from multireplay.report import report_of_tables
from multireplay.show.progress import step_bar

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the rows: the quantiles of the predictions on the page."""
LONG = 2**20
"""Rows from which there is a bar."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model, a record to predict for, and what is known of the coefficients, where intervals are asked for."""

    model: Model
    record: DataFile
    known: Sequence[Uncertainty]
    level: float

    def run(self, out: Path | None, keep: bool) -> dict[str, NDArray[Any]]:
        """Write all columns to the file, or print them; what is returned is the predictions alone.

        To `keep` them, all are returned and none is printed.
        """
        import pyarrow as pa

        made: list[dict[str, NDArray[Any]]] = []
        rows, writer = self.record.source.rows, None
        with ExitStack() as opened:
            advance = opened.enter_context(step_bar(rows, "predicting", "rows")) if rows >= LONG else None
            for _, block in self.record.blocks(self.model.features):
                found = self.model.predict(block)
                if self.known:
                    found |= bands(self.model, self.known, block, self.level)
                if not keep:
                    table = pa.table(found)
                    writer = writer or _writer(out, table.schema, opened)
                    writer.write_table(table)
                    found = {"prediction": found["prediction"]}  # the rest is written
                made.append(found)
                if advance is not None:
                    advance(len(block))
        return {name: np.concatenate([part[name] for part in made]) for name in made[0]}


def _writer(path: Path | None, schema: Any, opened: ExitStack) -> Any:
    """What writes tables one after the other, to the file or to standard output, until all that is opened is closed."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path is None:
        return opened.enter_context(csv.CSVWriter(sys.stdout.buffer, schema))
    file = pa.PythonFile(opened.enter_context(completed(path)), mode="w")
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    return opened.enter_context(kind(file, schema))


def _truth(record: DataFile, model: Model) -> NDArray[Any] | None:
    """The target's column, if the file has it without gaps."""
    if model.target not in (*record.features, *record.source.refused):
        return None
    try:
        return record.classes(model.target) if model.kind is ModelKind.logistic else record.matrix([model.target])[:, 0]
    except InputError:
        return None


def score_of(model: Model, record: DataFile, predicted: NDArray[Any]) -> dict[str, Any] | None:
    """The score of the predictions by the record's own target, None where that has no meaning: counts below 0, say."""
    truth = _truth(record, model)
    if truth is None:
        return None
    from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

    if len(truth) < 2 or (model.kind is ModelKind.poisson and (truth.min() < 0 or not np.isfinite(predicted).all())):
        return None
    if model.kind is ModelKind.logistic:
        score = accuracy_score(truth.astype(str), predicted.astype(str))
    elif model.kind is ModelKind.linear:
        score = r2_score(truth, predicted)
    else:
        score = d2_tweedie_score(truth, predicted, power=1)
    return {"metric": SCORES[model.kind], "score": float(score)}


def write_page(
    path: Path, model: Model, record: DataFile, predicted: NDArray[Any], score: dict[str, Any] | None, command: str
) -> Path:
    """A page with how the predictions are spread, and how good they are if that is known."""
    spread: list[dict[str, Any]]
    if model.kind is ModelKind.logistic:
        found = zip(*np.unique(predicted, return_counts=True), strict=True)
        spread = [{"class": str(name), "rows": int(n), "share": f"{n / len(predicted):.2%}"} for name, n in found]
    else:
        found = zip(SHARES, np.quantile(predicted, SHARES), strict=True)
        spread = [{"share of rows below": f"{share:.0%}", "prediction": float(value)} for share, value in found]
    notes = [f"{len(predicted)} predictions of {model.target} by a {model.kind.value} model."]
    if score is not None:
        notes.append(f"{score['metric']} against the column {model.target} of the same file: {score['score']:.4g}.")
    tables: dict[str, Any] = {"Predictions": spread}
    if len(model.coef) == 1:
        weights = zip(model.features, model.coef[0], strict=True)
        tables["Coefficients"] = [{"feature": name, "coefficient": float(value)} for name, value in weights]
    title = f"{model.target}, predicted for {record.path.name}"
    return report_of_tables(path, title, tables, notes=notes, command=command)
