"""A record in a file: its columns, checked as they are read, with errors that name the file, the column and the row."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from multireplay.cli.files import read_table
from multireplay.errors import InputError

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Record:
    """A table, with the name of its file for the errors."""

    path: Path
    table: Any

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read the whole file."""
        record = cls(path, read_table(path))
        if not record.rows:
            raise InputError(f"{path} has no rows")
        return record

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def column(self, name: str) -> Any:
        """The column as it is stored."""
        count = self.names.count(name)
        if count == 1:
            return self.table.column(name)
        if count:
            raise InputError(f"{self.path} has {count} columns named {name!r}; rename them")
        close = difflib.get_close_matches(name, self.names, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"{self.path} has no column {name!r}; {guess}it has {', '.join(self.names)}")

    def is_numeric(self, name: str) -> bool:
        """Whether the column holds real numbers or booleans."""
        return _is_numeric(self.column(name).type)

    def numbers(self, name: str) -> Vector:
        """A column of finite numbers."""
        values = self.column(name)
        if not _is_numeric(values.type):
            self._refuse_text(name, values)
        found: Vector = np.asarray(pc.cast(values, pa.float64()).to_numpy(), dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            row = int(bad[0])
            held = values[row].as_py()
            what = "has no number" if held is None else f"is {held}"
            more = f" and in {len(bad) - 1} more" if len(bad) > 1 else ""
            raise InputError(
                f"{self.path}: column {name!r} {what} in row {row + 1}{more}; every value must be a finite number"
            )
        return found

    def matrix(self, names: Sequence[str]) -> Vector:
        """Columns of finite numbers side by side."""
        return np.column_stack([self.numbers(name) for name in names])

    def labels(self, name: str) -> NDArray[Any]:
        """A column of classes: text, booleans or whole numbers, none of them missing."""
        values = self.column(name)
        if values.null_count:
            row = int(np.flatnonzero(pc.is_null(values).to_numpy())[0])
            raise InputError(f"{self.path}: column {name!r} is empty in row {row + 1}")
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        return np.asarray(values.to_numpy())

    def check_order(self, name: str) -> None:
        """Raise if the column decreases anywhere: then the rows are not in time order."""
        values = self.column(name)
        if values.null_count:
            row = int(np.flatnonzero(pc.is_null(values).to_numpy())[0])
            raise InputError(f"{self.path}: the time column {name!r} is empty in row {row + 1}")
        if _is_numeric(values.type):
            self.numbers(name)  # a NaN would not count as going back
        elif not pa.types.is_temporal(values.type):
            raise InputError(f"{self.path}: the time column {name!r} holds {values.type}, neither numbers nor times")
        plain = values.combine_chunks()
        back = np.flatnonzero(pc.less(plain[1:], plain[:-1]).to_numpy(zero_copy_only=False))
        if len(back):
            row = int(back[0]) + 1
            raise InputError(
                f"{self.path}: the time column {name!r} goes back in row {row + 1}, from {plain[row - 1]} to "
                f"{plain[row]}; rows must be in time order, so sort the file by it first"
            )

    def _refuse_text(self, name: str, values: Any) -> None:
        """Say which value of a column that should hold numbers does not."""
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            for row, value in enumerate(values.to_pylist()):
                if value is None or not _is_number(value):
                    raise InputError(f"{self.path}: column {name!r} holds {value!r} in row {row + 1}, not a number")
        raise InputError(f"{self.path}: column {name!r} holds {values.type}, not numbers")


def _is_numeric(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
