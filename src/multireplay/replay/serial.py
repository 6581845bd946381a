"""The record in its own order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions
from multireplay.replay.base import PlannedEpoch, Replay


@dataclass(frozen=True)
class Serial(Replay):
    """Every sample once, in order: serial stochastic approximation, TD.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Serial().plan(5)[0].positions
    array([1, 2, 3, 4, 5])
    """

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        return (PlannedEpoch(k=1, gap=1.0, length=length, block=_consecutive, forwards=True),)


def _consecutive(first: int, count: int) -> Positions:
    return np.arange(first + 1, first + count + 1, dtype=np.int64)
