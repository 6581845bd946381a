"""multireplay predict"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from multireplay.cli.app import INTERRUPTED, app, note
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitting import score_of
from multireplay.cli.inferred import bands, known_by
from multireplay.cli.model import Model, ModelKind
from multireplay.cli.options import (
    DEFAULT_MEMORY,
    Data,
    Decimal,
    Encoding,
    Json,
    Level,
    Memory,
    Na,
    Report,
    Separator,
    dialect,
    print_json,
)  # fmt: skip
from multireplay.errors import InputError
from multireplay.report import report_of_tables
from multireplay.show.progress import step_bar
from multireplay.tables.cells import as_classes, as_lists, as_numbers
from multireplay.tables.recipe import dropped_in_words

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
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    na: Na = None,
    as_json: Json = False,
) -> None:
    """Predict the target for every row of a file, by a model that was fitted before.

    The columns are found by their names. The predictions come in the order of the rows: the column 'prediction', and
    for classes the probability of each. Where the file has the target too, they are scored by it. --interval adds an
    interval of the mean response, which counts the dependence of the rows that the model was fitted to.

    Example: multireplay predict model.json new.csv --out predictions.csv
    """
    learnt = Model.load(model)
    if learnt.fitted.get("converged") is False:
        note(f"{model} is of a fit that has not converged, as it says.")
    known = known_by(learnt, model) if interval else []
    record = DataFile.open(data, memory, dialect(separator, encoding, decimal, na))
    needed = [*learnt.recipe.columns, *([learnt.exposure] if learnt.exposure else [])]
    missing = [name for name in needed if name not in record.names]
    if missing:
        raise InputError(f"{data} has no column {', '.join(map(repr, missing))}, which the model {model} needs")
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written to a file that ends in .csv or .parquet")
    told = [learnt.fitted.get("group"), learnt.fitted.get("time"), *learnt.fitted.get("left_out", {})]
    carried = [name for name in told if name in record.names and name not in needed]
    made: list[dict[str, Any]] = []
    whole: list[NDArray[np.bool_]] = []
    exposures: list[NDArray[Any]] = []
    unscored: Counter[str] = Counter()
    rows = 0
    writer: Any = None
    try:
        with ExitStack() as opened:  # what was written before an error or an interruption is a complete file
            long = record.source.rows >= 2**20
            advance = opened.enter_context(step_bar(record.source.rows, "predicting", "rows")) if long else None
            for first, block in record.batches([*needed, *carried]):
                design = learnt.recipe.design(block)
                spans = _spans(learnt, block, design)
                unscored += design.reasons
                usable, rest = design.usable, design.matrix[design.usable]
                found = learnt.predict(rest)
                if known:
                    found |= bands(learnt, known, rest, level)
                if learnt.exposure is not None:
                    found = {name: values * spans[usable] for name, values in found.items()}
                found = {name: spread(values, usable) for name, values in found.items()}
                if out is not None or not as_json:
                    table = pa.table({**{name: block.column(name) for name in carried}, **found})
                    writer = writer or opened.enter_context(_writer(out, table.schema))
                    writer.write_table(table)
                    found = {"prediction": found["prediction"]}  # the rest is written
                made.append(found)
                exposures.append(spans)
                whole.append(usable)
                rows = first + block.num_rows
                if advance is not None:
                    advance(block.num_rows)
    except KeyboardInterrupt:
        kept = "" if out is None else f" {out} has the predictions of the first {rows} rows of {record.source.rows}."
        note(f"Interrupted.{kept}", "red")
        raise typer.Exit(INTERRUPTED) from None
    usable = np.concatenate(whole)
    columns = {name: pa.chunked_array([part[name] for part in made]) for name in made[0]}
    predicted = np.asarray(columns["prediction"].drop_null().to_numpy())
    truth = _truth(record, learnt)
    all_spans = None if learnt.exposure is None else np.concatenate(exposures)
    score = None if truth is None else score_of(learnt.kind, *_both(columns["prediction"], truth, all_spans))
    if not usable.all():
        note(f"{(~usable).sum()} of {rows} rows have no prediction: {dropped_in_words(unscored)}.")
    if report is not None:
        page = _write_page(report, learnt, record, predicted, score, ctx.obj)
        note(f"Report: {page}")
    if as_json:
        listed = {} if out else {name: column.to_pylist() for name, column in columns.items()}
        about = {"rows": rows, "not_predicted": dict(unscored), "file": out, "score": score, "report": report}
        print_json({**about, **listed})
        return
    if out is not None:
        note(f"{usable.sum()} predictions of {learnt.target!r} are in {out}.")
    if score is not None:
        note(_scored(score, f"against the column {learnt.target!r} of {data}"))


def _writer(path: Path | None, schema: Any) -> Any:
    """What writes tables one after the other, to the file or to standard output."""
    from pyarrow import csv, parquet

    if path is None:
        return csv.CSVWriter(sys.stdout.buffer, schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    return (parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter)(path, schema)


def spread(values: NDArray[Any], usable: NDArray[np.bool_]) -> Any:
    """Values of the rows that can be used as a column of all rows, nothing where a row cannot be."""
    if usable.all():
        return pa.array(values)
    places = np.where(usable, np.cumsum(usable) - 1, -1)
    return pa.array(values).take(pa.array(places, mask=~usable))


def _truth(record: DataFile, model: Model) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """The target's column and where there is nothing in it, if the file has it."""
    column, place = record.features.get(model.target, (model.target, None))
    if column not in record.names:
        return None
    try:
        found = record.table([column]).column(column)
        if model.kind is ModelKind.logistic:
            return as_classes(found, model.target)
        values = as_numbers(found, column) if place is None else as_lists(found)[0][:, place]
    except InputError:
        return None
    return values, ~np.isfinite(values)


def _spans(model: Model, block: Any, design: Any) -> NDArray[Any]:
    """The exposure of every row, 1 without one; a row without one above 0 cannot be used."""
    if model.exposure is None:
        return np.ones(len(design.usable))
    spans = as_numbers(block.column(model.exposure), model.exposure)
    design.leave_out(~(np.isfinite(spans) & (spans > 0)) & design.usable, f"no number above 0 in {model.exposure!r}")
    return spans


def _both(
    predicted: Any, truth: tuple[NDArray[Any], NDArray[np.bool_]], spans: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Truth, predictions and exposure of the rows that have all of them."""
    values, empty = truth
    there = ~empty & predicted.is_valid().to_numpy()
    return (
        values[there],
        np.asarray(predicted.filter(pa.array(there)).to_numpy()),
        spans if spans is None else spans[there],
    )


def _scored(score: Mapping[str, Any], against: str) -> str:
    """The score as a sentence, or why there is none."""
    if score["score"] is None:
        return f"{score['metric']} {against} is not defined: {score['why_not']}."
    return f"{score['metric']} {against}: {score['score']:.4g}"


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
        notes.append(_scored(score, f"against the column {model.target} of the same file"))
    tables: dict[str, Any] = {"Predictions": spread}
    if len(model.coef) == 1:
        weights = zip(model.features, model.coef[0], strict=True)
        tables["Coefficients"] = [{"feature": name, "coefficient": float(value)} for name, value in weights]
    title = f"{model.target}, predicted for {record.path.name}"
    return report_of_tables(path, title, tables, notes=notes, command=command)
