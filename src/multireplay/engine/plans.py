"""Carrying out a plan: the epochs that share a reading of the record, then the rest, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay.averaging import Averaging
from multireplay.checkpoint import Checkpoint
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.batched_lanes import run_lanes
from multireplay.engine.lazy import SparseStepper
from multireplay.engine.passes import fit_together, run_passes
from multireplay.engine.run import EpochRun, finished
from multireplay.engine.short import ShortChains
from multireplay.engine.steppers import CompiledStepper, StepFailure, Stepper, explain_failure
from multireplay.problems import Problem
from multireplay.record import Record
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch
from multireplay.steps import Schedule
from multireplay.tracking import Recorder, Track

Vector = NDArray[np.float64]
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
    """The chains of an epoch, short ones many at a time where that is compiled, and the mean of what they end with."""
    if isinstance(job.stepper, BatchedStepper):
        return run_lanes(planned, job)
    room = min(BLOCK, job.record.at_once())
    if type(job.stepper) not in (CompiledStepper, SparseStepper) or planned.length > room:
        return _one_by_one(planned, job)
    chains = ShortChains(planned, job)
    for samples, positions, shown in job.record.chunks(planned.blocks(room // planned.length * planned.length)):
        try:
            chains.advance(samples, positions)
        except StepFailure as failure:
            chains.first.taken = chains.taken % planned.length
            raise explain_failure(failure, chains.first.where(0, shown[failure.taken :])) from failure.__cause__
        if chains.stopped:
            break
    return chains.epoch()


def _one_by_one(planned: PlannedEpoch, job: Job) -> Epoch:
    recorder = None if job.track is None else Recorder(job.track, planned.length, job.x0)
    lasts, averages, taken, stopped = [], [], 0, False
    for chain in range(planned.chains):
        epoch = job.epoch(planned)
        firsts = range(0, planned.length, BLOCK)
        blocks = (planned.block(chain * planned.length + first, min(BLOCK, planned.length - first)) for first in firsts)
        for samples, positions, shown in job.record.chunks(blocks):
            if not epoch.feed(samples, positions, shown):
                stopped = True
                break
            job.advanced(len(positions))
        taken += epoch.taken
        if stopped:
            break
        lasts.append(epoch.stepper.x.copy())
        averages.append(epoch.average)
    if not lasts:
        lasts, averages = [job.x0], [job.x0]
    last, average = np.mean(lasts, axis=0), np.mean(averages, axis=0)
    return finished(planned, epoch.first_step, job.averaging, job.x0, last, average, taken, stopped, recorder)
