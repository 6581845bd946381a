"""How a plan is read, decided once: which epochs share a reading of the record, and which are read by themselves.

And whether an epoch may be in step with a period of the record, so that its chains read one part of the period alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.chains import ALONE, Member, OneChain, Team, run_alone, run_in_parts
from multireplay.engine.epoch import Job
from multireplay.engine.stepper import Told, Way
from multireplay.engine.sums import operator_batches
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch
from multireplay.sets import Set, WholeSpace

Plan = tuple[PlannedEpoch, ...]
Place = tuple[int, int]
"""An epoch of the plan and a job, by their numbers."""
Served = tuple[Member, list[Place]]
"""A member of the reading in order, and the epochs that it finds."""

ROWS, FEW, NUMBERS = 2**18, 2**13, 2**24
"""Rows that are looked at at most; rows on disk, or with a call of a Python function for each; and numbers in them."""
FAR, WORST = 3.0, 3
"""Standard errors of F̂ from which on an answer is far from the exact fit, and coordinates that are looked at."""
BAND, SKIPPED = 64, 2
"""Frequencies among which a spectrum is level, and such bands of the lowest, which have none."""
FALSE_ALARMS, DOUBT = 1e-3, 1.4
"""Chance of a period in a record that has none, and what the level of a band may be off."""
ROUNDING = 1e-9
"""Share of F̂ at 0 below which one is rounding."""


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
        found = self._run_in_order(told) if any(leg.in_order for leg in self.legs) else {}
        in_parts = [leg for leg in self.legs if leg.way == "parts"]
        runs = [[job.epoch(leg.planned) for job in self.jobs] for leg in in_parts]
        apart = zip(in_parts, run_in_parts(self.jobs[0].record, runs, told) if runs else [], strict=True)
        alone = [leg for leg in self.legs if leg.way in ("crowded", "alone")]
        for leg, epochs in (*apart, *((leg, run_alone(leg.planned, self.jobs, told)) for leg in alone)):
            found |= {(leg.number, job): epoch for job, epoch in enumerate(epochs)}
        return [tuple(found[leg.number, job] for leg in self.legs) for job in range(len(self.jobs))]

    def _run_in_order(self, told: Told) -> dict[Place, Epoch]:
        """One reading of the record for all members, from where a checkpoint is."""
        served, job, first = self._members(), self.jobs[0], 0
        members = [member for member, _ in served.values()]
        if job.checkpoint is not None:
            state = _state(served)
            first = job.checkpoint.restore(state)
            for name, (member, _) in served.items():
                member.load({what.removeprefix(name): array for what, array in state.items() if what.startswith(name)})
        before = 0
        aside = sum(member.nbytes for member in members) if job.record.on_disk else 0
        windows = job.record.windows(first, len(members) > 1, aside)
        several = any(leg.way == "lanes" for leg in self.legs)
        with Team(job.threads) if several else nullcontext(ALONE) as team, closing(windows):
            for window in windows:
                for member in members:
                    member.advance(window, first + 1, team)
                first, taken = window.last, sum(member.taken for member in members)
                told(taken - before)
                before = taken
                if job.checkpoint is not None:
                    job.checkpoint.note(first, _state(served))
        return {
            place: epoch
            for member, places in served.values()
            for place, epoch in zip(places, member.epochs(), strict=True)
        }

    def _members(self) -> dict[str, Served]:
        """What shares the reading in order, by its name in a checkpoint."""
        found: dict[str, Served] = {}
        scales = [(leg.number, job) for job in range(len(self.jobs)) for leg in self.legs if leg.way == "scales"]
        if scales:
            runs = [self.jobs[job].epoch(self.legs[number].planned) for number, job in scales]
            found["scales "] = self.jobs[0].stepper.member("scales", runs), scales
        for number, job in enumerate(self.jobs):
            for leg in self.legs:
                name, place = f"epoch {leg.number} job {number} ", (leg.number, number)
                if leg.way == "lanes":
                    found[name] = job.stepper.member("lanes", [job.epoch(leg.planned)]), [place]
                elif leg.way == "chain":
                    apart = replace(job, stepper=job.stepper.fresh())
                    found[name] = OneChain(apart.epoch(leg.planned)), [place]
        return found


def _state(served: dict[str, Served]) -> dict[str, Any]:
    return {name + what: array for name, (member, _) in served.items() for what, array in member.state().items()}


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


def in_step(record: Record, planned: PlannedEpoch, x: Vector, feasible: Set) -> bool:
    """Whether an order that leaves gaps led far from the exact fit of a record that has a period.

    Looked at are at most 2^18 rows: the mean operator on rows spread over the record, and the spectrum of F̃ on
    consecutive ones, in directions in which that mean is not 0.
    """
    if not planned.nested and (planned.gap is None or planned.gap <= 1):
        return False
    away = _away(record, x, feasible)
    return bool(away.any()) and any(map(_has_lines, _series(record, x, away).T))


def _away(record: Record, x: Vector, feasible: Set) -> Vector:
    """Directions in which F̂(x) is far from 0, a column each: all of what is left of it, and the worst coordinates."""
    part = record.part(record.spread(_most(record)))
    here, nowhere = operator_batches(part, [x, np.zeros_like(x)])
    found = (here.mean, *here.means)
    left, *parts = found if isinstance(feasible, WholeSpace) else [x - feasible.projected(x - mean) for mean in found]
    error = np.std(parts, axis=0, ddof=1) / np.sqrt(len(parts))
    known = (error > 0) & (np.abs(left) > ROUNDING * np.abs(nowhere.mean).max())
    far = np.where(known, np.abs(left), 0.0) / np.where(known, error, 1.0)
    if far.max() <= FAR:
        return np.zeros((len(x), 0))
    worst = np.argsort(-far)[:WORST]
    return np.column_stack([far * np.sign(left) / np.where(known, error, 1.0), np.eye(len(x))[:, worst]])


def _series(record: Record, x: Vector, along: Vector) -> Vector:
    """F̃(x, ξ) in these directions, on consecutive rows in the middle of the record."""
    count = min(record.length, _most(record))
    first = (record.length - count) // 2
    return record.problem.operator_along(x, along, record.take(np.arange(first, first + count)))


def _most(record: Record) -> int:
    most = FEW if record.on_disk or record.problem.is_slow else ROWS
    return max(2 * BAND, min(most, NUMBERS // record.dim))


def _has_lines(series: Vector) -> bool:
    """Whether some frequency stands out from those around it by more than chance."""
    spectrum = np.abs(np.fft.rfft((series - series.mean()) * np.hanning(len(series)))) ** 2
    bands = spectrum[len(spectrum) % BAND :].reshape(-1, BAND)[SKIPPED:]
    level = np.median(bands, axis=1) / np.log(2)
    return bool((bands.max(axis=1) > DOUBT * level * np.log((bands.size + 1) / FALSE_ALARMS)).any())
