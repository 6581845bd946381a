"""One pass over the record in order for all epochs that can be run so: whatever they are, the data are read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from multireplay.engine.kinds import is_scale, is_side_by_side
from multireplay.engine.lanes import Lanes
from multireplay.engine.reading import Reading
from multireplay.engine.run import finished
from multireplay.engine.scales import Scales
from multireplay.engine.steppers import CompiledStepper
from multireplay.engine.team import Team
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job

Member = tuple[int, int, PlannedEpoch]
"""An epoch of the plan for one of the jobs: its index, the job's, and what is planned."""


def served(plan: tuple[PlannedEpoch, ...], job: Job) -> list[int]:
    """Which epochs the pass serves."""
    return [index for index, planned in enumerate(plan) if is_scale(planned, job) or is_side_by_side(planned, job)]


class Pass(Reading):
    """All these epochs under way."""

    def __init__(self, plan: tuple[PlannedEpoch, ...], chosen: Sequence[int], jobs: Sequence[Job]) -> None:
        members = [(index, number, plan[index]) for number in range(len(jobs)) for index in chosen]
        single = [member for member in members if is_scale(member[2], jobs[0])]
        side = [member for member in members if not is_scale(member[2], jobs[0])]
        self.single, self.side, self.jobs = single, side, len(jobs)
        self.first = jobs[0]
        self.record = self.first.record
        self.size = self.record.length
        stepper = self.first.stepper
        assert isinstance(stepper, CompiledStepper)
        self.scales = None
        if single:
            runs = [jobs[number].epoch(planned) for _, number, planned in single]
            self.scales = Scales(stepper.projection, runs, self.record.length, self.first.limit, stepper.x.dtype)
        self.lanes = [self._lanes(stepper, jobs[number], planned) for _, number, planned in side]
        self.row = 0  # how far it is

    def _lanes(self, stepper: CompiledStepper, job: Job, planned: PlannedEpoch) -> Lanes:
        length = planned.length
        start, whole = job.x0.astype(stepper.x.dtype), job.averaging.weight(length, length)
        where = job.limit, self.record.length, planned.chains
        return Lanes(stepper.projection, start, length, job.epoch(planned).sizes_from, whole, *where)

    @property
    def taken(self) -> int:
        """Steps taken so far, by all epochs together."""
        return sum(chains.taken for chains in self.lanes) + (self.scales.taken if self.scales else 0)

    def run(self, first: int, note: Callable[[int], object]) -> None:
        self.row = first
        self.first.advanced(self.taken)
        several = len(self.lanes) + bool(self.scales) > 1
        kept = sum(chains.nbytes for chains in self.lanes)
        with Team(self.first.threads) as team, closing(self.record.windows(first, several, aside=kept)) as windows:
            for samples, base, last in windows:
                before = self.taken
                self._advance(samples, base, last, team)
                self.row = last
                self.first.advanced(self.taken - before)
                note(last)

    def _advance(self, samples: Any, base: int, last: int, team: Team) -> None:
        if self.scales is not None:
            self.scales.advance(samples, base, self.row + 1, last)
        for chains in self.lanes:
            chains.advance(samples, base, self.row + 1, last, team)

    def state(self) -> dict[str, Any]:
        found = {f"scales {name}": array for name, array in (self.scales.state() if self.scales else {}).items()}
        for (index, number, _), chains in zip(self.side, self.lanes, strict=True):
            found |= {f"epoch {index} job {number} {name}": array for name, array in chains.state().items()}
        return found

    def epochs(self) -> dict[int, list[Epoch]]:
        found = {}
        if self.scales is not None:
            for (index, number, _), epoch in zip(self.single, self.scales.epochs(), strict=True):
                found[index, number] = epoch
        for (index, number, planned), chains in zip(self.side, self.lanes, strict=True):
            last, average = chains.answers()
            how = self.first.averaging, self.first.x0, last, average, chains.taken, chains.diverged, None
            found[index, number] = finished(planned, float(chains.sizes(0, 1)[0][0]), *how)
        return {index: [found[index, number] for number in range(self.jobs)] for index, _ in found}
