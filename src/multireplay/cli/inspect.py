"""multireplay inspect"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from multireplay.cli.app import BAD_INPUT, app
from multireplay.cli.options import (
    DEFAULT_MEMORY,
    Decimal,
    Encoding,
    Json,
    Memory,
    Na,
    Separator,
    as_data,
    dialect,
    print_json,
)  # fmt: skip
from multireplay.show.text import TextTable, say, terminal


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(parser=as_data, help="A model, a record, or the store of a stream.")],
    everything: Annotated[bool, typer.Option("--all", help="All coefficients or columns, however many.")] = False,
    memory: Memory = DEFAULT_MEMORY,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    na: Na = None,
    as_json: Json = False,
) -> None:
    """Say what a file is: of a model how it was fitted and what it has found, of a record what its columns hold.

    A model tells its target, what it predicts from, how it was fitted, and its coefficients with intervals. A record
    tells of every column whether it holds numbers, categories or dates, and in how many rows there is nothing.
    The store of a stream is read whole and compared with its checksums; where something is wrong the exit code is 3.

    Example: multireplay inspect model.json
    """
    from multireplay.cli.inspecting import LookedAtData, LookedAtModel, LookedAtStore, is_model, is_store

    found: LookedAtModel | LookedAtData | LookedAtStore
    if is_store(file):
        found = LookedAtStore.of(file)
    elif is_model(file):
        found = LookedAtModel.of(file)
    else:
        found = LookedAtData.of(file, memory, dialect(separator, encoding, decimal, na))
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found.shown(everything))
    if isinstance(found, LookedAtStore) and found.store.wrong:
        raise typer.Exit(BAD_INPUT)


def _print(parts: Iterable[str | TextTable]) -> None:
    """Sentences and tables one after the other; no name in them is markup, or an order to the terminal."""
    for part in parts:
        if isinstance(part, str):
            say(part)
        else:
            terminal().print(part)
