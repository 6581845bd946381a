"""Where the chains of all offsets of a gap read, one after the other or side by side in parts of the record.

Epoch k of static multiscale replay with all phases has a chain of T = 2^k steps for each offset o < ⌊B/T⌋, which reads
position ⌊t·B/T⌋ − o in step t. Few steps mean many chains: there is no room for the iterates of all, so that the chains
have to be run one after the other.

Cut the record at the ends E(u) = ⌊u·τ⌋ for u = 1, …, n, where n is the largest T of these epochs and τ = B/n. With
Q = n/T, step t of a chain is at E(t·Q) − o. Write o = ⌊q·τ⌋ + p with q < Q. As E(s) − E(s − q) is ⌊q·τ⌋ or one more,
this is position E(u) − p or E(u) − p + 1 with u = t·Q − q: at place p of some part, or next to it. So the n parts are
read side by side, some places at a time, and the chains of all epochs that are there are run, by place p and then by q.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multireplay._check import Positions
from multireplay.replay.base import multiples_of_gap


def offset_after_offset(steps: int, length: int, phases: int, first: int, count: int) -> Positions:
    """Positions of steps first, …, first + count − 1 when the chains of all phases follow one another."""
    chain, start = divmod(first, steps)
    here = min(count, steps - start)
    ends = np.concatenate(
        [multiples_of_gap(steps, length, start, here), multiples_of_gap(steps, length, 0, min(count, steps) - here)]
    )
    step = np.arange(count)
    chains = (start + step) // steps
    offsets = multiples_of_gap(phases, length // steps, chain - 1, int(chains[-1]) + 1)
    return ends[step % steps] - offsets[chains]


class Parts:
    """A record of `length` samples in `count` parts that are read side by side, from their ends on.

    With ``Parts(11, 4)`` they end at 2, 5, 8 and 11. The positions of places 0 and 1 are the last two of each part and
    the one after it; the chains of two steps there read 5, 11 and 3, 9 and 4, 10 and 2, 8: offsets 0, 2, 1, 3.
    """

    def __init__(self, length: int, count: int) -> None:
        self.length, self.count = length, count
        self.ends = multiples_of_gap(count, length, 0, count)
        self.depth = -(-length // count)

    def places(self, room: int) -> Iterator[tuple[int, int]]:
        """Ranges of places, such that their positions are no more than `room`, which has to be twice the parts."""
        step = room // self.count - 1
        for low in range(0, self.depth, step):
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
        share = self.count // steps
        starts = np.append(0, self.ends[:share])  # ⌊q·τ⌋ for q = 0, …, Q
        place, q = np.nonzero(np.arange(low, high)[:, None] < np.diff(starts))
        place += low
        last = np.arange(share, self.count + 1, share)  # t·Q
        part = last - 1 - q[:, None]
        position = self.ends[last - 1] - (starts[q] + place)[:, None]
        return np.asarray(part * (high - low + 1) + position - self.ends[part] + high - 1)
