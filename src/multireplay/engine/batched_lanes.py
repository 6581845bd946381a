"""The chains of an epoch as lanes: a step takes one row for each of them, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.foreign import Array, as_numpy, namespace, near, numpy_type, rows_at_once
from multireplay.buffer.record import MemoryRecord
from multireplay.engine.batched import BatchedStepper, Ended, SideBySide
from multireplay.engine.run import EpochRun, finished
from multireplay.engine.steppers import StepFailure, explain_failure
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.tracking import Recorder

if TYPE_CHECKING:
    from multireplay.engine.plans import Job

SCATTERED = 2**23
"""Positions of lanes that do not lie side by side that are held in memory at a time."""


class Scattered:
    """Lanes that read any rows: `table` has the 1-based positions, one row a step and one column a lane.

    `shown` are the positions that errors name.
    """

    def __init__(self, table: Positions, shown: Positions | None = None) -> None:
        self.table, self.named = table, table if shown is None else shown
        self.count = table.shape[1]
        self._rows: Array | None = None

    def batch(self, samples: Any, t: int) -> Any:
        if self._rows is None:  # once for all steps, to where the samples lie
            self._rows = near(self.table - 1, samples[0])
        rows, take = self._rows[t, :], namespace(samples[0]).take
        return type(samples)(*(take(field, rows, axis=0) if hasattr(field, "shape") else field for field in samples))

    def positions(self, t: int) -> Positions:
        """The 1-based positions of step t, by lane."""
        return np.asarray(self.table[t])

    def shown(self, t: int) -> Positions:
        """The same in the whole record."""
        return np.asarray(self.named[t])


def groups(planned: PlannedEpoch, size: int) -> Iterator[SideBySide | Scattered]:
    """The chains of an epoch in groups of at most `size` lanes.

    Where these are all the offsets of a gap, chain j is j positions behind the first one at every step: the rows of a
    step are consecutive, and are read as a slice.
    """
    length, chains = planned.length, planned.chains
    if planned.side_by_side is not None and chains == planned.side_by_side // length:
        leads = planned.block(0, length).tolist()
        for first in range(0, chains, size):
            yield SideBySide(leads, behind=first, count=min(size, chains - first))
        return
    size = max(1, min(size, SCATTERED // length))
    for first in range(0, chains, size):
        count = min(size, chains - first)
        yield Scattered(np.ascontiguousarray(planned.block(first * length, count * length).reshape(count, length).T))


def run_lanes(planned: PlannedEpoch, job: Job) -> Epoch:
    """All chains of an epoch from x0, as many side by side as fit, and the mean of what they end with."""
    run = job.epoch(planned)
    recorder = None if job.track is None else Recorder(job.track, planned.length, job.x0)
    steps, weights = run.sizes_from(0, planned.length)
    samples = cast(MemoryRecord, job.record).samples
    column = samples[0]
    size = rows_at_once(len(job.x0) * numpy_type(column).itemsize, column)
    lasts, totals, lanes, taken, stopped = np.zeros(len(job.x0)), np.zeros(len(job.x0)), 0, 0, False
    for group in groups(planned, size):
        ended = walk(run, samples, group, job.x0, steps, weights)
        taken += ended.taken * group.count
        job.advanced(ended.taken * group.count)
        if ended.residuals is not None:
            stopped = True
            break
        lanes += group.count
        lasts += sum_of_lanes(ended.X)
        totals += ended.total
    weight = job.averaging.weight(planned.length, planned.length)
    last, average = (lasts / lanes, totals / lanes / weight) if lanes else (job.x0, job.x0)
    return finished(planned, run.first_step, job.averaging, job.x0, last, average, taken, stopped, recorder)


def walk(
    run: EpochRun, samples: Any, group: SideBySide | Scattered, start: Vector, steps: Vector, weights: Vector
) -> Ended:
    """The steps of these lanes; what goes wrong in the user's function is named."""
    try:
        ended = cast(BatchedStepper, run.stepper).walk(samples, group, start, steps, weights, run.limit)
    except StepFailure as failure:
        raise explain_failure(failure, _where(run, failure.taken, group)) from failure.__cause__
    if ended.residuals is not None and run.problem.users_code:
        _blame_operator(run, samples, ended, group)
    return ended


def sum_of_lanes(X: Array) -> Any:
    """The sum over the lanes, in float64."""
    xp = namespace(X)
    return as_numpy(xp.sum(X, axis=0, dtype=xp.float64))


def _where(run: EpochRun, t: int, group: SideBySide | Scattered) -> str:
    """The place of a step of many lanes, for a person."""
    positions = group.shown(t)
    first, last = int(positions.min()), int(positions.max())
    samples = run.name(first) if first == last else f"samples {first} to {last} (counting from 1)"
    return f"epoch {run.planned.k}, step {run.taken + t + 1}, {samples}"


def _blame_operator(run: EpochRun, samples: Any, ended: Ended, group: SideBySide | Scattered) -> None:
    """Raise if the user's function is not finite in a lane whose iterate is; otherwise the run itself diverged."""
    sizes = np.abs(as_numpy(ended.residuals).reshape(group.count, -1)).max(axis=1)
    lane = int(np.argmax(~(sizes <= run.limit)))
    position, shown = (int(found(ended.taken)[lane]) for found in (group.positions, group.shown))
    run.stepper.x[:] = as_numpy(ended.X)[lane]
    where = f"epoch {run.planned.k}, step {run.taken + ended.taken + 1}, {run.name(shown)}"
    run.blame_operator(samples, position, where)
