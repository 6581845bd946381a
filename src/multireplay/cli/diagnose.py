"""multireplay diagnose"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from multireplay.cli.app import app, note
from multireplay.cli.options import DEFAULT_MEMORY, Data, Json, Memory, Report, Time, names_in, print_json
from multireplay.cli.outputs import Force, check_outputs
from multireplay.errors import InputError
from multireplay.show.text import say

if TYPE_CHECKING:
    from multireplay.cli.data_file import DataFile


@app.command()
def diagnose(
    ctx: typer.Context,
    data: Data,
    columns: Annotated[
        str | None, typer.Option(help="Columns to look at, with commas between; all numeric ones by default.")
    ] = None,
    time: Time = None,
    memory: Memory = DEFAULT_MEMORY,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say how strongly the rows of a record depend on their neighbours, column by column.

    Example: multireplay diagnose data.csv --columns load,temperature --time when
    """
    check_outputs(force, [data], report=report)
    from multireplay.cli.data_file import DataFile
    from multireplay.diagnose import diagnose
    from multireplay.tables import as_times, chained

    record = DataFile.open(data, memory)
    if time is not None:
        if time not in record.names:
            record.refuse(time)
        times = as_times(record.table([time]).column(time), time)
        said = chained(np.ones(record.source.rows, dtype=bool), None, times).sentences
        for sentence in said:
            note(sentence)
    chosen, left_out = choose_columns(record, columns, without=[time])
    buffer = record.numbers(chosen)
    found = diagnose(buffer)
    if report is not None:
        from multireplay.report import report_of_diagnosis

        title = f"How dependent the rows of {data.name} are"
        note(f"Report: {report_of_diagnosis(report, found, buffer, title=title, command=ctx.obj)}")
    if as_json:
        print_json({"file": data, **found.to_dict(), "left_out": left_out})
        return
    if left_out:
        note(f"Left out, because they are not numbers: {', '.join(left_out)}.")
    say(str(found))


def choose_columns(file: DataFile, wanted: str | None, without: Sequence[str | None]) -> tuple[list[str], list[str]]:
    """The columns that are asked for, or all numeric ones, and those that are left out because they are not numbers."""
    if wanted is None:
        chosen = [name for name in file.source.fields if name not in without]
        if not chosen:
            raise InputError(f"{file.path} has no other columns of numbers; it has {', '.join(file.names)}")
        return chosen, [name for name in file.source.refused if name not in without]
    chosen = names_in(wanted)
    return chosen, []
