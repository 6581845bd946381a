"""Options that several commands share, and what --json and --report print."""

from __future__ import annotations

import codecs
import csv
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


def as_data(text: str) -> Any:
    """The file or folder that is meant, here or elsewhere."""
    if "://" not in text:
        return Path(text)
    from multireplay.buffer.disk.remote import as_path

    return as_path(text)


Data = Annotated[
    Path,
    typer.Argument(
        parser=as_data,
        help="The record: a .csv (or .tsv, .txt, .gz), .parquet, .feather, .npz or .npy file, or a folder of Parquet "
        "or .npy files; also s3://bucket/folder and its like (gs, abfs, hdfs). "
        "The order of its rows is their order in time.",
    ),
]

Time = Annotated[
    str | None,
    typer.Option(
        help="The column that says when a row was: numbers or dates. It must not go back, is no feature, and a gap in "
        "it or a time that is there twice ends a chain of rows. By default the one column of dates, if there is one."
    ),
]

Group = Annotated[
    str | None, typer.Option(help="The column that tells several series in one file apart; each is a chain of its own.")
]

Separator = Annotated[str | None, typer.Option(help="Between the cells of a text table; found out by default.")]
Encoding = Annotated[str | None, typer.Option(help="Of a text table; UTF-8, UTF-16 or Latin-1 by default.")]
Decimal = Annotated[str | None, typer.Option(help="The decimal sign of a text table; found out by default.")]
Na = Annotated[
    str | None, typer.Option(help="Texts that stand for nothing, with commas between, besides NA, n/a, null, - and ?.")
]


def names_in(text: str, what: str = "column") -> list[str]:
    """The names in a list with commas between; one that has a comma itself is in double quotes."""
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]
    if text and not names:
        raise InputError(f"no {what} is named in an empty list")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{what} {twice[0]!r} is named twice")
    return names


def dialect(separator: str | None, encoding: str | None, decimal: str | None, na: str | None) -> Any:
    """How a text table is read."""
    from multireplay.buffer.disk.dialect import Dialect

    if separator in ("\\t", "tab"):
        separator = "\t"
    for name, sign in (("--separator", separator), ("--decimal", decimal)):
        if sign is not None and len(sign) != 1:
            raise InputError(f"{name} is one character, not {sign!r}")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise InputError(f"--encoding {encoding!r} is not known") from None
    return Dialect(separator, encoding, decimal, tuple(word.strip() for word in (na or "").split(",") if word.strip()))


Memory = Annotated[str, typer.Option(help="How much memory the record may take, such as '8 GB'.")]
DEFAULT_MEMORY = "2 GB"

Level = Annotated[float, typer.Option(min=0.5, max=0.9999, help="Of the intervals.")]

Missing = StrEnum("Missing", ["error", "drop"])
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
