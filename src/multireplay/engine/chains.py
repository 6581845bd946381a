"""Drivers of chains with any engine: one of them, several one after the other, and short ones from parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.record import Record, Window
from multireplay.engine.epoch import EpochRun, Job
from multireplay.engine.stepper import MEMORY, StepFailure, Told
from multireplay.errors import InputError
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.replay.side_by_side import Parts
from multireplay.result import Epoch

SMALL_BLOCK = 2**9
ASIDE = 2 * MEMORY
"""Bytes that the epochs of the pass in order keep for a job: each of them half of what the one before it does."""


class Team:
    """Threads that share work, for the time of a ``with`` block; the calling one is one of them and does its part."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: object) -> None:
        if self._others is not None:
            self._others.shutdown()

    def cuts(self, pieces: int) -> list[int]:
        """Where that many pieces of work are cut into a share for each thread, or as many as there are pieces."""
        shares = min(pieces, self.size)
        return [pieces * share // shares for share in range(shares + 1)]

    def share(self, work: Callable[[int, int], object], cuts: Sequence[int]) -> None:
        """work(cuts[0], cuts[1]), work(cuts[1], cuts[2]), … side by side; an error in one is raised here."""
        if self._others is None:
            for ends in pairwise(cuts):
                work(*ends)
            return
        others = [self._others.submit(work, *ends) for ends in pairwise(cuts[1:])]
        work(cuts[0], cuts[1])
        for other in others:
            other.result()


ALONE = Team(1)


class Member(ABC):
    """One or more epochs under way that share a reading of the record in order with others."""

    @property
    @abstractmethod
    def taken(self) -> int:
        """Steps taken so far."""

    @abstractmethod
    def advance(self, window: Window, first: int, team: Team) -> None:
        """Go through the positions of the window from `first` on, counted from 1."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into."""

    @abstractmethod
    def epochs(self) -> list[Epoch]:
        """What was found."""

    @property
    def nbytes(self) -> int:
        """Bytes of all that changes."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return self.arrays()

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""
        for name, array in self.arrays().items():
            array[...] = state[name]


class OneChain(Member):
    """A chain that reads forwards, with an engine of its own."""

    def __init__(self, run: EpochRun) -> None:
        self.run = run

    @property
    def taken(self) -> int:
        return self.run.taken

    def advance(self, window: Window, first: int, team: Team) -> None:
        planned, run = self.run.planned, self.run
        while run.taken < planned.length and not run.stopped:
            positions = planned.block(run.taken, min(BLOCK, planned.length - run.taken))
            due = positions[: np.searchsorted(positions, window.last, side="right")]
            if len(due):
                run.feed(window.samples, due - window.base + 1, due)
            if len(due) < len(positions):
                break

    def arrays(self) -> dict[str, Any]:
        return self.run.stepper.arrays()

    @property
    def nbytes(self) -> int:
        """Those of a checkpoint too: what was noted, and what is to be noted next."""
        return 3 * self.run.stepper.nbytes

    def state(self) -> dict[str, Any]:
        """Copies, since an interruption may find a block half done."""
        kept = {name: array.copy() for name, array in self.arrays().items()}
        return {**kept, "counts": np.array([self.run.taken, self.run.stopped])}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.run.taken, self.run.stopped = int(state["counts"][0]), bool(state["counts"][1])

    def epochs(self) -> list[Epoch]:
        return [self.run.finish()]


class Chains:
    """Chains of one epoch with any engine, one after the other from the same start, and the mean of what they end with.

    `ended` of them have come to their end; `lasts` and `totals` are sums over these, of last iterates and of weighted
    sums. After one that has diverged, none is run.
    """

    def __init__(self, run: EpochRun) -> None:
        self.run = run
        self.lasts, self.totals = np.zeros(run.dim), np.zeros(run.dim)
        self.ended, self.taken, self.stopped = 0, 0, False

    def advance(self, samples: Any, positions: Positions, shown: Positions) -> int:
        """Take one step for each position; the number of steps taken. `shown` are the positions that errors name."""
        if self.stopped or not len(positions):
            return 0
        taken = self.loop(samples, positions, shown)
        self.taken += taken
        self.stopped = taken < len(positions)
        return taken

    def loop(self, samples: Any, positions: Positions, shown: Positions) -> int:
        """The steps themselves; a chain may go on from one call to the next."""
        run, first = self.run, 0
        while first < len(positions):
            if run.taken in (0, run.planned.length):
                run.restart()
            before = run.taken
            part = slice(first, first + run.planned.length - before)
            fine = run.feed(samples, positions[part], shown[part])
            first += run.taken - before
            if not fine:
                break
            if run.taken == run.planned.length:
                self.ended += 1
                self.lasts += run.stepper.x
                self.totals += run.stepper.total
        return first

    def sums(self) -> tuple[Vector, Vector]:
        """The sums of the last iterates and of the averages of the chains that have come to their end."""
        return self.lasts, self.totals / self.run.averaging.weight(self.run.planned.length, self.run.planned.length)

    def epoch(self) -> Epoch:
        """What was found."""
        x0 = self.run.x0
        last, average = (one / self.ended for one in self.sums()) if self.ended else (x0, x0)
        return self.run.ended(last, average, self.taken, self.stopped)


class WholeChains(Chains, ABC):
    """Chains that a compiled loop runs as wholes, many in one call: on dense rows to the bits of `Chains`."""

    def __init__(self, run: EpochRun) -> None:
        super().__init__(run)
        self.steps, self.weights = run.sizes_from(0, run.planned.length)

    @abstractmethod
    def compiled(self, samples: Any, positions: Positions) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""

    def loop(self, samples: Any, positions: Positions, shown: Positions) -> int:
        """The compiled loop has no words for what goes wrong, and so that chain is run by itself once more."""
        try:
            taken = self.compiled(samples, positions)
        except StepFailure as failure:
            self._explain(failure.taken, samples, positions, shown)
            raise
        if taken < len(positions) and self.run.problem.users_code:
            self._explain(taken, samples, positions, shown)
        self.ended += taken // len(self.steps)
        return taken

    def _explain(self, taken: int, samples: Any, positions: Positions, shown: Positions) -> None:
        first = taken // len(self.steps) * len(self.steps)
        chain = slice(first, first + len(self.steps))
        Chains(self.run).loop(samples, positions[chain], shown[chain])


def chain_after_chain(run: EpochRun) -> Chains:
    """The chains of an epoch as wholes, in a compiled loop if there is one for them."""
    return run.stepper.whole_chains(run) or Chains(run)


def run_alone(planned: PlannedEpoch, jobs: Sequence[Job], told: Told) -> list[Epoch]:
    """An epoch by itself, for each job."""
    return [run_chains(planned, job, told) for job in jobs] if planned.chains > 1 else _run_chain(planned, jobs, told)


def _run_chain(planned: PlannedEpoch, jobs: Sequence[Job], told: Told) -> list[Epoch]:
    """One chain, block by block; several jobs take turns with a block that is small enough to stay in the cache."""
    epochs = [job.epoch(planned) for job in jobs]
    blocks = planned.blocks(BLOCK if len(jobs) == 1 else SMALL_BLOCK)
    for samples, positions, shown in jobs[0].record.chunks(blocks, planned.kept):
        for epoch in epochs:
            if not epoch.stopped:
                epoch.feed(samples, positions, shown)
                told(len(positions))
        if all(epoch.stopped for epoch in epochs):
            break
    return [epoch.finish() for epoch in epochs]


def run_chains(planned: PlannedEpoch, job: Job, told: Told = lambda steps: None) -> Epoch:
    """The chains of an epoch, and the mean of what they end with."""
    found = job.stepper.all_chains(planned, job, told)
    if found is not None:
        return found
    room = min(BLOCK, job.record.at_once())
    whole = planned.length <= room
    chains = chain_after_chain(job.epoch(planned)) if whole else Chains(job.epoch(planned))
    blocks = planned.blocks(room // planned.length * planned.length if whole else room)
    for samples, positions, shown in job.record.chunks(blocks):
        told(chains.advance(samples, positions, shown))
        if chains.stopped:
            break
    return chains.epoch()


def run_in_parts(record: Record, epochs: Sequence[Sequence[EpochRun]], told: Told) -> list[list[Epoch]]:
    """Epochs of short chains, each for several jobs, in one reading of parts of the record side by side."""
    aside = ASIDE * len(epochs[0])
    parts = Parts(record.length, max(runs[0].planned.length for runs in epochs))
    room = min(BLOCK, record.at_once(aside))
    if room < 2 * parts.count:
        raise InputError(
            f"memory= is too little for {parts.count} parts of the record side by side, which epochs of so "
            f"few steps with all phases need; give {2 * parts.count / room:.2g} times as much"
        )
    under_way = [[chain_after_chain(run) for run in runs] for runs in epochs]
    blocks = parts.places(room)
    for samples, positions, shown in record.chunks((parts.positions(*places) for places in parts.places(room)), aside):
        done = 0
        while done < len(positions):  # a chunk is one or more blocks
            low, high = next(blocks)
            here = slice(done, done + parts.size(low, high))
            done = here.stop
            for several in under_way:
                within = parts.chains(several[0].run.planned.length, low, high).ravel()
                for chains in several:
                    told(chains.advance(samples, positions[here][within], shown[here][within]))
    return [[chains.epoch() for chains in several] for several in under_way]
