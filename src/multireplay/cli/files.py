"""Reading a table from a file, whatever its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, feather, parquet

from multireplay.errors import InputError

TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
KINDS = ".csv or .tsv (also compressed, as in .csv.gz), .parquet or .feather"


def kind_of(path: Path) -> str:
    """The suffix that says the format, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_table(path: Path) -> Any:
    """The whole file as a pyarrow table."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    kind = kind_of(path)
    try:
        if kind in TEXT:
            return _read_text(path, TEXT[kind])
        if kind in (".parquet", ".pq") or path.is_dir():
            return parquet.read_table(path)
        if kind in (".feather", ".arrow"):
            return feather.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    raise InputError(f"{path}: the format of the file is not known from its name; it must end in {KINDS}")


def _read_text(path: Path, delimiter: str) -> Any:
    """A text table. Where the first line holds only numbers there is no header, and the columns are f0, f1, …"""
    parse = csv.ParseOptions(delimiter=delimiter)
    table = csv.read_csv(path, parse_options=parse)
    if table.column_names and all(map(_is_number, table.column_names)):
        return csv.read_csv(path, csv.ReadOptions(autogenerate_column_names=True), parse)
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
