"""Sums over equal batches that merge in pairs as a stream grows: always 32 to 64 of them, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.streaming.blocks import LARGEST

MOST = 64
"""So many batches merge in pairs to half as many."""
FIRST = 4
"""Rows of the first batches."""
FORGOTTEN = 10.0
"""EqualBatches that are so many half-lives old are dropped: they weigh less than a thousandth."""
ARRAYS = ("values", "slopes", "rows", "stamps")


SHARE = 1 / 8
"""Where rows are forgotten, changes are looked for in stretches of up to so much of what counts: the answer of few rows
is itself off by as much as longer ones show."""


@dataclass(frozen=True)
class Memory:
    """What a stream remembers: everything, a window, with a half-life, or (`adapts`) what has not changed since."""

    adapts: bool
    window: float = np.inf
    half_life: float = np.inf

    @property
    def ends(self) -> bool:
        """Whether what is old is forgotten whatever comes."""
        return bool(np.isfinite(self.window) or np.isfinite(self.half_life))


class Sums(NamedTuple):
    """Σ F̃(p, ξ) and Σ ∂F̃(p, ξ)/∂x over some rows at the point p of the stream, and how many rows there are."""

    values: Vector
    slopes: Vector
    rows: float


class EqualBatches:
    """Sums of equal consecutive batches, the last of which may still be open.

    EqualBatches begin with 4 rows, and whenever 64 are full they merge in pairs. What is older than a window, or ten
    half-lives, is dropped instead, a batch at a time.

    Parameters
    ----------
    dim : int
        Coordinates of x.
    window, half_life : float
        In the units of stamps, which are row numbers or times; infinite for none.
    """

    def __init__(self, dim: int, window: float = np.inf, half_life: float = np.inf) -> None:
        self.window, self.half_life = window, half_life
        self.values = np.zeros((MOST, dim))
        self.slopes = np.zeros((MOST, dim, dim))
        self.rows = np.zeros(MOST)
        self.stamps = np.zeros(MOST)
        """The stamp of the last row of every batch."""
        self.full, self.size = 0, FIRST
        self.dropped = 0.0
        """Rows that were dropped."""

    @property
    def block(self) -> int:
        """Rows of the next block: it never goes over the end of a batch."""
        return min(self.size, LARGEST)

    @property
    def count(self) -> int:
        """EqualBatches, with the open one."""
        return self.full + (self.full < MOST and self.rows[self.full] > 0)

    def add(self, part: Sums, stamp: float) -> bool:
        """Add a block, whose last row has that stamp, to the open batch; whether batches were merged or dropped."""
        at = self.full
        self.values[at] += part.values
        self.slopes[at] += part.slopes
        self.rows[at] += part.rows
        self.stamps[at] = stamp
        if self.rows[at] < self.size:
            return False
        self.full += 1
        oldest = stamp - min(self.window, FORGOTTEN * self.half_life)
        gone = int(np.searchsorted(self.stamps[: self.full], oldest, side="right"))
        if gone:
            self._drop(gone)
        if self.full < MOST:
            return bool(gone)
        for array in (self.values, self.slopes, self.rows):
            array[: MOST // 2] = array[::2] + array[1::2]
            array[MOST // 2 :] = 0.0
        self.stamps[: MOST // 2] = self.stamps[1::2]
        self.full, self.size = MOST // 2, 2 * self.size
        return True

    def _drop(self, gone: int) -> None:
        self.dropped += float(self.rows[:gone].sum())
        self.full -= gone
        for array in (self.values, self.slopes, self.rows, self.stamps):
            array[: self.full] = array[gone : gone + self.full].copy()
            array[self.full :] = 0.0

    def weights(self, now: float) -> Vector | None:
        """What every batch weighs at that stamp; None where all weigh the same."""
        count = self.count
        if not np.isfinite(self.half_life) or not count:
            return None
        begin = np.concatenate([[2 * self.stamps[0] - self.stamps[min(1, count - 1)]], self.stamps[: count - 1]])
        return np.asarray(0.5 ** ((now - (begin + self.stamps[:count]) / 2) / self.half_life))

    @property
    def diagonal(self) -> Vector:
        """Of the sum of Jacobians over all batches, whatever they weigh."""
        return np.asarray(np.einsum("kii->i", self.slopes[: self.count]))

    def total(self, now: float) -> Sums:
        """The sums over all batches, as old ones weigh at that stamp."""
        return self._sums(slice(0, self.count), self.weights(now))

    def groups(self, most: int, now: float) -> list[Sums]:
        """Sums over up to so many groups of consecutive batches, of about as many rows each."""
        ends, weights = np.cumsum(self.rows[: self.count]), self.weights(now)
        cuts = np.unique([0, *np.searchsorted(ends, ends[-1] * np.arange(1, most) / most), self.count])
        return [self._sums(slice(start, stop), weights) for start, stop in itertools.pairwise(cuts.tolist())]

    def _sums(self, which: slice, weights: Vector | None) -> Sums:
        values, slopes, rows = self.values[which], self.slopes[which], self.rows[which]
        if weights is None:
            return Sums(values.sum(axis=0), slopes.sum(axis=0), rows.sum())
        heavy = weights[which]
        return Sums(heavy @ values, np.tensordot(heavy, slopes, 1), float(heavy @ rows))

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        arrays = {name: getattr(self, name)[: self.count].copy() for name in ARRAYS}
        return {**arrays, "full": self.full, "size": self.size, "dropped": self.dropped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.full, self.size, self.dropped = int(state["full"]), int(state["size"]), float(state["dropped"])
        for name in ARRAYS:
            array = getattr(self, name)
            array[:] = 0.0
            array[: len(state[name])] = state[name]


def part_of(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a flat state holds of one part."""
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
