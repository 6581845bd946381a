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
        help="The record: a .csv, .parquet, .npz or .npy file, or a folder of Parquet or .npy files. "
        "The order of its rows is their order in time.",
        show_default=False,
    ),
]

Time = Annotated[
    str | None,
    typer.Option(
        help="A column that must not decrease: it is checked, not sorted by, and is no feature.", show_default=False
    ),
]

Memory = Annotated[str, typer.Option(help="How much memory the record may take, such as '8 GB'.")]
DEFAULT_MEMORY = "2 GB"


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
