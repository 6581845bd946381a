"""Epochs that read forwards take turns with every block of a record on disk: with any engine and any step sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from multireplay.engine.batched import BatchedStepper
from multireplay.engine.batched_phases import BatchedPhases
from multireplay.engine.compiled_phases import CompiledPhases
from multireplay.engine.kinds import MEMORY, size_of_iterates, takes_turns
from multireplay.engine.one_chain import OneChain
from multireplay.engine.phases import Phases
from multireplay.engine.reading import ReadingOfRuns
from multireplay.engine.steppers import CompiledStepper
from multireplay.replay import PlannedEpoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


def served(plan: tuple[PlannedEpoch, ...], job: Job) -> list[int]:
    """Which epochs: those that a compiled pass does not serve, of one chain that reads forwards or of several."""
    return [index for share in shares(plan, job) for index in share]


def shares(plan: tuple[PlannedEpoch, ...], job: Job) -> list[list[int]]:
    """The same by readings: those that memory has room for together, all but always all of them."""
    room = max(2 * MEMORY, (job.record.budget or 0) // 2)
    found: list[list[int]] = []
    kept = 0
    for index, planned in enumerate(plan):
        if takes_turns(planned, job):
            size = size_of_iterates(planned, job)
            if not found or kept + size > room:
                found.append([])
                kept = 0
            found[-1].append(index)
            kept += size
    return found


class Turns(ReadingOfRuns[OneChain | Phases]):
    """These epochs under way, each with a stepper of its own."""

    def __init__(self, plan: tuple[PlannedEpoch, ...], chosen: Sequence[int], jobs: Sequence[Job]) -> None:
        self.record, self.jobs = jobs[0].record, jobs
        self.size = self.record.length
        copies = 1 if jobs[0].checkpoint is None else 3  # besides, those that were noted, and those to be noted next
        self.aside = copies * len(jobs) * sum(size_of_iterates(plan[index], jobs[0]) for index in chosen)
        self.runs = {index: [_begin(plan[index], job.apart()) for job in jobs] for index in chosen}

    def run(self, first: int, note: Callable[[int], object]) -> None:
        for job, *runs in zip(self.jobs, *self.runs.values(), strict=True):
            job.advanced(sum(run.taken for run in runs))
        with closing(self.record.windows(first, cached=True, aside=self.aside)) as windows:
            for samples, base, last in windows:
                for runs in self.runs.values():
                    for job, run in zip(self.jobs, runs, strict=True):
                        before = run.taken
                        run.feed(samples, base, last)
                        job.advanced(max(0, run.taken - before))  # those of chains after one that diverged do not count
                note(last)


def _begin(planned: PlannedEpoch, job: Job) -> OneChain | Phases:
    if planned.chains == 1:
        return OneChain(planned, job)
    kinds = {CompiledStepper: CompiledPhases, BatchedStepper: BatchedPhases}
    return kinds.get(type(job.stepper), Phases)(planned, job)
