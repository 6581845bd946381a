"""multireplay predict"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from multireplay.cli.app import INTERRUPTED, app, note
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitting import SCORES
from multireplay.cli.inferred import bands, known_by
from multireplay.cli.model import Model, ModelKind
from multireplay.cli.options import DEFAULT_MEMORY, Data, Json, Level, Memory, Report, print_json
from multireplay.errors import InputError
from multireplay.report import report_of_tables
from multireplay.show.progress import step_bar

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the rows: the quantiles of the predictions on the page."""


@app.command()
def predict(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file that 'multireplay fit --out' has written.")],
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="File for the predictions, .csv or .parquet; they are printed otherwise.")
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Add the ends of an interval of the mean response: low and high.")
    ] = False,
    level: Level = 0.95,
    report: Report = None,
    memory: Memory = DEFAULT_MEMORY,
    as_json: Json = False,
) -> None:
    """Predict the target for every row of a file, by a model that was fitted before.

    The columns are found by their names. The predictions come in the order of the rows: the column 'prediction', and
    for classes the probability of each. Where the file has the target too, they are scored by it. --interval adds an
    interval of the mean response, which counts the dependence of the rows that the model was fitted to.

    Example: multireplay predict model.json new.csv --out predictions.csv
    """
    import pyarrow as pa

    learnt = Model.load(model)
    if learnt.fitted.get("converged") is False:
        note(f"{model} is of a fit that has not converged, as it says.")
    known = known_by(learnt, model) if interval else []
    record = DataFile.open(data, memory)
    missing = [name for name in learnt.features if name not in record.features]
    if missing:
        raise InputError(f"{data} has no numbers in {', '.join(map(repr, missing))}, which the model {model} needs")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written to a file that ends in .csv or .parquet")
    made: list[dict[str, Any]] = []
    rows = 0
    writer: Any = None
    try:
        with ExitStack() as opened:  # what was written before an error or an interruption is a complete file
            long = record.source.rows >= 2**20
            advance = opened.enter_context(step_bar(record.source.rows, "predicting", "rows")) if long else None
            for first, block in record.blocks(learnt.features):
                found = learnt.predict(block)
                if known:
                    found |= bands(learnt, known, block, level)
                if out is not None or not as_json:
                    table = pa.table(found)
                    writer = writer or opened.enter_context(_writer(out, table.schema))
                    writer.write_table(table)
                    found = {"prediction": found["prediction"]}  # the rest is written
                made.append(found)
                rows = first + len(block)
                if advance is not None:
                    advance(len(block))
    except KeyboardInterrupt:
        kept = "" if out is None else f" {out} has the predictions of the first {rows} rows of {record.source.rows}."
        note(f"Interrupted.{kept}", "red")
        raise typer.Exit(INTERRUPTED) from None
    columns = {name: np.concatenate([part[name] for part in made]) for name in made[0]}
    truth = _truth(record, learnt)
    score = None if truth is None else _score(learnt, columns["prediction"], truth)
    if report is not None:
        page = _write_page(report, learnt, record, columns["prediction"], score, ctx.obj)
        note(f"Report: {page}")
    if as_json:
        print_json({"rows": rows, "file": out, "score": score, "report": report, **({} if out else columns)})
        return
    if out is not None:
        note(f"{rows} predictions of {learnt.target!r} are in {out}.")
    if score is not None:
        note(f"{score['metric']} against the column {learnt.target!r} of {data}: {score['score']:.4g}")


def _writer(path: Path | None, schema: Any) -> Any:
    """What writes tables one after the other, to the file or to standard output."""
    from pyarrow import csv, parquet

    if path is None:
        return csv.CSVWriter(sys.stdout.buffer, schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    return (parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter)(path, schema)


def _truth(record: DataFile, model: Model) -> NDArray[Any] | None:
    """The target's column, if the file has it without gaps."""
    if model.target not in (*record.features, *record.source.refused):
        return None
    try:
        return record.classes(model.target) if model.kind is ModelKind.logistic else record.matrix([model.target])[:, 0]
    except InputError:
        return None


def _score(model: Model, predicted: NDArray[Any], truth: NDArray[Any]) -> dict[str, Any] | None:
    """The score of the predictions, None where it has no meaning: one row, or counts below 0."""
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


def _write_page(
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
