"""A column of words from a text or Parquet table: the classes of a classification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.disk.files import visible
from multireplay.buffer.disk.opening import PARQUET
from multireplay.errors import InputError


def read_words(path: Path, name: str) -> NDArray[Any]:
    """The words, of which none may be missing."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix == ".csv":
        empty_is_missing = csv.ConvertOptions(include_columns=[name], null_values=[""], strings_can_be_null=True)
        column = csv.read_csv(path, convert_options=empty_is_missing).column(name)
    else:
        files = [file for file in visible(path) if file.suffix in PARQUET] if path.is_dir() else [path]
        parts = [parquet.read_table(file, columns=[name]).column(name) for file in files]
        column = pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{path}: column {name!r} holds {column.type}, which are neither words nor numbers")
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(
            f"{path} has nothing in column {name!r} at row {row} (counting from 0); fill or drop such rows"
        )
    return np.asarray(column.to_pylist())
