"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

Data = Annotated[
    Path,
    typer.Argument(
        help="The record: a CSV, TSV, Parquet or Feather file. Rows in file order are rows in time order.",
        show_default=False,
    ),
]

Time = Annotated[
    str | None,
    typer.Option(
        help="A column that must not decrease: it is checked, not sorted by, and is no feature.", show_default=False
    ),
]


class SizeName(StrEnum):
    """How large the experiments are."""

    full = "full"
    small = "small"


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas.

    Examples
    --------
    >>> from multireplay.cli.options import names_in
    >>> names_in("a, b,c")
    ('a', 'b', 'c')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())
