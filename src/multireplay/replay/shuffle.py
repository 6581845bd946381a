"""One pass in random order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions, whole_number
from multireplay.replay.base import PlannedEpoch, Replay


@dataclass(frozen=True)
class Shuffle(Replay):
    """Every sample once, in random order: what most people do, and hard to beat.

    Parameters
    ----------
    seed : int
        Seed of the permutation; the same seed gives the same order.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Shuffle(seed=0).plan(8)[0].positions
    array([3, 5, 4, 7, 6, 1, 2, 8])
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed, least=0))

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        order = np.random.default_rng(self.seed).permutation(length).astype(np.int64, copy=False) + 1
        return (PlannedEpoch(k=1, gap=None, length=length, block=partial(_part, order)),)


def _part(order: Positions, first: int, count: int) -> Positions:
    return order[first : first + count]
