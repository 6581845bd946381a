"""The record in its own order: all of it, every gap-th sample of it, or blocks of it backwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions
from multireplay.errors import InputError
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
        return (PlannedEpoch(k=1, gap=1.0, length=length, block=partial(_every, 1), forwards=True),)


@dataclass(frozen=True)
class Skip(Replay):
    """Samples ξ_g, ξ_2g, ξ_3g, …: sample skipping, CTD (paper, Eq. TD_update).

    Parameters
    ----------
    gap : int
        Distance g between consecutive samples, ideally about the mixing time.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Skip(3).plan(10)[0].positions
    array([3, 6, 9])
    """

    gap: int

    def __post_init__(self) -> None:
        self._whole(gap=1)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        if self.gap > length:
            raise InputError(f"gap {self.gap} is larger than the buffer of {length} samples: no step could be taken")
        block = partial(_every, self.gap)
        return (PlannedEpoch(k=1, gap=float(self.gap), length=length // self.gap, block=block, forwards=True),)


def _every(gap: int, first: int, count: int) -> Positions:
    return np.arange((first + 1) * gap, (first + count) * gap + 1, gap, dtype=np.int64)


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
        self._whole(block=1, gap=0)

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
