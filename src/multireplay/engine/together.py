"""Epochs of short chains together: one more reading of the record, in parts side by side, serves all of them.

Epoch k of static multiscale replay with all phases has a chain of T = 2^k steps for each offset o < ⌊B/T⌋, which reads
position ⌊t·B/T⌋ − o in step t. Few steps mean many chains: there is no room for the iterates of all, so that the chains
have to be run one after the other.

Cut the record at the ends E(u) = ⌊u·τ⌋ for u = 1, …, n, where n is the largest T of these epochs and τ = B/n. With
Q = n/T, step t of a chain is at E(t·Q) − o. Write o = ⌊q·τ⌋ + p with q < Q. As E(s) − E(s − q) is ⌊q·τ⌋ or one more,
this is position E(u) − p or E(u) − p + 1 with u = t·Q − q: at place p of some part, or next to it. So the n parts are
read side by side, some places at a time, and the chains of all epochs that are there are run, by place p and then by q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from multireplay._check import Positions
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.kinds import MEMORY, is_crowded
from multireplay.engine.reading import ReadingOfRuns
from multireplay.engine.short import ShortChains
from multireplay.errors import InputError
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.replay.multiscale import multiples_of_gap

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


ASIDE = 2 * MEMORY
"""Bytes that the epochs of the pass in order keep for a job: each of them half of what the one before it does."""


class InParts(ReadingOfRuns[ShortChains]):
    """These epochs under way, for each of the jobs: they are read `size` places deep."""

    def __init__(self, plan: tuple[PlannedEpoch, ...], chosen: Sequence[int], jobs: Sequence[Job]) -> None:
        self.record, self.aside = jobs[0].record, ASIDE * len(jobs)
        self.parts = Parts(self.record.length, max(plan[index].length for index in chosen))
        self.room = min(BLOCK, self.record.at_once(self.aside))
        if self.room < 2 * self.parts.count:
            raise InputError(
                f"memory= is too little for {self.parts.count} parts of the record side by side, which epochs of so "
                f"few steps with all phases need; give {2 * self.parts.count / self.room:.2g} times as much"
            )
        self.size = self.parts.depth
        self.runs = {index: [ShortChains(plan[index], job) for job in jobs] for index in chosen}

    def run(self, first: int, note: Callable[[int], object]) -> None:
        for chains in self.by_name().values():
            chains.job.advanced(chains.taken)
        blocks = self.parts.places(self.room, first)
        wanted = (self.parts.positions(*places) for places in self.parts.places(self.room, first))
        for samples, positions, shown in self.record.chunks(wanted, aside=self.aside):
            done = 0
            while done < len(positions):  # a chunk is one or more blocks
                low, high = next(blocks)
                here = slice(done, done + self.parts.size(low, high))
                done = here.stop
                for sums in self.runs.values():
                    within = self.parts.chains(sums[0].planned.length, low, high).ravel()
                    for chains in sums:
                        chains.advance(samples, positions[here][within], shown[here][within])
                note(high)


def served(plan: tuple[PlannedEpoch, ...], job: Job) -> list[int]:
    """Which epochs: of too many chains for a pass in order, of all phases, and whose steps divide the most of them.

    Over batches in memory, chains are run side by side in any case.
    """
    if isinstance(job.stepper, BatchedStepper) and not job.record.on_disk:
        return []
    length = job.record.length
    found = [
        index
        for index, planned in enumerate(plan)
        if is_crowded(planned, job) and planned.chains == length // planned.length and 2 * planned.length <= BLOCK
    ]
    most = max((plan[index].length for index in found), default=1)
    return [index for index in found if most % plan[index].length == 0]


class Parts:
    """A record of `length` samples in `count` parts that are read side by side, from their ends on.

    Examples
    --------
    >>> from multireplay.engine.together import Parts
    >>> parts = Parts(11, 4)  # ends at 2, 5, 8, 11
    >>> parts.positions(0, 2).reshape(4, 3).tolist()  # the last two of each part, and the one after it
    [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 11]]
    >>> parts.positions(0, 2)[parts.chains(2, 0, 2)].tolist()  # chains of two steps: offsets 0, 2, 1, 3
    [[5, 11], [3, 9], [4, 10], [2, 8]]
    """

    def __init__(self, length: int, count: int) -> None:
        self.length, self.count = length, count
        self.ends = multiples_of_gap(count, length, 0, count)
        self.depth = -(-length // count)

    def places(self, room: int, first: int = 0) -> Iterator[tuple[int, int]]:
        """Ranges of places, such that their positions are no more than `room`, which has to be twice the parts."""
        step = room // self.count - 1
        for low in range(first, self.depth, step):
            yield low, min(low + step, self.depth)

    def size(self, low: int, high: int) -> int:
        """How many positions that range of places has."""
        return self.count * (high - low + 1)

    def positions(self, low: int, high: int) -> Positions:
        """The positions of places low, …, high − 1 and the one after them, part after part, in order."""
        around = np.arange(1 - high, 2 - low)
        return np.asarray(np.clip(self.ends[:, None] + around, 1, self.length).ravel())

    def chains(self, steps: int, low: int, high: int) -> Positions:
        """Where among `positions` the chains of so many steps are that begin at these places, a row for each."""
        share, starts = self.count // steps, self._starts(steps)
        place, q = np.nonzero(np.arange(low, high)[:, None] < np.diff(starts))
        place += low
        last = np.arange(share, self.count + 1, share)  # t·Q
        part = last - 1 - q[:, None]
        position = self.ends[last - 1] - (starts[q] + place)[:, None]
        return np.asarray(part * (high - low + 1) + position - self.ends[part] + high - 1)

    def _starts(self, steps: int) -> Positions:
        """⌊q·τ⌋ for q = 0, …, Q."""
        return np.concatenate([[0], self.ends[: self.count // steps]])
