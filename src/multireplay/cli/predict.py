"""multireplay predict"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multireplay.cli.app import INTERRUPTED, app
from multireplay.cli.model import Model
from multireplay.cli.options import DEFAULT_MEMORY, Data, Json, Memory
from multireplay.cli.record import Record
from multireplay.cli.speak import complain, note, print_json
from multireplay.errors import InputError

LONG = 2**20
"""Rows from which a progress bar is shown."""


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A file that 'multireplay fit --out' has written.", show_default=False)],
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the predictions, .csv or .parquet; otherwise they are printed.", show_default=False
        ),
    ] = None,
    memory: Memory = DEFAULT_MEMORY,
    as_json: Json = False,
) -> None:
    """Predict the target for every row of a file, by a model that was fitted before.

    The columns are found by their names. The predictions come in the order of the rows: the column 'prediction', and
    for classes the probability of each.

    Example: multireplay predict model.json new.csv --out predictions.csv
    """
    learnt = Model.load(model)
    record = Record.open(data, memory)
    missing = [name for name in learnt.features if name not in record.features]
    if missing:
        raise InputError(f"{data} has no numbers in {', '.join(map(repr, missing))}, which the model {model} needs")
    if out is None:
        _print(learnt, record, as_json)
        return
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written to a file that ends in .csv or .parquet")
    rows = 0
    try:
        with _writer(out) as write, _bar(record.rows) as advance:
            for first, block in record.blocks(learnt.features):
                write(learnt.predict(block))
                rows = first + len(block)
                advance(len(block))
    except KeyboardInterrupt:
        complain(f"Interrupted. {out} has the predictions of the first {rows} rows of {record.rows}.")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"rows": rows, "file": out})
    else:
        note(f"{rows} predictions of {learnt.target!r} are in {out}.")


def _print(learnt: Model, record: Record, as_json: bool) -> None:
    """Predictions on standard output: one JSON object, or CSV that can be piped."""
    blocks = (learnt.predict(block) for _, block in record.blocks(learnt.features))
    if as_json:
        found = list(blocks)
        print_json({"rows": record.rows} | {name: np.concatenate([part[name] for part in found]) for name in found[0]})
        return
    from pyarrow import csv

    header = True
    for block in blocks:
        text = _as_bytes(block, csv.WriteOptions(include_header=header))
        typer.echo(text, nl=False)
        header = False


def _as_bytes(block: dict[str, Any], options: Any) -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table(block), sink, options)
    return bytes(sink.getvalue().to_pybytes())


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Writes block after block; what was written before an error or an interruption is a complete file."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    opened: list[Any] = []

    def write(block: dict[str, Any]) -> None:
        table = pa.table(block)
        if not opened:
            opened.append(kind(path, table.schema))
        opened[0].write_table(table)

    try:
        yield write
    finally:
        for writer in opened:
            writer.close()


def _bar(rows: int) -> Any:
    from multireplay.progress import step_bar

    return step_bar(rows, "predicting", "rows") if rows >= LONG else nullcontext(lambda count: None)
