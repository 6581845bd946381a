"""Carrying out a plan: the epochs that share a reading of the record, then the rest, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.buffer.record import Record
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.batched_lanes import run_lanes
from multireplay.engine.batched_phases import run_from_disk
from multireplay.engine.checkpoint import Checkpoint
from multireplay.engine.kinds import is_batched_from_disk
from multireplay.engine.passes import fit_together, run_passes
from multireplay.engine.run import EpochRun
from multireplay.engine.short import ShortChains
from multireplay.engine.steppers import Stepper
from multireplay.problems import Problem
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch
from multireplay.steps import Schedule
from multireplay.tracking import Track

SMALL_BLOCK = 2**9


class Job(NamedTuple):
    """Everything that the epochs of a plan have in common."""

    problem: Problem
    record: Record
    stepper: Stepper
    schedule: Schedule
    averaging: Averaging
    x0: Vector
    limit: float
    track: Track | None = None
    advanced: Callable[[int], object] = lambda steps: None
    threads: int = 1
    checkpoint: Checkpoint | None = None
    make: Callable[[], Stepper] | None = None
    """Another stepper of the same kind."""

    def apart(self) -> Job:
        """The same with a stepper of its own."""
        assert self.make is not None
        return self._replace(stepper=self.make())

    def epoch(self, planned: PlannedEpoch) -> EpochRun:
        """The run of one chain of an epoch."""
        how = self.schedule, self.averaging, self.x0, self.limit, self.track
        return EpochRun(self.problem, self.stepper, planned, *how)


def run(plan: tuple[PlannedEpoch, ...], jobs: Sequence[Job]) -> list[tuple[Epoch, ...]]:
    """Run every epoch of the plan from x0, for jobs that differ in their step sizes alone and go through it together.

    ``job.advanced`` is told the number of steps after every block. Jobs that memory has no room for together are run
    one after the other.
    """
    if not fit_together(plan, jobs):
        return [run(plan, [job])[0] for job in jobs]
    found = run_passes(plan, jobs)
    for index, planned in enumerate(plan):
        if index not in found:
            found[index] = run_epoch(planned, jobs) if planned.chains == 1 else run_chains(planned, jobs)
    return [tuple(found[index][number] for index in range(len(plan))) for number in range(len(jobs))]


def run_epoch(planned: PlannedEpoch, jobs: Sequence[Job]) -> list[Epoch]:
    """One chain, block by block; several jobs take turns with a block that is small enough to stay in the cache."""
    epochs = [job.epoch(planned) for job in jobs]
    going = set(range(len(jobs)))
    for samples, positions, shown in jobs[0].record.chunks(planned.blocks(BLOCK if len(jobs) == 1 else SMALL_BLOCK)):
        for number in sorted(going):
            if not epochs[number].feed(samples, positions, shown):
                going.discard(number)
            jobs[number].advanced(len(positions))
        if not going:
            break
    return [epoch.finish() for epoch in epochs]


def run_chains(planned: PlannedEpoch, jobs: Sequence[Job]) -> list[Epoch]:
    """The chains of an epoch one after the other, for each job."""
    return [_run_chains(planned, job) for job in jobs]


def _run_chains(planned: PlannedEpoch, job: Job) -> Epoch:
    """The chains of an epoch one after the other, and the mean of what they end with."""
    if isinstance(job.stepper, BatchedStepper) and not job.record.on_disk:
        return run_lanes(planned, job)
    if is_batched_from_disk(planned, job):
        return run_from_disk(planned, job)
    room = min(BLOCK, job.record.at_once())
    whole = planned.length <= room
    chains = ShortChains(planned, job, whole)
    blocks = planned.blocks(room // planned.length * planned.length if whole else room)
    for samples, positions, shown in job.record.chunks(blocks):
        chains.advance(samples, positions, shown)
        if chains.stopped:
            break
    return chains.finish()
