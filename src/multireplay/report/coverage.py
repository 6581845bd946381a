"""Which samples a run reads: how often each stretch of the record, and how far apart in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.buffer.record import spread_rows
from multireplay.replay import PlannedEpoch, Replay, Serial
from multireplay.result import Result
from multireplay.solving.run import Run

BINS = 240
MOST_DOTS = 128
THINNED = 64
LOOKED_AT = 2**16


@dataclass(frozen=True, eq=False)
class Scale:
    """One row of the picture: an epoch, or the first steps of a single pass.

    Attributes
    ----------
    name : str
        What it is.
    steps : int
        Samples read, each as often as it is read.
    share : ndarray
        By stretch of the record, how often its samples are read on average.
    dots : ndarray or None
        Every position read, where there are few.
    distance : float
        Median distance in time between consecutive samples, of the first 65536.
    thinned : tuple of ndarray
        64 steps of it, evenly spaced and counted from 1, and the positions they read.
    """

    name: str
    steps: int
    share: NDArray[np.float64]
    dots: Positions | None
    distance: float
    thinned: tuple[Positions, Positions]


@dataclass(frozen=True, eq=False)
class Coverage:
    """What a scheme reads of a record of `length` samples: its scales, and the order of its first steps."""

    length: int
    edges: NDArray[np.int64]
    scales: tuple[Scale, ...]
    doubling: bool
    """Whether the scales are the first 1, 2, 4, … steps of one pass, and not epochs."""

    @property
    def middles(self) -> NDArray[np.float64]:
        """The middle of each stretch."""
        return (self.edges[:-1] + self.edges[1:] + 1) / 2


def plan_of(run: Run, result: Result) -> tuple[PlannedEpoch, ...] | None:
    """The epochs that the run read, before any rounds; None for an exact fit, and where they were lost in pickling."""
    if run.route == "corrections":
        return corrections_plan(run.rows, result.epochs[0].taken, len(result.epochs) - 1)
    return run.replay.plan(run.rows) if isinstance(run.replay, Replay) else None


def corrections_plan(length: int, taken: int, corrections: int) -> tuple[PlannedEpoch, ...]:
    """What Newton corrections read: the samples of the coarse epoch, then the record in order for every correction.

    Examples
    --------
    >>> [epoch.positions.tolist() for epoch in corrections_plan(length=6, taken=2, corrections=1)]
    [[2, 6], [1, 2, 3, 4, 5, 6]]
    """

    def coarse(first: int, count: int) -> Positions:
        return spread_rows(length, taken)[first : first + count] + 1

    k = taken.bit_length() - 1
    (whole,) = Serial().plan(length)
    passes = (replace(whole, k=k + i) for i in range(1, corrections + 1))
    return (PlannedEpoch(k, length / taken, taken, coarse), *passes)


def coverage(plan: tuple[PlannedEpoch, ...], length: int) -> Coverage:
    """Go through the plan once, block by block.

    Examples
    --------
    >>> import multireplay as mr
    >>> for scale in coverage(mr.Multiscale().plan(8), 8).scales:
    ...     print(scale.name, scale.dots, scale.distance)
    epoch 1 [4 8] 4.0
    epoch 2 [2 4 6 8] 2.0
    epoch 3 [1 2 3 4 5 6 7 8] 1.0
    >>> for scale in coverage(mr.Dyadic().plan(4), 4).scales:
    ...     print(scale.name, scale.dots, scale.distance)
    first 2 steps [4 2] 2.0
    all 4 steps [4 2 1 3] 2.0
    """
    edges = np.unique(np.linspace(0, length, min(BINS, length) + 1).astype(np.int64))
    doubling = len(plan) == 1
    scales = _prefixes(plan[0], edges) if doubling else (_whole(epoch, edges) for epoch in plan)
    return Coverage(length, edges, tuple(scales), doubling)


class _Count:
    """Counts reads by stretch, and keeps the first positions."""

    def __init__(self, edges: NDArray[np.int64], steps: int) -> None:
        self.edges = edges
        self.wanted = np.unique(np.linspace(0, steps - 1, THINNED).round().astype(np.int64))
        self.found: list[Positions] = []
        self.reads = np.zeros(len(edges) - 1, dtype=np.int64)
        self.steps = 0
        self.kept: list[Positions] = []
        self.kept_count = 0

    def add(self, positions: Positions) -> None:
        self.reads += np.bincount(np.searchsorted(self.edges, positions) - 1, minlength=len(self.reads))
        first, last = np.searchsorted(self.wanted, [self.steps, self.steps + len(positions)])
        self.found.append(positions[self.wanted[first:last] - self.steps])
        self.steps += len(positions)
        if self.kept_count < LOOKED_AT:
            part = positions[: LOOKED_AT - self.kept_count]
            self.kept.append(part.copy())
            self.kept_count += len(part)

    def scale(self, name: str) -> Scale:
        kept = np.concatenate(self.kept)
        distance = float(np.median(np.abs(np.diff(kept)))) if len(kept) > 1 else 0.0
        dots = kept if self.steps <= MOST_DOTS else None
        found = np.concatenate(self.found)
        thinned = (self.wanted[: len(found)] + 1, found)
        return Scale(name, self.steps, self.reads / np.diff(self.edges), dots, distance, thinned)


def _whole(epoch: PlannedEpoch, edges: NDArray[np.int64]) -> Scale:
    count = _Count(edges, epoch.steps)
    for block in epoch.blocks():
        count.add(block)
    return count.scale(f"epoch {epoch.k}")


def _prefixes(epoch: PlannedEpoch, edges: NDArray[np.int64]) -> Iterator[Scale]:
    count = _Count(edges, epoch.steps)
    mark = 2
    for block in epoch.blocks():
        while len(block):
            part, block = block[: mark - count.steps], block[mark - count.steps :]
            count.add(part)
            if count.steps == mark or count.steps == epoch.steps:
                yield count.scale(f"{'first' if count.steps < epoch.steps else 'all'} {count.steps:,} steps")
                mark *= 2
