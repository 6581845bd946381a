"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multireplay.errors import InputError

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


def _writable(path: Path | None) -> Path | None:
    """Say before the work begins, not after it, that a report cannot be written."""
    from multireplay.report.page import as_file

    try:
        return None if path is None else as_file(path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


Report = Annotated[
    Path | None,
    typer.Option(
        help="Write an HTML report to this file: one page with tables and interactive plots, no network needed.",
        callback=_writable,
        show_default=False,
    ),
]


class SizeName(StrEnum):
    """How large the experiments are."""

    full = "full"
    small = "small"
