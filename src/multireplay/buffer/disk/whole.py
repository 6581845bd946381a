"""Tables that are read as a whole, for small things: text (CSV and its like) and Feather, which is Arrow's own file."""

from __future__ import annotations

import reprlib
from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import feather

from multireplay.buffer.disk.dialect import Dialect
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.disk.remote import AnyPath
from multireplay.buffer.disk.table import Batch, TableSource
from multireplay.errors import InputError


class WholeTable(TableSource):
    """A table that was read as a whole."""

    _table: Any
    _stamp: Stamp

    def batches(self, names: Sequence[str], first: int, size: int) -> Generator[Batch, None, None]:
        start = 0
        for data in self._table.select(list(names)).to_batches(max_chunksize=size):
            if start + data.num_rows > first:
                yield Batch(self.label, start, start, data)
            start += data.num_rows

    def identity(self, names: Sequence[str]) -> list[object]:
        return self._stamp.identity()


class CsvSource(WholeTable):
    """A text table with a row of names on top."""

    def __init__(self, path: AnyPath, memory: int, dialect: Dialect | None = None) -> None:
        self.label = str(path)
        self._stamp = Stamp.of(path)
        size = self._stamp.size
        if size > memory // 4:  # a number of one digit takes two bytes as text and eight in memory
            raise _too_large(path, size, memory)
        with named(f"{path} cannot be read as CSV", pa.ArrowException, OSError):
            self._table = (dialect or Dialect()).read(path)
        names = self._table.column_names
        if all(map(_is_number, names)):
            raise InputError(f"{path} needs the names of its columns in the first line, which is {','.join(names)}")
        self.sort_out(path, self._table.schema)
        if self._table.nbytes > memory // 2:
            raise _too_large(path, size, memory)
        self.rows = self._table.num_rows
        if self.rows == 0:
            raise InputError(f"{path} is empty: it has no rows below the names")
        for name in self.refused:
            self.refused[name] = _first_text(path, name, self._table.column(name)) or self.refused[name]


class FeatherSource(WholeTable):
    """A Feather file."""

    def __init__(self, path: AnyPath, memory: int) -> None:
        self.label = str(path)
        self._stamp = Stamp.of(path)
        with named(f"{path} cannot be read as Feather", pa.ArrowException, OSError), self._stamp.opened(0) as source:
            self._table = feather.read_table(source)
        if self._table.nbytes > memory // 2:
            size = in_words(self._table.nbytes)
            raise InputError(f"{path} takes {size}, more than half of memory={in_words(memory)!r}; write it as Parquet")
        self.sort_out(path, self._table.schema)
        self.rows = self._table.num_rows
        if self.rows == 0:
            raise InputError(f"{path} is empty: it has no rows")


def _too_large(path: AnyPath, size: int, memory: int) -> InputError:
    return InputError(
        f"{path} has {in_words(size)} of text; CSV is read as a whole, which does not fit memory={in_words(memory)!r}. "
        "Give more memory, or write it as Parquet once (pyarrow.csv.open_csv reads it in batches, "
        "pyarrow.parquet.ParquetWriter writes them)"
    )


def _first_text(path: AnyPath, name: str, column: Any) -> str | None:
    """Why a column is not numbers: the first cell that is not one."""
    for row, value in enumerate(column):
        text = value.as_py()
        if text is not None and not _is_number(str(text)):
            shown = reprlib.repr(text)
            return f"column {name!r} of {path} holds {shown} at row {row} (counting from 0), which is not a number"
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
