"""A record in a file, as the commands read it: numbers by name, features side by side, classes, time order."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.files import visible
from multireplay.buffer.disk.memory import bytes_of, in_words
from multireplay.buffer.disk.opening import PARQUET, find_source
from multireplay.buffer.disk.source import Source
from multireplay.errors import InputError

BLOCK = 2**16
"""Rows handed out at a time from a record that is in memory."""


@dataclass(frozen=True, eq=False)
class DataFile:
    """A file with columns. A column with several numbers a row gives features ``name[0]``, ``name[1]``, …"""

    path: Path
    source: Source
    memory: str

    @classmethod
    def open(cls, path: Path, memory: str) -> DataFile:
        """Look at what the file holds; the rows are read later."""
        return cls(path, find_source(path, bytes_of(memory)), memory)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, numbers or not."""
        return (*self.source.fields, *self.source.refused)

    @cached_property
    def features(self) -> dict[str, tuple[str, int | None]]:
        """Every number of a row by name: the column it is in, and which one there."""
        found: dict[str, tuple[str, int | None]] = {}
        for name, members in self._members.items():
            single = self.source.fields[name].width is None
            found |= {feature: (name, None if single else place) for place, feature in enumerate(members)}
        return found

    @cached_property
    def _members(self) -> dict[str, list[str]]:
        """The features of every column."""
        fields = self.source.fields.items()
        return {
            name: [name] if field.width is None else [f"{name}[{place}]" for place in range(field.width)]
            for name, field in fields
        }

    def expand(self, name: str) -> list[str]:
        """The features that a name stands for: a feature, or all of a column."""
        if name in self.features:
            return [name]
        return self._members.get(name) or [self._refuse(name)]

    def _refuse(self, name: str) -> str:
        if name in self.source.refused:
            raise InputError(self.source.refused[name])
        close = difflib.get_close_matches(name, self.features, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        there, more = ", ".join(self.names[:20]), len(self.names) - 20
        rest = f" and {more} more" if more > 0 else ""
        raise InputError(f"{self.path} has no column {name!r}; {guess}it has {there}{rest}")

    def check_order(self, time: str) -> None:
        """Raise if the column goes back anywhere: then the rows are not in time order."""
        if time not in (*self.source.fields, *self.source.times):
            self._refuse(time)
        Buffer.open(self.path, {"any": next(iter(self.source.fields))}, self.memory, time)

    def numbers(self, names: Sequence[str]) -> Buffer:
        """Columns under their own names."""
        return self._in_memory(Buffer.open(self.path, {name: name for name in names}, self.memory))

    def matrix(self, features: Sequence[str]) -> NDArray[Any]:
        """Features side by side; a record that is too large for that is refused."""
        opened, pick = self._open(features)
        return self._in_memory(opened)["features"][:, pick]

    def blocks(self, features: Sequence[str]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Features side by side, in blocks of rows with the number of the first; a large record stays on disk."""
        opened, pick = self._open(features)
        if isinstance(opened, StoredBuffer):
            for first, block in opened.blocks():
                yield first, block["features"][:, pick]
        else:
            for first in range(0, len(opened), BLOCK):
                yield first, opened["features"][first : first + BLOCK][:, pick]

    def _open(self, features: Sequence[str]) -> tuple[Buffer | StoredBuffer, list[int] | slice]:
        """The columns that these features are in, and which of them side by side they are."""
        known = self.features
        for name in features:
            if name not in known:
                self._refuse(name)
        columns = list(dict.fromkeys(known[name][0] for name in features))
        side_by_side = [feature for column in columns for feature in self.expand(column)]
        place_of = {feature: place for place, feature in enumerate(side_by_side)}
        places = [place_of[name] for name in features]
        pick = slice(None) if places == list(range(len(side_by_side))) else places  # a view, where that will do
        return Buffer.open(self.path, {"features": columns}, self.memory), pick

    def classes(self, name: str) -> NDArray[Any]:
        """A column of classes: words, booleans or numbers, whole ones as integers."""
        if name not in self.source.fields:
            if name not in self.source.refused:
                self._refuse(name)
            return read_words(self.path, name)
        values = self.numbers([name])[name]
        if values.ndim != 1:
            raise InputError(f"{self.path}: column {name!r} has several numbers a row, which cannot be a class")
        if values.dtype == np.bool_ or (values != np.round(values)).any():
            return values
        return values.astype(np.int64)

    def _in_memory(self, buffer: Buffer | StoredBuffer) -> Buffer:
        if isinstance(buffer, Buffer):
            return buffer
        raise InputError(
            f"{self.path}: these columns take {in_words(buffer.nbytes)}, more than half of {self.memory}; "
            "choose fewer columns, or give more memory with --memory"
        )


def read_words(path: Path, name: str) -> NDArray[Any]:
    """A column of words from a text or Parquet table, the classes of a classification; none may be missing."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    if path.suffix == ".csv":
        empty_is_missing = csv.ConvertOptions(include_columns=[name], null_values=[""], strings_can_be_null=True)
        column = csv.read_csv(path, convert_options=empty_is_missing).column(name)
    else:
        files = [file for file in visible(path) if file.suffix in PARQUET] if path.is_dir() else [path]
        column = pa.concat_tables(parquet.read_table(file, columns=[name]) for file in files).column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{path}: column {name!r} holds {column.type}, which are neither words nor numbers")
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(
            f"{path} has nothing in column {name!r} at row {row} (counting from 0); fill or drop such rows"
        )
    return np.asarray(column.to_pylist())
