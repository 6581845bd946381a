"""What every kind of file gives: columns of numbers by name, read in order or picked by row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.names import Names


@dataclass(frozen=True)
class Field:
    """The numbers of one column: their type, and how many a row has (None: one, as a one-dimensional column)."""

    dtype: np.dtype[Any]
    width: int | None

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * (1 if self.width is None else self.width)

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.width is None else (rows, self.width)


class Reader(ABC):
    """Reads columns in order, from the row it was made for."""

    @abstractmethod
    def read(self, targets: Mapping[str, Array]) -> None:
        """Fill the targets, all of one length, with the next rows; a target may be strided or of a wider type."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""


class Source(ABC):
    """The columns of a file or folder. Holds no open files: those belong to its readers."""

    label: str
    """The path as the user gave it, for messages."""
    rows: int
    fields: dict[str, Field]
    """Columns of numbers."""
    times: dict[str, Field]
    """Columns of dates, which can say the order of the rows but are no samples; read as 64-bit integers."""
    refused: dict[str, str]
    """Columns that are not numbers, and why not: those of dates are among them."""
    in_tables: ClassVar[bool] = False
    """Whether it is an Arrow table, whose `batches` hold whatever is in it."""
    where: Any = None
    """What it can be opened from again, also by another process: a path, here or elsewhere; None if it cannot."""
    feature_names: Mapping[str, Names] = MappingProxyType({})
    """Names of the features of columns that have several, where they were saved."""

    @abstractmethod
    def reader(self, names: Sequence[str], first: int) -> Reader:
        """A reader of these columns that starts at row `first`."""

    @abstractmethod
    def take(self, targets: Mapping[str, Array], rows: Positions) -> None:
        """Fill the targets with these rows, which are ascending and distinct."""

    def verify(self, names: Sequence[str], rows: Positions) -> None:  # noqa: B027  # most files have no checksums
        """Raise where what is stored around these rows, ascending, is not what was saved; nothing is checked twice."""

    def place(self, name: str, row: int) -> tuple[str, int]:
        """The file that holds this row of the column, and the row's number in that file."""
        return self.label, row

    def at(self, row: int) -> str:
        """A row in words, with the file that it is in if there are several."""
        return f"row {row}"

    def overhead(self, names: Sequence[str]) -> int:
        """Bytes that reading takes beyond what it fills."""
        return 0

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        """Bytes that must be read to get at one row alone, and a clause that says why."""
        return self.row_bytes(names), "it is in memory"

    @abstractmethod
    def identity(self, names: Sequence[str]) -> list[object]:
        """What tells the stored columns from others, in what JSON can say, without reading them or naming a path.

        Their checksums where there are any, otherwise size, time of writing and a hash of both ends of every file.
        """

    def field(self, name: str) -> Field:
        return self.fields[name] if name in self.fields else self.times[name]

    def row_bytes(self, names: Iterable[str]) -> int:
        """Bytes of a row of these columns."""
        return sum(self.field(name).row_bytes for name in names)
