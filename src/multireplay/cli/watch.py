"""multireplay watch"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import app, note
from multireplay.cli.options import Missing, ModelKind, Report, names_in

Sync = StrEnum("Sync", ["always", "interval", "none"])
Bad = StrEnum("Bad", ["refuse", "quarantine"])


@app.command()
def watch(
    store: Annotated[Path, typer.Option(help="The folder of the stream; one that is there goes on.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    model: Annotated[
        ModelKind, typer.Option(help="linear, logistic (0 or 1, false or true, or two labels) or poisson (counts).")
    ] = ModelKind.linear,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns to predict from, with commas between; all others by default. Numbers, true and false, and "
            "texts as categories."
        ),
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option(help="What a category, or the target, may be: column=level,level,...; once for each."),
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Columns that are categories though they hold numbers, with commas between.")
    ] = None,
    learn: Annotated[
        int, typer.Option(min=1, help="Rows from which levels are learnt that are not declared; later ones are bad.")
    ] = 1000,
    time: Annotated[
        str | None, typer.Option(help="The column that says when a row was: a number, or a date as ISO 8601.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The column that tells several sensors apart; each is a chain of its own.")
    ] = None,
    follow: Annotated[
        Path | None, typer.Option(help="A growing file or a named pipe, CSV or JSON lines, in place of standard input.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End where the file ends, and do not wait for more.")] = False,
    new_rows: Annotated[
        bool, typer.Option("--new-rows", help="All rows are new: none was there when the stream was stopped.")
    ] = False,
    every: Annotated[float, typer.Option(min=0, help="Seconds between two answers.")] = 10.0,
    forget: Annotated[
        str, typer.Option(help="auto, a half-life in rows (or with --time in its unit, of dates seconds), or none.")
    ] = "auto",
    window: Annotated[float | None, typer.Option(min=0, help="Only so many of the last rows count.")] = None,
    sync: Annotated[
        Sync, typer.Option(help="When a row is on the disk: at once, within a second, or some time.")
    ] = Sync.interval,
    keep: Annotated[int, typer.Option(min=0, help="So many of the last rows stay in the store.")] = 0,
    bad: Annotated[
        Bad, typer.Option(help="Rows that cannot be used are an error, or are put aside and counted.")
    ] = Bad.quarantine,
    missing: Annotated[
        Missing, typer.Option(help="Rows with an empty cell are bad rows, or put aside whatever --bad says.")
    ] = Missing.error,
    report: Report = None,
    metrics: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve metrics for Prometheus at this port of 127.0.0.1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line.")] = False,
) -> None:
    """Learn from rows as they come, JSON lines or CSV on standard input or a growing file, and keep the state.

    The current answer is printed at intervals. Ctrl-C (exit code 130) and SIGTERM (0) end it, and so does the end of
    standard input (0); in whatever way it ends, the same command goes on: rows that it has taken are known by their
    number, and skipped; a source with another first row, or that ends before it comes to new ones, is an error.

    Example: multireplay watch --store run --target y --report live.html < rows.ndjson
    """
    stream = None
    try:
        from multireplay.cli import told, watched, watching

        asked = None if features is None else tuple(names_in(features))
        categories = () if categorical is None else tuple(names_in(categorical))
        known, half_life = watching.declared(levels or []), watching.half_life(forget)
        wanted = watched.Watched(target, model.value, asked, time, group, categories, known, learn)
        how = {"sync": sync.value, "keep": keep, "bad": bad.value, "forget": half_life, "window": window}
        lines = watching.parsed(watching.rows_from(follow, once), wanted)
        stream, reading, rows = watching.open_stream(store, wanted, lines, how)
        with stream:
            outputs = told.Outputs(stream, every, report, metrics, as_json)
            taking = watching.Feeding(stream, reading, missing is Missing.drop)
            code = watching.watch_rows(taking, rows, stream.position if new_rows else 0, outputs)
    except SystemExit:  # SIGTERM, before the first row or after the last one
        note("No row was taken." if stream is None else watching.said_at_end(stream), "green")
        raise typer.Exit from None
    raise typer.Exit(code)
