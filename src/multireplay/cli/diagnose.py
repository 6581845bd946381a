"""multireplay diagnose"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from multireplay.cli.app import app, note
from multireplay.cli.cluster import LocalWorkers, On, workers_of
from multireplay.cli.options import (
    DEFAULT_MEMORY,
    Data,
    Decimal,
    Encoding,
    Group,
    Json,
    Memory,
    Missing,
    Na,
    Report,
    Separator,
    Time,
    dialect,
    names_in,
    print_json,
)  # fmt: skip
from multireplay.cli.outputs import Force, check_outputs
from multireplay.show.text import say


@app.command()
def diagnose(
    ctx: typer.Context,
    data: Data,
    columns: Annotated[
        str | None, typer.Option(help="Columns to look at, with commas between; all numeric ones by default.")
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Rows that have nothing in a column that is looked at: an error, or dropped.")
    ] = Missing.error,
    time: Time = None,
    group: Group = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    na: Na = None,
    memory: Memory = DEFAULT_MEMORY,
    on: On = None,
    workers: LocalWorkers = None,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say how strongly the rows of a record depend on their neighbours, column by column.

    Nothing is measured across a gap in time, a time that is there twice, a row that is dropped or the border of two
    groups.

    Example: multireplay diagnose data.csv --columns load,temperature --time when
    """
    check_outputs(force, [data], report=report)
    from multireplay.cli.data_file import DataFile
    from multireplay.cli.diagnosing import Looked, diagnosed, on_left_out

    file = DataFile.open(data, memory, dialect(separator, encoding, decimal, na))
    wanted = Looked(None if columns is None else tuple(names_in(columns)), time, group, missing)
    with workers_of(on, workers) as client:
        found, left_out = diagnosed(file, wanted, client)
    if report is not None:
        from multireplay.report import report_of_diagnosis

        title = f"How dependent the rows of {data.name} are"
        note(f"Report: {report_of_diagnosis(report, found, title=title, command=ctx.obj)}")
    if as_json:
        print_json({"file": data, **found.to_dict(), "left_out": list(left_out)})
        return
    for line in (*found.about, *on_left_out(left_out)):
        note(line)
    say(str(replace(found, about=())))
