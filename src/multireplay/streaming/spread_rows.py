"""Rows that a stream keeps, in bounded memory: one out of every stretch, and those that tell most of a coordinate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.problems import Problem

CAPACITY = 4096
"""Spread rows that are kept at most; at least half as many of a longer stream."""
HEAVY = 1024
"""Heavy rows that are kept at least, of those there are, and half of what there is room for."""
SHARE = 1 / 256
"""A row is heavy that tells so much of all that is known of a coordinate, …"""
HEAVIEST = 1 / 32
"""… and too heavy to tell of a change if it tells so much."""


@dataclass(frozen=True)
class Stretches:
    """Kept rows of consecutive stretches of a stream, where each of these ends, and for how many rows one stands."""

    columns: Columns
    ends: Positions
    weights: Vector

    def each(self) -> Iterator[tuple[int, slice, float]]:
        """The number of every stretch of which rows are kept, where they are, and what one of them stands for."""
        for number, (start, stop) in enumerate(itertools.pairwise(self.ends.tolist())):
            if stop > start:
                yield number, slice(start, stop), float(self.weights[number])

    def weighing(self, weights: Vector) -> Stretches:
        """Rows that stand for so many times more, stretch by stretch."""
        return replace(self, weights=self.weights * weights)


class KeptRows:
    """Some rows of a stream with their numbers, in order."""

    def __init__(self, example: Columns, most: int) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            name: np.zeros((most, *column.shape[1:]), dtype=column.dtype) for name, column in example.items()
        }
        self.numbers: Positions = np.zeros(most, dtype=np.int64)
        self.length = self.level = 0

    def _put(self, block: Columns, first: int, chosen: Positions) -> None:
        """Write the rows of a block with these numbers at the end; its first row has the number `first`."""
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
        return self.taken(slice(*np.searchsorted(self.numbers[: self.length], [first, last])))

    def taken(self, which: Any) -> Columns:
        """The rows at these places."""
        return {name: column[which] for name, column in self.columns.items()}

    def _keep(self, which: Any) -> None:
        kept = np.flatnonzero(which)
        for column in (*self.columns.values(), self.numbers):
            column[: len(kept)] = column[kept]
        self.length = len(kept)

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        rows = {f"column.{name}": column[: self.length].copy() for name, column in self.columns.items()}
        return {**rows, "numbers": self.numbers[: self.length].copy(), "level": self.level}

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Go on from a `state`."""
        self.length, self.level = len(state["numbers"]), int(state["level"])
        for name, column in self.columns.items():
            column[: self.length] = state[f"column.{name}"]
        self.numbers[: self.length] = state["numbers"]
        return self


class SpreadRows(KeptRows):
    """All rows while there is room, then one out of every 2, 4, 8, … in a row.

    Which one of a stretch is kept is a coin thrown by its number, always in the same way: rows at a fixed distance may
    be in step with a period of the stream.
    """

    def __init__(self, example: Columns) -> None:
        super().__init__(example, CAPACITY)

    def add(self, block: Columns, first: int, count: int) -> None:
        """Take in those rows of a block that are kept; its first row has the number `first`."""
        chosen = self._chosen(first, count)
        while self.length + len(chosen) > CAPACITY:
            self.level += 1
            self._keep(np.isin(self.numbers[: self.length], self._chosen(0, first)))
            chosen = self._chosen(first, count)
        self._put(block, first, chosen)

    def _chosen(self, first: int, count: int) -> Positions:
        """The numbers from `first` to before `first + count` that are kept at this level."""
        number = np.arange(first >> self.level, ((first + count - 1) >> self.level) + 1, dtype=np.int64)
        for level in range(self.level, 0, -1):
            mixed = (number.astype(np.uint64) + np.uint64(level << 40)) * np.uint64(0x9E3779B97F4A7C15)
            number = 2 * number + ((mixed >> np.uint64(37)) & np.uint64(1)).astype(np.int64)
        return number[(number >= first) & (number < first + count)]


class HeavyRows(KeptRows):
    """The rows that tell most of a coordinate: those of a rare category, of a column that was 0 until now, far out.

    Their share of what is known of a coordinate is sa²/Σsa², with a the feature and s the slope of the response. What
    linearization leaves out is large in such rows, because their own coordinate is not yet known when they come, and
    spread rows hold hardly one of them. They stand for themselves; spread rows for all others.
    """

    def __init__(self, example: Columns, problem: Problem) -> None:
        features = example.get("features")
        flat = isinstance(features, np.ndarray) and features.ndim == 2 and not problem.is_linear
        super().__init__(example, 2 * HEAVY if flat else 0)
        self.problem = problem

    def add(self, block: Columns, first: int, shares: Vector, point: Vector, known: Vector) -> None:
        """Take in the heavy rows of a block, whose `shares` these are; `known` is Σsa² by coordinate, of all rows."""
        chosen = first + np.flatnonzero(shares > SHARE)
        if self.length + len(chosen) > len(self.numbers):
            shares = self._shares(self.between(0, first), point, known)
            self._keep(shares >= max(np.partition(shares, -HEAVY)[-HEAVY], np.nextafter(0, 1)))
            if self.length > HEAVY:  # many are equal: the newest
                self._keep(np.arange(self.length) >= self.length - HEAVY)
        self._put(block, first, chosen)

    def shares(self, block: Columns, point: Vector, known: Vector) -> Vector:
        """The largest share of every row in what is known of a coordinate; 0 where no rows are kept."""
        if not len(self.numbers):
            return np.zeros(row_count(block))
        return self._shares(block, point, known)

    def _shares(self, rows: Columns, point: Vector, known: Vector) -> Vector:
        """A slope counts as the mean one at least: far off, all may be 0."""
        slopes, features = self.problem.slopes(point, rows), rows["features"]
        less = known.reshape(-1, features.shape[1]).min(axis=0)
        heavy = 1.0 if slopes is None else np.maximum(slopes, slopes.mean())
        scale = 1 / np.where(less > 0, less, np.inf)
        return np.asarray((np.square(features) * scale).max(axis=1) * heavy)


def kept_between(spread: SpreadRows, heavy: HeavyRows, ends: Positions, rows: Vector) -> list[Stretches]:
    """What is kept of the stretches between the row numbers in `ends`, which have so many rows."""
    own = np.searchsorted(heavy.numbers[: heavy.length], ends)
    start, stop = np.searchsorted(spread.numbers[: spread.length], ends[[0, -1]])
    numbers, which = spread.numbers[start:stop], slice(start, stop)
    if own[-1] > own[0]:
        others = ~np.isin(numbers, heavy.numbers[own[0] : own[-1]], assume_unique=True)
        numbers, which = numbers[others], start + np.flatnonzero(others)
    places = np.searchsorted(numbers, ends)
    stands_for = (rows - np.diff(own)) / np.maximum(np.diff(places), 1)
    both = (
        Stretches(heavy.taken(slice(own[0], own[-1])), own - own[0], np.ones(len(rows))),
        Stretches(spread.taken(which), places, stands_for),
    )
    return [kept for kept in both if kept.ends[-1]]
