"""Options that several commands share, and what --json and --report print."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from multireplay.errors import InputError
from multireplay.show.text import CONTROL

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

Data = Annotated[
    Path,
    typer.Argument(
        help="The record: a .csv, .parquet, .npz or .npy file, or a folder of Parquet or .npy files. "
        "The order of its rows is their order in time."
    ),
]

Time = Annotated[
    str | None, typer.Option(help="A column that must not decrease: it is checked, not sorted by, and is no feature.")
]

Memory = Annotated[str, typer.Option(help="How much memory the record may take, such as '8 GB'.")]
DEFAULT_MEMORY = "2 GB"

Level = Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of the intervals.")]

ModelKind = StrEnum("ModelKind", ["linear", "logistic", "poisson"])

NUMBERS = re.compile(r"\[\n\s*((?:[-+\d.eE]+|null)(?:,\s+(?:[-+\d.eE]+|null))*)\s+\]")
"""A list of numbers over several lines; a text has no line breaks in JSON."""


def _writable(path: Path | None) -> Path | None:
    """Say before the work begins, not after it, that a report cannot be written."""
    if path is None:
        return None
    from multireplay.report.page import as_file

    try:
        return as_file(path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None


Report = Annotated[
    Path | None,
    typer.Option(
        help="Write an HTML report to this file: one page with tables and interactive plots, no network needed.",
        callback=_writable,
    ),
]


def print_json(value: Any) -> None:
    """One JSON object on standard output; numbers that JSON has no name for are null."""
    print(json_text(value))


def json_text(value: Any) -> str:
    """JSON that a person can read, with lists of numbers on one line each."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)
    text = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)


def plain(value: Any) -> Any:
    """The value with plain Python numbers, text, lists and dictionaries only."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
