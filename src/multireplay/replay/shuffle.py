"""Random orders: one pass without replacement, or as many draws with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions
from multireplay.replay.base import PlannedEpoch, Replay, part_of


@dataclass(frozen=True)
class Shuffle(Replay):
    """Every sample once, in random order: what most people do, and hard to beat.

    Parameters
    ----------
    seed : int
        Seed of the order.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Shuffle(seed=0).plan(8)[0].positions
    array([3, 5, 4, 7, 6, 1, 2, 8])
    """

    seed: int

    def __post_init__(self) -> None:
        self._whole(seed=0)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        order = np.arange(1, length + 1, dtype=np.uint32 if length < 2**32 else np.int64)
        np.random.default_rng(self.seed).shuffle(order)
        return (PlannedEpoch(k=1, gap=None, length=length, block=partial(part_of, order), kept=order.nbytes),)


@dataclass(frozen=True)
class Uniform(Replay):
    """B draws with replacement, from a seed as that of `Shuffle`: the experience replay of deep reinforcement learning.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Uniform(seed=0).plan(8)[0].positions
    array([7, 6, 5, 3, 3, 1, 1, 1])
    """

    seed: int

    def __post_init__(self) -> None:
        self._whole(seed=0)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        return (PlannedEpoch(k=1, gap=None, length=length, block=_Draws(self.seed, length).block),)


class _Draws:
    """Draws in blocks; going back to step 0 starts the same sequence again."""

    def __init__(self, seed: int, length: int) -> None:
        self.seed = seed
        self.length = length
        self.next = 0
        self.rng = np.random.default_rng(seed)

    def block(self, first: int, count: int) -> Positions:
        if first != self.next:
            self.rng = np.random.default_rng(self.seed)
            self.rng.integers(1, self.length, endpoint=True, size=first)
        self.next = first + count
        return self.rng.integers(1, self.length, endpoint=True, size=count)
