"""multireplay fit"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import app, exit_code, note
from multireplay.cli.cluster import LocalWorkers, On, workers_of
from multireplay.cli.options import (
    DEFAULT_MEMORY,
    Data,
    Decimal,
    Encoding,
    Group,
    Json,
    Level,
    Memory,
    Missing,
    ModelKind,
    Na,
    Report,
    Separator,
    Time,
    dialect,
    names_in,
    print_json,
)  # fmt: skip
from multireplay.cli.outputs import Force, check_outputs
from multireplay.errors import InputError

ClassWeight = StrEnum("ClassWeight", ["balanced"])


@app.command()
def fit(
    ctx: typer.Context,
    data: Data,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    model: Annotated[
        ModelKind, typer.Option(help="linear (least squares), logistic (two or more classes) or poisson (counts).")
    ] = ModelKind.linear,
    features: Annotated[
        str | None,
        typer.Option(help="Columns to predict from, with commas between; by default all others that can serve."),
    ] = None,
    formula: Annotated[
        str | None, typer.Option(help="Instead of --target and --features, as 'load ~ temp + C(weekday) + log(hour)'.")
    ] = None,
    categorical: Annotated[
        str | None,
        typer.Option(help="Columns that are categories whatever they hold; text is, up to 50 different ones."),
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Rows that have nothing in a column that is used: an error, or dropped.")
    ] = Missing.error,
    exposure: Annotated[
        str | None,
        typer.Option(help="With --model poisson: the column of how long, or how much, was counted; it is no feature."),
    ] = None,
    class_weight: Annotated[
        ClassWeight | None, typer.Option(help="With --model logistic: 'balanced' makes all classes count the same.")
    ] = None,
    time: Time = None,
    group: Group = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    na: Na = None,
    alpha: Annotated[float, typer.Option(min=0, help="L2 penalty on the standardized coefficients.")] = 1e-4,
    standardize: Annotated[
        bool, typer.Option(help="Learn with features of mean 0 and standard deviation 1; the answer is for yours.")
    ] = True,
    holdout: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of the rows, at the end, that a trial fit is scored on.")
    ] = 0.2,
    passes: Annotated[
        int | None, typer.Option(min=1, help="The most passes over the rows; as many as it takes by default.")
    ] = None,
    step: Annotated[float | None, typer.Option(help="Step size; found from the features by default.")] = None,
    level: Level = 0.95,
    out: Annotated[Path | None, typer.Option(help="JSON file for the model, for 'multireplay predict'.")] = None,
    report: Report = None,
    memory: Memory = DEFAULT_MEMORY,
    on: On = None,
    workers: LocalWorkers = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a regression to a record whose rows are in time order and depend on their neighbours.

    The fit is the exact one, or within a tenth of a standard error of it. Do not shuffle the file. A fit to its first
    part is scored on its last part (--holdout 0 leaves that out); the model is then fitted to all rows. Standard
    errors and intervals count the dependence of the rows, and are marked where the record has seen too little.

    Example: multireplay fit data.parquet --target fails --model logistic --features load,heat --out model.json
    """
    check_outputs(force, [data], out=out, report=report)
    from multireplay.cli.data_file import DataFile
    from multireplay.cli.fitted import show, write_page
    from multireplay.cli.fitting import Shares, fit_model
    from multireplay.cli.prepared import Wanted

    record = DataFile.open(data, memory, dialect(separator, encoding, decimal, na))
    asked = None if features is None else tuple(names_in(features))
    wanted = Wanted(
        _target(target, formula), model, asked, formula, tuple(names_in(categorical or "")), time, group, missing,
        () if exposure is None else (exposure,),
    )  # fmt: skip
    _check_kind(model, exposure, class_weight)
    if formula is not None and features is not None:
        raise InputError("the features are in the formula: give --formula or --features")
    for what, name in (("target", wanted.target), ("exposure", exposure)):
        if asked is not None and name in asked:
            raise InputError(f"the {what} {name!r} is among the features")
    if step is not None and (on is not None or workers is not None):
        raise InputError(
            "--step asks for one step after the other, on one machine: leave --on and --workers out, or --step"
        )
    settings = {"alpha": alpha, "standardize": standardize, "passes": passes, "step": "auto" if step is None else step}
    if class_weight is not None:
        settings["class_weight"] = class_weight.value
    with workers_of(on, workers) as client:
        found = fit_model(record, wanted, settings, Shares(holdout, level), client)
        page = None if report is None else write_page(found, report, ctx.obj)
    for name, why in found.model.fitted["left_out"].items():
        note(f"Left out: {name!r} {why}.")
    if out is not None and not found.diverged:
        found.model.save(out)
    if page is not None:
        note(f"Report: {page}")
    if as_json:
        print_json({**found.model.to_dict(), "file": None if found.diverged else out, "report": report})
    elif not found.diverged:
        show(found, out)
    if found.diverged:
        note(f"{found.worst} {'No model was written.' if out is not None else ''}", "red")
    elif not found.worst.ok:
        note(str(found.worst) if as_json else "This is not the fit of the record: it has not converged.", "red")
    raise typer.Exit(exit_code(found.worst))


def _check_kind(model: ModelKind, exposure: str | None, class_weight: ClassWeight | None) -> None:
    if exposure is not None and model is not ModelKind.poisson:
        raise InputError("--exposure is for counts: --model poisson")
    if class_weight is not None and model is not ModelKind.logistic:
        raise InputError("--class-weight is for classes: --model logistic")


def _target(target: str | None, formula: str | None) -> str:
    """The column to predict, which a formula has on its left."""
    if formula is None:
        if target is None:
            raise typer.BadParameter("the column to predict is needed", param_hint="--target")
        return target
    left = formula.partition("~")[0].strip().strip("`")
    if target not in (None, left):
        raise InputError(f"--target is {target!r}, but the formula has {left!r} on its left")
    return left
