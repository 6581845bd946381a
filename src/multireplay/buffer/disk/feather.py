"""Feather, which is Arrow's own file: read as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import feather

from multireplay.buffer.disk.csv import WholeTable
from multireplay.buffer.disk.files import Stamp, named
from multireplay.buffer.disk.memory import in_words
from multireplay.errors import InputError


class FeatherSource(WholeTable):
    """A Feather file."""

    def __init__(self, path: Path, memory: int) -> None:
        self.label = str(path)
        self._stamp = Stamp.of(path)
        with named(f"{path} cannot be read as Feather", pa.ArrowException, OSError):
            self._table = feather.read_table(path)
        if self._table.nbytes > memory // 2:
            size = in_words(self._table.nbytes)
            raise InputError(f"{path} takes {size}, more than half of memory={in_words(memory)!r}; write it as Parquet")
        self.sort_out(path, self._table.schema)
        self.rows = self._table.num_rows
        if self.rows == 0:
            raise InputError(f"{path} is empty: it has no rows")
