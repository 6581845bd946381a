"""Rows spread over all that a stream has seen: one out of every stretch, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.buffer.columns import Columns

CAPACITY = 4096
"""Rows that are kept at most; at least half as many of a longer stream."""


class SpreadRows:
    """All rows while there is room, then one out of every 2, 4, 8, … in a row.

    Which one of a stretch is kept is a coin thrown by its number, always in the same way: rows at a fixed distance may
    be in step with a period of the stream.
    """

    def __init__(self, example: Columns) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            name: np.zeros((CAPACITY, *column.shape[1:]), dtype=column.dtype) for name, column in example.items()
        }
        self.numbers: Positions = np.zeros(CAPACITY, dtype=np.int64)
        self.length = self.level = 0

    def add(self, block: Columns, first: int, count: int) -> None:
        """Take in those rows of a block that are kept; its first row has the number `first`."""
        chosen = self._chosen(first, count)
        while self.length + len(chosen) > CAPACITY:
            self.level += 1
            self._keep(np.isin(self.numbers[: self.length], self._chosen(0, first)))
            chosen = self._chosen(first, count)
        end = self.length + len(chosen)
        for name, column in self.columns.items():
            column[self.length : end] = block[name][chosen - first]
        self.numbers[self.length : end] = chosen
        self.length = end

    def drop_before(self, number: int) -> None:
        """Drop the rows with smaller numbers."""
        if self.length and self.numbers[0] < number:
            self._keep(self.numbers[: self.length] >= number)

    def between(self, first: int, last: int) -> Columns:
        """Rows with numbers from `first` to before `last`."""
        start, stop = np.searchsorted(self.numbers[: self.length], [first, last])
        return {name: column[start:stop] for name, column in self.columns.items()}

    def _keep(self, which: Any) -> None:
        kept = np.flatnonzero(which)
        for column in (*self.columns.values(), self.numbers):
            column[: len(kept)] = column[kept]
        self.length = len(kept)

    def _chosen(self, first: int, count: int) -> Positions:
        """The numbers from `first` to before `first + count` that are kept at this level."""
        number = np.arange(first >> self.level, ((first + count - 1) >> self.level) + 1, dtype=np.int64)
        for level in range(self.level, 0, -1):
            mixed = (number.astype(np.uint64) + np.uint64(level << 40)) * np.uint64(0x9E3779B97F4A7C15)
            number = 2 * number + ((mixed >> np.uint64(37)) & np.uint64(1)).astype(np.int64)
        return number[(number >= first) & (number < first + count)]

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        rows = {f"column.{name}": column[: self.length].copy() for name, column in self.columns.items()}
        return {**rows, "numbers": self.numbers[: self.length].copy(), "level": self.level}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SpreadRows:
        """The rows that gave a `state`."""
        rows = {name.removeprefix("column."): state[name] for name in state if name.startswith("column.")}
        found = cls(rows)
        found.length, found.level = len(state["numbers"]), int(state["level"])
        for column, kept in zip(found.columns.values(), rows.values(), strict=True):
            column[: found.length] = kept
        found.numbers[: found.length] = state["numbers"]
        return found
