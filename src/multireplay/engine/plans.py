"""Carrying out a plan: one epoch after the other, many chains at once, or all epochs in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay.averaging import Averaging
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.chains import Chains, stream_epochs
from multireplay.engine.lanes import run_lanes
from multireplay.engine.run import EpochRun, finished
from multireplay.engine.steppers import CompiledStepper, StepFailure, Stepper, explain_failure, is_built_in, run_kernel
from multireplay.problems import Problem
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch
from multireplay.steps import Constant, Schedule, Theorem1
from multireplay.tracking import Recorder, Track

Vector = NDArray[np.float64]


class Job(NamedTuple):
    """Everything that the epochs of a plan have in common."""

    problem: Problem
    samples: Any
    stepper: Stepper
    schedule: Schedule
    averaging: Averaging
    x0: Vector
    limit: float
    track: Track | None = None
    advanced: Callable[[int], object] = lambda steps: None

    def epoch(self, planned: PlannedEpoch) -> EpochRun:
        """The run of one chain of an epoch."""
        how = self.schedule, self.averaging, self.x0, self.limit, self.track
        return EpochRun(self.problem, self.stepper, planned, *how)


def run(plan: tuple[PlannedEpoch, ...], job: Job) -> tuple[Epoch, ...]:
    """Run every epoch of the plan from x0. ``job.advanced`` is told the number of steps after every block."""
    if isinstance(job.stepper, CompiledStepper):
        job.stepper.looks_ahead = len(plan) == 1
    if streams(plan, job):
        return run_streaming(plan, job)
    return tuple(run_chains(planned, job) if planned.chains > 1 else run_epoch(planned, job) for planned in plan)


def run_epoch(planned: PlannedEpoch, job: Job) -> Epoch:
    """One chain, block by block."""
    epoch = job.epoch(planned)
    for positions in planned.blocks():
        going = epoch.feed(job.samples, positions)
        job.advanced(len(positions))
        if not going:
            break
    return epoch.finish()


def run_chains(planned: PlannedEpoch, job: Job) -> Epoch:
    """The chains of an epoch, short ones many at a time where that is compiled, and the mean of what they end with."""
    if isinstance(job.stepper, BatchedStepper):
        return run_lanes(planned, job)
    first = job.epoch(planned)
    recorder = None if job.track is None else Recorder(job.track, planned.length, job.x0)
    if type(job.stepper) is not CompiledStepper or planned.length > BLOCK:
        return _one_by_one(planned, job, recorder)
    weights = job.averaging.weights(planned.length, 0, planned.length)
    chains = Chains(job.stepper.spec, job.x0, first.steps(planned.length), weights, job.limit)
    taken = 0
    for positions in planned.blocks(BLOCK // planned.length * planned.length):
        try:
            done = chains.advance(job.samples, positions)
        except StepFailure as failure:
            first.taken = (taken + failure.taken) % planned.length
            raise explain_failure(failure, first.where(0, positions[failure.taken :])) from failure.__cause__
        taken += done
        job.advanced(done)
        if done < len(positions):
            break
    ended = max(1, taken // planned.length)
    last, average = chains.lasts / ended, chains.averages / ended
    stopped = taken < planned.steps
    return finished(planned, first.first_step, job.averaging, job.x0, last, average, taken, stopped, recorder)


def _one_by_one(planned: PlannedEpoch, job: Job, recorder: Recorder | None) -> Epoch:
    lasts, averages, taken, stopped = [], [], 0, False
    for chain in range(planned.chains):
        epoch = job.epoch(planned)
        for first in range(0, planned.length, BLOCK):
            count = min(BLOCK, planned.length - first)
            if not epoch.feed(job.samples, planned.block(chain * planned.length + first, count)):
                stopped = True
                break
            job.advanced(count)
        taken += epoch.taken
        if stopped:
            break
        lasts.append(epoch.stepper.x.copy())
        averages.append(epoch.average)
    if not lasts:
        lasts, averages = [job.x0], [job.x0]
    last, average = np.mean(lasts, axis=0), np.mean(averages, axis=0)
    return finished(planned, epoch.first_step, job.averaging, job.x0, last, average, taken, stopped, recorder)


def streams(plan: tuple[PlannedEpoch, ...], job: Job) -> bool:
    """Whether all epochs can be run in one pass: static multiscale replay, compiled, with one step an epoch."""
    return (
        len(plan) > 1
        and all(planned.scale_of == plan[0].scale_of is not None for planned in plan)
        and type(job.stepper) is CompiledStepper
        and is_built_in(job.samples)
        and isinstance(job.schedule, Constant | Theorem1)
        and not job.averaging.rising
        and (job.track is None or isinstance(job.track.at, str))
    )


def run_streaming(plan: tuple[PlannedEpoch, ...], job: Job) -> tuple[Epoch, ...]:
    """All K epochs in one pass over the record in order: fewer than 2B steps, K iterates in memory."""
    length = plan[0].scale_of
    assert length is not None
    assert isinstance(job.stepper, CompiledStepper)
    dim = len(job.x0)
    runs = [job.epoch(planned) for planned in plan]
    steps = np.array([epoch.first_step for epoch in runs])
    skips = np.array([epoch.skipped for epoch in runs], dtype=np.int64)
    xs, totals = np.tile(job.x0, (len(plan), 1)), np.zeros((len(plan), dim))
    counts = np.zeros(len(plan), dtype=np.int64)
    following = np.array([length >> planned.k for planned in plan], dtype=np.int64)
    scratch = np.zeros(dim), np.zeros(1, dtype=np.int64)
    for first in range(1, length + 1, BLOCK):
        before, last = int(counts.sum()), min(length, first + BLOCK - 1)
        where = job.samples, job.stepper.spec, length, steps, skips, job.limit, first, last
        run_kernel(stream_epochs, *where, xs, totals, counts, following, *scratch)
        job.advanced(int(counts.sum()) - before)
    found = []
    for k, (planned, epoch) in enumerate(zip(plan, runs, strict=True)):
        averaged = int(counts[k]) - epoch.skipped
        average = totals[k] / averaged if averaged > 0 else xs[k].copy()
        taken, stopped = int(counts[k]), bool(counts[k] < planned.length)
        found.append(
            finished(
                planned, epoch.first_step, job.averaging, job.x0, xs[k].copy(), average, taken, stopped, epoch.recorder
            )
        )
    return tuple(found)
