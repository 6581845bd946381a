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
    """One row of the picture: an epoch, or the first steps of a single pass."""

    name: str
    steps: int
    share: NDArray[np.float64]
    """By stretch of the record, how often its samples are read on average."""
    dots: Positions | None
    """Every position read, where there are few."""
    distance: float
    """Median distance in time between consecutive samples, of the first `LOOKED_AT`."""
    thinned: tuple[Positions, Positions]
    """64 steps of it, evenly spaced and counted from 1, and the positions they read."""


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
    """What Newton corrections read: the samples of the coarse epoch, then the record in order for every correction."""

    def coarse(first: int, count: int) -> Positions:
        return spread_rows(length, taken)[first : first + count] + 1

    k = taken.bit_length() - 1
    (whole,) = Serial().plan(length)
    passes = (replace(whole, k=k + i) for i in range(1, corrections + 1))
    return (PlannedEpoch(k, length / taken, taken, coarse), *passes)


def coverage(plan: tuple[PlannedEpoch, ...], length: int) -> Coverage:
    """Go through the plan once, block by block."""
    edges = np.unique(np.linspace(0, length, min(BINS, length) + 1).astype(np.int64))
    doubling = len(plan) == 1
    scales = [scale for epoch in plan for scale in _scales(epoch, edges, doubling)]
    return Coverage(length, edges, tuple(scales), doubling)


def _scales(epoch: PlannedEpoch, edges: NDArray[np.int64], doubling: bool) -> Iterator[Scale]:
    """What has been read after 2, 4, 8, … steps of the epoch if `doubling`, and after all of them."""
    names = {2**k: f"first {2**k:,} steps" for k in range(1, (epoch.steps - 1).bit_length()) if doubling}
    names[epoch.steps] = f"all {epoch.steps:,} steps" if doubling else f"epoch {epoch.k}"
    wanted = np.unique(np.linspace(0, epoch.steps - 1, THINNED).round().astype(np.int64))
    reads = np.zeros(len(edges) - 1, dtype=np.int64)
    first = found = np.empty(0, dtype=np.int64)
    steps = 0
    for block in epoch.blocks():
        for part in np.split(block, [at - steps for at in names if steps < at < steps + len(block)]):
            reads += np.bincount(np.searchsorted(edges, part) - 1, minlength=len(reads))
            low, high = np.searchsorted(wanted, [steps, steps + len(part)])
            found = np.append(found, part[wanted[low:high] - steps])
            first = np.append(first, part[: LOOKED_AT - len(first)])
            steps += len(part)
            if steps in names:
                dots = first if steps <= MOST_DOTS else None
                distance = float(np.median(np.abs(np.diff(first)))) if len(first) > 1 else 0.0
                thinned = (wanted[: len(found)] + 1, found)
                yield Scale(names[steps], steps, reads / np.diff(edges), dots, distance, thinned)
