"""multireplay predict"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from multireplay.cli.app import INTERRUPTED, app, note
from multireplay.cli.cluster import LocalWorkers, On, new_folder, workers_of
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
from multireplay.cli.outputs import Force, check_outputs
from multireplay.errors import InputError


@app.command()
def predict(
    ctx: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file that 'multireplay fit --out' has written.")],
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the predictions, .csv or .parquet; they are printed otherwise. With --on or --workers a new "
            "folder of Parquet files."
        ),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Add the ends of an interval of the mean response: low and high.")
    ] = False,
    level: Level = 0.95,
    report: Report = None,
    memory: Memory = DEFAULT_MEMORY,
    on: On = None,
    workers: LocalWorkers = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    na: Na = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the target for every row of a file, by a model that was fitted before.

    The columns are found by their names. The predictions come in the order of the rows: the column 'prediction', and
    for classes the probability of each. Where the file has the target too, they are scored by it. --interval adds an
    interval of the mean response, which counts the dependence of the rows that the model was fitted to.

    Example: multireplay predict model.json new.csv --out predictions.csv
    """
    spread = on is not None or workers is not None
    if not spread and out is not None and out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written to a file that ends in .csv or .parquet")
    if spread:
        out = new_folder(out)
    check_outputs(force, [model, data], out=None if spread else out, report=report)
    from multireplay.cli.data_file import DataFile
    from multireplay.cli.inferred import known_by
    from multireplay.cli.model import Model
    from multireplay.cli.predicted import DRAWN, write_page
    from multireplay.cli.predicting import Predictor, scored
    from multireplay.tables.recipe import dropped_in_words

    learnt = Model.load(model)
    if learnt.fitted.get("converged") is False:
        note(f"{model} is of a fit that has not converged, as it says.")
    known = known_by(learnt, model) if interval else []
    if na is None:  # as in the fit
        na = ",".join(map(str, learnt.fitted.get("na") or ()))
    record = DataFile.open(data, memory, dialect(separator, encoding, decimal, na))
    missing = [name for name in learnt.columns if name not in record.names]
    if missing:
        needed = f"{data} has no column {', '.join(map(repr, missing))}, which the model {model} needs"
        raise InputError("; ".join(filter(None, (needed, record.guess(missing[0]).strip(" ;")))))
    rows = record.source.rows
    predictor = Predictor(learnt, record, known, level, 0 if report is None else max(1, rows // DRAWN))
    for name, called in predictor.names.items():
        if called != name:
            note(f"The column {name!r} of {data} is {called!r} beside the predictions.")
    columns: dict[str, Any] = {}
    try:
        if spread:
            from multireplay.cli.in_parts import predict_in_parts

            assert out is not None
            with workers_of(on, workers) as client:
                rows = predict_in_parts(predictor, out, client)
        else:
            columns = predictor.run(out, keep=as_json and out is None)
    except KeyboardInterrupt:
        note("Interrupted." if out is None else f"Interrupted. {out} was not written.", "red")
        raise typer.Exit(INTERRUPTED) from None
    unscored, score = predictor.unscored, predictor.score()
    if unscored:
        note(f"{unscored.total()} of {rows} rows have no prediction: {dropped_in_words(unscored)}.")
    doubted = predictor.doubted
    doubt = doubted.sentence(rows - unscored.total())
    if doubt is not None:
        note(doubt)
    if report is not None:
        note(f"Report: {write_page(report, predictor, rows, ctx.obj)}")
    if as_json:
        listed = {} if out else {name: column.to_pylist() for name, column in columns.items()}
        beside = {name: listed.pop(name) for name in predictor.names.values() if name in listed}
        about = {"rows": rows, "not_predicted": dict(unscored), "file": out, "score": score, "report": report}
        about["doubtful"] = {"rows": doubted.rows, "by": doubted.by, "sentence": doubt} if interval else None
        print_json({**about, "beside": beside, **listed})
        return
    if out is not None:
        note(f"{rows - unscored.total()} predictions of {learnt.target!r} are in {out}.")
    if score is not None:
        note(scored(score, f"against the column {learnt.target!r} of {data}"))
