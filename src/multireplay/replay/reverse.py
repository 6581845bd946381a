"""Reverse experience replay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions, whole_number
from multireplay.errors import InputError
from multireplay.replay.base import PlannedEpoch, Replay


@dataclass(frozen=True)
class Reverse(Replay):
    """Blocks of consecutive samples, each replayed backwards, with a gap thrown away between blocks.

    Going backwards makes the errors within a block a reverse martingale (Kowshik et al. 2021, Agarwal et al. 2021);
    the gap keeps blocks nearly independent. A shorter block at the end of the buffer is replayed too.

    Parameters
    ----------
    block : int
        Samples in a block.
    gap : int
        Samples thrown away after each block, 0 by default.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Reverse(block=3, gap=1).plan(9)[0].positions
    array([3, 2, 1, 7, 6, 5, 9])
    """

    block: int
    gap: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", whole_number("block", self.block, least=1))
        object.__setattr__(self, "gap", whole_number("gap", self.gap, least=0))

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        if self.gap > length:
            raise InputError(f"gap {self.gap} is larger than the buffer of {length} samples")
        period = self.block + self.gap
        cycles, rest = divmod(length, period)
        steps = cycles * self.block + min(rest, self.block)
        return (PlannedEpoch(k=1, gap=None, length=steps, block=partial(_backwards, self.block, period, length)),)


def _backwards(block: int, period: int, length: int, first: int, count: int) -> Positions:
    step = np.arange(first, first + count, dtype=np.int64)
    cycle, within = np.divmod(step, block)
    start = cycle * period
    size = np.minimum(block, length - start)  # the last block may be shorter
    return np.asarray(start + size - within, dtype=np.int64)
