"""Chains over batches from a record on disk: the lanes that a block has rows for take a step at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.foreign import as_numpy, numpy_type, rows_at_once
from multireplay.engine.batched_lanes import Scattered, sum_of_lanes, walk
from multireplay.engine.kinds import size_of_iterates
from multireplay.engine.phases import Phases
from multireplay.engine.run import EpochRun
from multireplay.replay import PlannedEpoch
from multireplay.replay.multiscale import multiples_of_gap
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


class BatchedPhases(Phases):
    """Several chains under way, of an operator over batches. When one of them diverges, none of them goes on."""

    def __init__(self, planned: PlannedEpoch, job: Job) -> None:
        super().__init__(planned, job)
        self._kept["total"] = np.zeros(len(job.x0))  # over all lanes

    @property
    def taken(self) -> int:
        return int(self._counts.sum())

    def _advance(self, samples: Any, base: int, due: Positions, begin: int, steps: Vector, weights: Vector) -> None:
        """Where a block cuts through a gap, the lanes before the cut are one step ahead of the others."""
        lasts = int(due.max())
        while (first := int(self._counts.min())) < lasts:
            lanes = np.flatnonzero((self._counts == first) & (due > first))
            if not len(lanes):
                break
            count = int(due.min()) - first if len(lanes) == len(due) else 1
            part = slice(first - begin, first - begin + count)
            for group in _groups(slice(lanes[0], lanes[-1] + 1), self.job.x0, samples[0]):
                if not self._walk(samples, base, group, first, steps[part], weights[part]):
                    self._going = 0
                    return

    def _walk(self, samples: Any, base: int, lanes: slice, first: int, steps: Vector, weights: Vector) -> bool:
        ends = multiples_of_gap(self.planned.length, self.length, first, len(steps))
        shown = ends[:, None] - self.offsets[lanes]
        self.run.taken = first
        group = Scattered(shown - base + 1, shown)
        ended = walk(self.run, samples, group, self._kept["x"][lanes], steps, weights)
        self._kept["x"][lanes] = as_numpy(ended.X)
        self._kept["total"] += ended.total
        self._counts[lanes] += ended.taken
        return ended.residuals is None

    def _means(self) -> tuple[Vector, Vector]:
        whole = self.job.averaging.weight(self.planned.length, self.planned.length)
        return self._kept["x"].sum(axis=0) / self._going, self._kept["total"] / self._going / whole


def run_from_disk(planned: PlannedEpoch, job: Job) -> Epoch:
    """An epoch by itself in one reading."""
    phases = BatchedPhases(planned, job)
    with closing(job.record.windows(0, cached=True, aside=size_of_iterates(planned, job))) as windows:
        for samples, base, last in windows:
            before = phases.taken
            phases.feed(samples, base, last)
            job.advanced(phases.taken - before)
    return phases.finish()


def _groups(lanes: slice, x: Vector, column: Any) -> Iterator[slice]:
    """As many of these lanes as are worked on at once."""
    size = rows_at_once(len(x) * numpy_type(column).itemsize, column)
    return (slice(first, min(first + size, lanes.stop)) for first in range(lanes.start, lanes.stop, size))


class BatchedChains:
    """Whole chains of one epoch, many at once; as `OneByOne`."""

    def __init__(self, run: EpochRun) -> None:
        self.run = run
        self.steps, self.weights = run.sizes_from(0, run.planned.length)
        self.lasts, self.totals = np.zeros(len(run.x0)), np.zeros(len(run.x0))
        self.ended = 0

    def advance(self, samples: Any, positions: Positions, shown: Positions) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""
        length, taken = self.run.planned.length, 0
        tables = positions.reshape(-1, length).T, shown.reshape(-1, length).T
        for lanes in _groups(slice(0, tables[0].shape[1]), self.run.x0, samples[0]):
            group = Scattered(*(table[:, lanes] for table in tables))
            ended = walk(self.run, samples, group, self.run.x0, self.steps, self.weights)
            taken += ended.taken * group.count
            if ended.residuals is not None:
                break
            self.lasts += sum_of_lanes(ended.X)
            self.totals += ended.total
            self.ended += group.count
        return taken

    def sums(self) -> tuple[Vector, Vector]:
        """The sums of the last iterates and of the averages of the chains that have come to their end."""
        return self.lasts, self.totals / self.weights.sum()
