"""The open block: rows that have come in and are not yet added up, in the same memory however they came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.columns import Columns
from multireplay.errors import InputError

LARGEST = 256
"""Rows of the largest block: those that are not added up until it is full."""


SQUARES = 1e200
"""The sum of the squares of a row that needs a second look."""


class OpenBlock:
    """Rows of one block, column by column, in memory of its own.

    What is added up is always this memory, from its beginning, so that sums do not depend on how rows came in: one by
    one and in batches they have the same bits.
    """

    def __init__(self, example: Columns) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            name: np.zeros((LARGEST, *column.shape[1:]), dtype=_type_of(column)) for name, column in example.items()
        }
        self.filled = 0
        self._vectors = [(name, column, column.shape[1:]) for name, column in self.columns.items() if column.ndim == 2]
        self._numbers = [(name, column) for name, column in self.columns.items() if column.ndim == 1]
        self._span = {name: [math.inf, -math.inf] for name, _ in self._numbers}
        self.trusts = all(column.dtype == np.float64 for column in self.columns.values())
        """Whether a row may be taken in by `quick`."""

    def quick(self, row: Mapping[str, Any]) -> bool:
        """Take in a row whose numbers need no second look; False, and nothing is changed, where they may.

        Its vectors are arrays of the right length, every number is finite, and single numbers are between some that the
        problem has accepted before.
        """
        at = self.filled
        if len(row) != len(self.columns):
            return False
        try:
            for name, column, shape in self._vectors:
                value = row[name]
                if type(value) is not np.ndarray or value.shape != shape:
                    return False
                column[at] = value
                if not value.dot(value) < SQUARES:
                    return False
            for name, column in self._numbers:
                number = row[name]
                low, high = self._span[name]
                if not low <= number <= high:
                    return False
                column[at] = number
        except (TypeError, ValueError, KeyError):
            return False
        self.filled = at + 1
        return True

    def trust(self, columns: Columns) -> None:
        """Remember between which numbers the problem has accepted these rows."""
        for name, _ in self._numbers:
            span, column = self._span[name], columns[name]
            span[:] = min(span[0], float(column.min())), max(span[1], float(column.max()))

    def check(self, columns: Columns) -> None:
        """Raise unless rows have the columns and widths of the first ones."""
        if columns.keys() != self.columns.keys():
            had, has = (", ".join(sorted(part)) for part in (self.columns, columns))
            raise InputError(f"the rows so far came with {had}, and these come with {has}; give all or none")
        for name, column in columns.items():
            before = self.columns[name].shape[1:]
            if column.shape[1:] != before:
                raise InputError(f"{name} had shape {before} a row so far, and has now {column.shape[1:]}")

    def put(self, columns: Columns, start: int, count: int) -> None:
        """Write `count` rows from row `start` on at the end."""
        for name, column in self.columns.items():
            column[self.filled : self.filled + count] = columns[name][start : start + count]
        self.filled += count

    def rows(self, count: int) -> Columns:
        """The first `count` rows, as views."""
        return {name: column[:count] for name, column in self.columns.items()}

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        spans = np.array([self._span[name] for name, _ in self._numbers]).reshape(-1, 2)
        rows = {f"column.{name}": column[: self.filled].copy() for name, column in self.columns.items()}
        return {**rows, "spans": spans}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> OpenBlock:
        """The block that gave a `state`."""
        rows = {name.removeprefix("column."): state[name] for name in state if name.startswith("column.")}
        found = cls(rows)
        found.put(rows, 0, len(next(iter(rows.values()))))
        for (name, _), span in zip(found._numbers, state["spans"], strict=True):
            found._span[name] = span.tolist()
        return found


def _type_of(column: NDArray[Any]) -> type:
    """Numbers in float64, states and classes as they are counted, marks as they are."""
    return np.bool_ if column.dtype == np.bool_ else np.int64 if column.dtype.kind in "iu" else np.float64
