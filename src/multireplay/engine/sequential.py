"""One pass over the record in order for all epochs that can be run so: whatever they are, the data are read once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from multireplay.engine import lanes
from multireplay.engine.lanes import Lanes
from multireplay.engine.packs import row_bytes
from multireplay.engine.run import finished
from multireplay.engine.scales import Scales
from multireplay.engine.steppers import CompiledStepper, is_built_in
from multireplay.engine.team import Team
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.steps import Constant, Theorem1

if TYPE_CHECKING:
    from multireplay.engine.plans import Job

Member = tuple[int, int, PlannedEpoch]
"""An epoch of the plan for one of the jobs: its index, the job's, and what is planned."""


def run(plan: tuple[PlannedEpoch, ...], jobs: Sequence[Job]) -> dict[int, list[Epoch]]:
    """The epochs of a plan that one pass in order can serve, by their index in the plan, for each job."""
    single = [index for index, planned in enumerate(plan) if is_scale(planned, jobs[0])]
    side = [index for index, planned in enumerate(plan) if is_side_by_side(planned, jobs[0])]
    if not single and not side:
        return {}
    numbers = range(len(jobs))
    going = Pass(
        [(index, number, plan[index]) for number in numbers for index in single],
        [(index, number, plan[index]) for number in numbers for index in side],
        jobs,
    )
    going.run()
    found = going.epochs()
    return {index: [found[index, number] for number in numbers] for index in (*single, *side)}


def runs_in_order(plan: tuple[PlannedEpoch, ...], job: Job) -> bool:
    """Whether one pass in order serves all epochs of the plan."""
    return all(is_scale(planned, job) or is_side_by_side(planned, job) for planned in plan)


def crowded(plan: tuple[PlannedEpoch, ...], job: Job) -> list[PlannedEpoch]:
    """Epochs of too many chains for the pass in order, where it serves all the others."""
    left = [planned for planned in plan if not (is_scale(planned, job) or is_side_by_side(planned, job))]
    return left if all(is_crowded(planned, job) for planned in left) else []


def is_scale(planned: PlannedEpoch, job: Job) -> bool:
    """Whether this is an epoch of static multiscale replay with one phase, compiled, with one step size."""
    return (
        planned.scale_of is not None
        and type(job.stepper) is CompiledStepper
        and is_built_in(job.record.example)
        and isinstance(job.schedule, Constant | Theorem1)
        and not job.averaging.rising
        and (job.track is None or isinstance(job.track.at, str))
    )


def could_be_side_by_side(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch can be run in one pass if there is room for their iterates: compiled."""
    return (
        planned.side_by_side is not None
        and type(job.stepper) is CompiledStepper
        and isinstance(job.record.example, RegressionSamples | TransitionSamples)
        and is_built_in(job.record.example)
        and job.track is None
    )


def is_side_by_side(planned: PlannedEpoch, job: Job) -> bool:
    """Whether the chains of an epoch are run in one pass: with all their iterates in memory."""
    return could_be_side_by_side(planned, job) and size_of_iterates(planned, job) <= lanes.MEMORY


def is_crowded(planned: PlannedEpoch, job: Job) -> bool:
    """Whether an epoch has so many chains that the pass in order has no room for their iterates."""
    return could_be_side_by_side(planned, job) and not is_side_by_side(planned, job)


def size_of_iterates(planned: PlannedEpoch, job: Job) -> int:
    """Bytes that the iterates of all chains of an epoch take side by side."""
    return planned.chains * row_bytes(len(job.x0), job.stepper.x.itemsize)


class Pass:
    """All these epochs under way."""

    def __init__(self, single: list[Member], side: list[Member], jobs: Sequence[Job]) -> None:
        self.jobs, self.single, self.side = jobs, single, side
        self.first = jobs[0]
        self.record = self.first.record
        stepper = self.first.stepper
        assert isinstance(stepper, CompiledStepper)
        self.scales = None
        if single:
            runs = [jobs[number].epoch(planned) for _, number, planned in single]
            self.scales = Scales(stepper.projection, runs, self.record.length, self.first.limit, stepper.x.dtype)
        self.lanes = [self._lanes(stepper, jobs[number], planned) for _, number, planned in side]
        self.row = 0

    def _lanes(self, stepper: CompiledStepper, job: Job, planned: PlannedEpoch) -> Lanes:
        weights = job.averaging.weights(planned.length, 0, planned.length)
        steps = job.epoch(planned).steps(planned.length)
        start = job.x0.astype(stepper.x.dtype)
        return Lanes(stepper.projection, start, steps, weights, job.limit, self.record.length, planned.chains)

    @property
    def taken(self) -> int:
        """Steps taken so far, by all epochs together."""
        return sum(chains.taken for chains in self.lanes) + (self.scales.taken if self.scales else 0)

    def run(self) -> None:
        """Go through the record, from where a checkpoint left it."""
        kept = self.first.checkpoint
        if kept is not None:
            self.row = kept.restore(self.state())
            self.first.advanced(self.taken)
        several = len(self.lanes) + bool(self.scales) > 1
        with Team(self.first.threads) as team, closing(self.record.windows(self.row, several)) as windows:
            for samples, base, last in windows:
                before = self.taken
                self._advance(samples, base, last, team)
                self.row = last
                self.first.advanced(self.taken - before)
                if kept is not None:
                    kept.note(self.row, self.state())

    def _advance(self, samples: Any, base: int, last: int, team: Team) -> None:
        if self.scales is not None:
            self.scales.advance(samples, base, self.row + 1, last)
        for chains in self.lanes:
            chains.advance(samples, base, self.row + 1, last, team)

    def state(self) -> dict[str, Any]:
        """All that changes in the course of the pass, as arrays that can be written into."""
        found = {f"scales {name}": array for name, array in (self.scales.state() if self.scales else {}).items()}
        for (index, number, _), chains in zip(self.side, self.lanes, strict=True):
            found |= {f"epoch {index} job {number} {name}": array for name, array in chains.state().items()}
        return found

    def epochs(self) -> dict[tuple[int, int], Epoch]:
        """What the epochs found, by their index in the plan and the job's."""
        found = {}
        if self.scales is not None:
            for (index, number, _), epoch in zip(self.single, self.scales.epochs(), strict=True):
                found[index, number] = epoch
        for (index, number, planned), chains in zip(self.side, self.lanes, strict=True):
            last, average = chains.answers()
            how = self.first.averaging, self.first.x0, last, average, chains.taken, chains.diverged, None
            found[index, number] = finished(planned, float(chains.steps[0]), *how)
        return found
