"""How a plan is read, decided once: which epochs share a reading of the record, and which are read by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from multireplay.engine.chains import Member, OneChain, run_alone, run_in_parts
from multireplay.engine.epoch import Job
from multireplay.engine.stepper import Told, Way
from multireplay.engine.team import Team
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch

Plan = tuple[PlannedEpoch, ...]
Place = tuple[int, int]
"""An epoch of the plan and a job, by their numbers."""


@dataclass(frozen=True)
class Leg:
    """An epoch of the plan, how it is read, and the bytes that the iterates of all its chains take side by side."""

    number: int
    planned: PlannedEpoch
    way: Way
    room: int

    @property
    def in_order(self) -> bool:
        """Whether it shares a reading in order with all others that do."""
        return self.way in ("scales", "lanes", "chain")


@dataclass(frozen=True, eq=False)
class Itinerary:
    """The epochs of a plan, and how each is read, for jobs that differ in their step sizes alone."""

    legs: tuple[Leg, ...]
    jobs: tuple[Job, ...]

    @property
    def in_order(self) -> bool:
        """Whether one reading in order serves all epochs."""
        return all(leg.in_order for leg in self.legs)

    @property
    def resumable(self) -> bool:
        """Whether a checkpoint can keep the run, which does not keep error curves on the way."""
        tracked = self.jobs[0].track is not None
        return self.in_order and not (tracked and any(leg.way == "chain" for leg in self.legs))

    @property
    def crowded(self) -> tuple[Leg, ...]:
        """Epochs of too many chains for the reading in order, where it serves all the others; else none."""
        left = tuple(leg for leg in self.legs if not leg.in_order)
        return left if all(leg.way in ("parts", "crowded") for leg in left) else ()

    @property
    def more_readings(self) -> int:
        """How often the record is read for these: once for all that are read in parts, and once for each other."""
        ways = [leg.way for leg in self.crowded]
        return ("parts" in ways) + ways.count("crowded")

    @property
    def fits(self) -> bool:
        """Whether half of the memory budget has room for the iterates of all jobs side by side."""
        budget = self.jobs[0].record.budget
        kept = sum(leg.room for leg in self.legs if leg.way == "lanes")
        return len(self.jobs) == 1 or budget is None or 2 * kept * len(self.jobs) <= budget

    def compile(self) -> None:
        """Compile the loop over one chain where it is used, so that this takes no time of the run."""
        if all(leg.way in ("scales", "lanes") for leg in self.legs):
            return
        nothing = np.zeros(0)
        for job in self.jobs:
            job.stepper.advance(job.record.example, nothing.astype(np.int64), nothing, nothing, job.limit)

    def run(self, told: Told = lambda steps: None) -> list[tuple[Epoch, ...]]:
        """Run every epoch from x0, for each job; `told` learns of the steps taken.

        Jobs that memory has no room for together are run one after the other.
        """
        if not self.fits:
            return [replace(self, jobs=(job,)).run(told)[0] for job in self.jobs]
        found: dict[Place, Epoch] = {}
        if any(leg.in_order for leg in self.legs):
            found |= self._run_in_order(told)
        in_parts = [leg for leg in self.legs if leg.way == "parts"]
        if in_parts:
            runs = [[job.epoch(leg.planned) for job in self.jobs] for leg in in_parts]
            for leg, epochs in zip(in_parts, run_in_parts(self.jobs[0].record, runs, told), strict=True):
                found |= {(leg.number, job): epoch for job, epoch in enumerate(epochs)}
        for leg in self.legs:
            if leg.way in ("crowded", "alone"):
                epochs = run_alone(leg.planned, self.jobs, told)
                found |= {(leg.number, job): epoch for job, epoch in enumerate(epochs)}
        return [tuple(found[leg.number, job] for leg in self.legs) for job in range(len(self.jobs))]

    def _run_in_order(self, told: Told) -> dict[Place, Epoch]:
        served = self._served()
        members = {one.name: one.member for one in served}
        kept = self.jobs[0].checkpoint
        first = 0
        if kept is not None:
            state = _state(members)
            first = kept.restore(state)
            for name, member in members.items():
                member.load({what.removeprefix(name): array for what, array in state.items() if what.startswith(name)})
        told(sum(member.taken for member in members.values()))
        aside = sum(member.nbytes for member in members.values())
        windows = self.jobs[0].record.windows(first, len(members) > 1, aside)
        with Team(self.jobs[0].threads) as team, closing(windows):
            for window in windows:
                before = sum(member.taken for member in members.values())
                for member in members.values():
                    member.advance(window, first + 1, team)
                first = window.last
                told(sum(member.taken for member in members.values()) - before)
                if kept is not None:
                    kept.note(first, _state(members))
        return {place: epoch for one in served for place, epoch in zip(one.places, one.member.epochs(), strict=True)}

    def _served(self) -> list[_Served]:
        """What shares the reading in order."""
        places = [(leg, job) for job in range(len(self.jobs)) for leg in self.legs if leg.in_order]
        found = []
        scales = [(leg, job) for leg, job in places if leg.way == "scales"]
        if scales:
            runs = [self.jobs[job].epoch(leg.planned) for leg, job in scales]
            member = self.jobs[0].stepper.scales(runs)
            found.append(_Served("scales ", member, [(leg.number, job) for leg, job in scales]))
        for leg, number in places:
            name, job = f"epoch {leg.number} job {number} ", self.jobs[number]
            if leg.way == "lanes":
                found.append(_Served(name, job.stepper.lanes(job.epoch(leg.planned)), [(leg.number, number)]))
            elif leg.way == "chain":
                chain = OneChain(replace(job, stepper=job.stepper.fresh()).epoch(leg.planned))
                found.append(_Served(name, chain, [(leg.number, number)]))
        return found


class _Served(NamedTuple):
    """A member of the reading in order: its name in a checkpoint, and the epochs that it finds."""

    name: str
    member: Member
    places: list[Place]


def _state(members: dict[str, Member]) -> dict[str, np.ndarray]:
    return {name + what: array for name, member in members.items() for what, array in member.state().items()}


def arrange(plan: Plan, jobs: Sequence[Job]) -> Itinerary:
    """Decide for every epoch of the plan how it is read."""
    stepper, length = jobs[0].stepper, jobs[0].record.length
    ways = [_way(planned, jobs) for planned in plan]
    for number in _in_parts(plan, ways, length):
        ways[number] = "parts"
    rooms = [stepper.room(planned, jobs[0]) for planned in plan]
    return Itinerary(tuple(map(Leg, range(len(plan)), plan, ways, rooms)), tuple(jobs))


def _way(planned: PlannedEpoch, jobs: Sequence[Job]) -> Way:
    """What all jobs agree on; where a schedule has steps that change and another has not, each is run by itself."""
    first, *others = {job.stepper.way(planned, job) for job in jobs}
    return "alone" if others else first


def _in_parts(plan: Plan, ways: Sequence[Way], length: int) -> list[int]:
    """Crowded epochs that can be read together: of all phases, and whose steps divide the most of them."""
    found = [
        number
        for number, (planned, way) in enumerate(zip(plan, ways, strict=True))
        if way == "crowded" and planned.chains == length // planned.length and 2 * planned.length <= BLOCK
    ]
    most = max((plan[number].length for number in found), default=1)
    return [number for number in found if most % plan[number].length == 0]
