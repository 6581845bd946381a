"""CSV, for small things: read as a whole."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from multireplay.buffer.disk.files import Stamp
from multireplay.buffer.disk.sizes import in_words
from multireplay.buffer.disk.source import Field, Rows
from multireplay.buffer.disk.table import Batch, TableSource, field_of, is_date
from multireplay.errors import InputError


class CsvSource(TableSource):
    """A CSV file with a row of names on top."""

    def __init__(self, path: Path, memory: int) -> None:
        self.label = str(path)
        size = Stamp.of(path).size
        if size > memory // 4:  # a number of one digit takes two bytes as text and eight in memory
            raise _too_large(path, size, memory)
        try:
            self._table = pa.csv.read_csv(path, pa.csv.ReadOptions(use_threads=False))  # so that errors know the row
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read as CSV: {error}") from None
        names = self._table.column_names
        if all(map(_is_number, names)):
            raise InputError(f"{path} needs the names of its columns in the first line, which is {','.join(names)}")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{path} has two columns called {twice!r}")
        if self._table.nbytes > memory // 2:
            raise _too_large(path, size, memory)
        self.rows = self._table.num_rows
        if self.rows == 0:
            raise InputError(f"{path} is empty: it has no rows below the names")
        schema = self._table.schema
        fields = {column.name: field_of(column.type) for column in schema}
        self.fields = {name: field for name, field in fields.items() if field is not None}
        self.times = {column.name: Field(np.dtype(np.int64), None) for column in schema if is_date(column.type)}
        self.refused = {
            name: _refusal(path, name, self._table.column(name)) for name in names if name not in self.fields
        }
        if not self.fields:
            raise InputError(next(iter(self.refused.values())))

    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        start = 0
        for data in self._table.select(list(names)).to_batches(max_chunksize=size):
            if start + data.num_rows > first:
                yield Batch(self.label, start, start, data)
            start += data.num_rows

    def batches_of(self, names: Sequence[str], rows: Rows, size: int) -> Generator[Batch, None, None]:
        return self.batches(names, 0, size)

    def place(self, name: str, row: int) -> tuple[str, int]:
        return self.label, row

    def overhead(self, names: Sequence[str]) -> int:
        return 0

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        return sum(self.field(name).row_bytes for name in names), "it is in memory"


def _too_large(path: Path, size: int, memory: int) -> InputError:
    return InputError(
        f"{path} has {in_words(size)} of text; CSV is read as a whole, which does not fit memory={in_words(memory)!r}. "
        "Give more memory, or write it as Parquet once (pyarrow.csv.open_csv reads it in batches, "
        "pyarrow.parquet.ParquetWriter writes them)"
    )


def _refusal(path: Path, name: str, column: Any) -> str:
    """Why a column is not numbers: the first cell that is not one."""
    for row, value in enumerate(column):
        text = value.as_py()
        if text is not None and not _is_number(str(text)):
            return f"column {name!r} of {path} holds {text!r} at row {row} (counting from 0), which is not a number"
    return f"column {name!r} of {path} holds {column.type}, which is not real numbers"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
