"""The engine over batches: steps of many lanes at once, in operations on whole arrays of any library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import array_api_compat as compat
import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.foreign import (
    Array,
    as_numpy,
    block_bytes,
    like,
    namespace,
    near,
    numpy_type,
    row_bytes,
    rows_at_once,
)
from multireplay.buffer.record import MemoryRecord
from multireplay.engine.epoch import EpochRun
from multireplay.engine.stepper import Preconditioner, ReducedStepper, StepFailure, Stepper, Told, Way
from multireplay.problems.over_batches import OverBatches, part_of
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.sets import Set
from multireplay.sets.base import Projection

if TYPE_CHECKING:
    from multireplay.engine.epoch import Job

WATCHED = 64
"""Divergence is looked for once in so many steps: to look is to wait for the device."""
SCATTERED = 2**23
"""Positions of lanes that do not lie side by side that are held in memory at a time."""


class SideBySide:
    """Lanes that read consecutive rows at every step, the last of them being ``leads[t]`` (1-based)."""

    def __init__(self, leads: list[int], behind: int = 0, count: int = 1) -> None:
        self.leads, self.behind, self.count = leads, behind, count

    def batch(self, samples: Any, t: int) -> Any:
        """The rows of step t (from 0), one for each lane."""
        stop = self.leads[t] - self.behind
        return part_of(samples, slice(stop - self.count, stop))

    def positions(self, t: int) -> Positions:
        """The 1-based positions of step t, by lane."""
        stop = self.leads[t] - self.behind
        return np.arange(stop - self.count + 1, stop + 1, dtype=np.int64)


class Scattered:
    """Lanes that read any rows: `table` has the 1-based positions, one row a step and one column a lane."""

    def __init__(self, table: Positions) -> None:
        self.table, self.count = table, table.shape[1]
        self._rows: Array | None = None

    def batch(self, samples: Any, t: int) -> Any:
        """The rows of step t (from 0), one for each lane."""
        if self._rows is None:  # once for all steps, to where the samples lie
            self._rows = near(self.table - 1, samples[0])
        rows, take = self._rows[t, :], namespace(samples[0]).take
        return type(samples)(*(take(field, rows, axis=0) if hasattr(field, "shape") else field for field in samples))

    def positions(self, t: int) -> Positions:
        """The 1-based positions of step t, by lane."""
        return np.asarray(self.table[t])


Group: TypeAlias = SideBySide | Scattered


def groups(planned: PlannedEpoch, size: int) -> Iterator[Group]:
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


class Walk(NamedTuple):
    """Steps that a group of lanes is to take from one start."""

    samples: Any
    group: Group
    start: Vector
    steps: Vector
    weights: Vector
    limit: float


class Ended(NamedTuple):
    """Where the lanes are after so many steps."""

    X: Array
    """Their iterates, of shape (lanes, dim)."""
    total: Vector
    """The weighted sum of all their iterates, over steps and lanes."""
    taken: int
    residuals: Array | None
    """Those of the step that went beyond the limit and was not taken, if one did."""


class BatchedStepper(Stepper):
    """Takes the steps of many lanes at once; with a single lane it is a stepper like the others."""

    name = "batched"

    def __init__(self, problem: OverBatches, constraint: Set, dim: int) -> None:
        self.problem = problem
        self.constraint = constraint
        self.x = np.zeros(dim)
        self.total = np.zeros(dim)
        self._projection: Projection | None = None

    def fresh(self) -> Stepper:
        return BatchedStepper(self.problem, self.constraint, len(self.x))

    def reduced(self, preconditioner: Preconditioner) -> ReducedStepper:
        return ReducedBatchedStepper(preconditioner, self.problem, self.constraint, len(self.x))

    def way(self, planned: PlannedEpoch, job: Job) -> Way:
        """The record is in memory, and the chains of an epoch are side by side in any case."""
        return "alone"

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        ended = self.walk(Walk(samples, SideBySide(positions.tolist()), self.x, steps, weights, limit))
        self.x[:] = as_numpy(ended.X)[0]
        self.total += ended.total
        return ended.taken

    def walk(self, walk: Walk) -> Ended:
        """All steps of these lanes, or those before the first one that goes beyond the limit.

        The residuals are looked at many steps at a time. Should one be beyond the limit, the same steps are taken once
        more, with a look at each, to stop before it.
        """
        with np.errstate(all="ignore"):
            ended = self._walk(walk, watched=WATCHED)
            return ended if ended.residuals is None else self._walk(walk, watched=1)

    def _walk(self, walk: Walk, watched: int) -> Ended:
        samples, group, start, steps, weights, limit = walk
        xp, project = self.problem.xp, self._prepare(samples[0])
        first = like(start, samples[0])
        X = first + xp.zeros((group.count, len(start)), dtype=first.dtype, device=compat.device(first))
        each = xp.ones_like(X[:, 0])
        total = xp.zeros(len(start), dtype=xp.float64, device=compat.device(first))
        kept: list[Array] = []
        patience = 0
        for t, (step, weight) in enumerate(zip(steps.tolist(), weights.tolist(), strict=True)):
            try:
                batch = group.batch(samples, t)
                residuals = self.problem.residuals(X, batch)
                kept.append(residuals)
                patience = patience or min(watched, max(1, block_bytes(X) // (group.count * row_bytes(residuals))))
                if len(kept) == patience:
                    if not self._within(limit, kept):
                        return Ended(X, as_numpy(total), t, residuals)
                    kept.clear()
                X -= self.move(step, X, residuals, batch)
                X = project(X)
                if weight > 0:
                    total += weight * xp.astype(each @ X, xp.float64, copy=False)
            except Exception as error:
                raise StepFailure(t) from error
        if kept and not self._within(limit, kept):
            return Ended(X, as_numpy(total), len(steps), kept[-1])
        return Ended(X, as_numpy(total), len(steps), None)

    def move(self, step: float, X: Array, residuals: Array, batch: Any) -> Array:
        """What is subtracted from the iterates."""
        move, pull = self.problem.spread(step * residuals, batch), self.problem.pull(X)
        return move if pull is None else move + step * pull

    def _prepare(self, array: Array) -> Projection:
        """The projection of points like this array."""
        if self._projection is None:
            self._projection = self.constraint.rowwise(len(self.x), array)
        return self._projection

    def _within(self, limit: float, kept: list[Array]) -> bool:
        xp = self.problem.xp
        return float(xp.max(xp.abs(kept[0] if len(kept) == 1 else xp.concat(kept)))) <= limit

    def all_chains(self, planned: PlannedEpoch, job: Job, told: Told) -> Epoch | None:
        """All chains of an epoch from x0, as many side by side as fit, and the mean of what they end with."""
        run, samples = job.epoch(planned), cast(MemoryRecord, job.record).samples
        sizes = run.sizes_from(0, planned.length)
        size = rows_at_once(run.dim * numpy_type(samples[0]).itemsize, samples[0])
        lasts, totals, lanes, taken, stopped = np.zeros(run.dim), np.zeros(run.dim), 0, 0, False
        for group in groups(planned, size):
            ended = self._walk_of(run, Walk(samples, group, run.x0, *sizes, run.limit))
            taken += ended.taken * group.count
            told(ended.taken * group.count)
            if ended.residuals is not None:
                stopped = True
                break
            lanes += group.count
            xp = namespace(ended.X)
            lasts += as_numpy(xp.sum(ended.X, axis=0, dtype=xp.float64))
            totals += ended.total
        weight = run.averaging.weight(planned.length, planned.length)
        last, average = (lasts / lanes, totals / lanes / weight) if lanes else (run.x0, run.x0)
        return run.ended(last, average, taken, stopped)

    def _walk_of(self, run: EpochRun, walk: Walk) -> Ended:
        """The steps of these lanes; what goes wrong in the user's function is named, of all lanes or of one."""

        def where(t: int, positions: Positions) -> str:
            first, last = int(positions.min()), int(positions.max())
            samples = run.name(first) if first == last else f"samples {first} to {last} (counting from 1)"
            return f"epoch {run.planned.k}, step {t + 1}, {samples}"

        try:
            ended = self.walk(walk)
        except StepFailure as failure:
            raise failure.explained(where(failure.taken, walk.group.positions(failure.taken))) from failure.__cause__
        if ended.residuals is not None and run.problem.users_code:
            sizes = np.abs(as_numpy(ended.residuals).reshape(walk.group.count, -1)).max(axis=1)
            lane = int(np.argmax(~(sizes <= run.limit)))
            position = walk.group.positions(ended.taken)[lane : lane + 1]
            self.x[:] = as_numpy(ended.X)[lane]
            run.blame_operator(walk.samples, int(position[0]), where(ended.taken, position))
        return ended


class ReducedBatchedStepper(ReducedStepper, BatchedStepper):
    """Variance reduction in lanes: every lane steps along F̃(x, ξ) − F̃(x̃, ξ) + F̂(x̃)."""

    _around: tuple[Array, Array] | None = None

    def _prepare(self, array: Array) -> Projection:
        self._around = (like(self.anchor, array), like(self.mean, array)) if len(self.anchor) else None
        return super()._prepare(array)

    def move(self, step: float, X: Array, residuals: Array, batch: Any) -> Array:
        if self._around is None:
            return super().move(step, X, residuals, batch)
        anchor, mean = self._around
        anchors = self.problem.xp.broadcast_to(anchor, X.shape)
        if self.problem.users_code:  # which may write into one array at every call
            residuals = self.problem.xp.asarray(residuals, copy=True)
        difference = residuals - self.problem.residuals(anchors, batch)
        return super().move(step, X - anchor, difference, batch) + step * mean  # a ridge pulls in proportion
