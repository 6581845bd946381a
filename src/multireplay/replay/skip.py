"""Every gap-th sample, for those who know the mixing time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions, whole_number
from multireplay.errors import InputError
from multireplay.replay.base import PlannedEpoch, Replay


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
        object.__setattr__(self, "gap", whole_number("gap", self.gap, least=1))

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        if self.gap > length:
            raise InputError(f"gap {self.gap} is larger than the buffer of {length} samples: no step could be taken")
        block = partial(_multiples, self.gap)
        return (PlannedEpoch(k=1, gap=float(self.gap), length=length // self.gap, block=block, forwards=True),)


def _multiples(gap: int, first: int, count: int) -> Positions:
    return np.arange(first + 1, first + count + 1, dtype=np.int64) * gap
