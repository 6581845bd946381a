"""All offsets of one gap, side by side, in one pass over the record in order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from multireplay._check import whole_number
from multireplay.errors import InputError
from multireplay.replay.base import LONGEST, PlannedEpoch, Replay
from multireplay.replay.side_by_side import offset_after_offset

LONG_ENOUGH = 2**13
"""By default a chain has about this many steps, if the gap then is one of 4 to 1024."""


@dataclass(frozen=True)
class Interleaved(Replay):
    """`gap` chains side by side: chain j takes every gap-th sample, beginning at offset j; their answers are averaged.

    This is one epoch of ``Multiscale(phases="all")`` at a gap of one's own. Every chain sees samples `gap` apart in
    time, all chains together use T · gap of the B samples, T = ⌊B/gap⌋, which is all of them but fewer than 2 · gap;
    and since neighbouring samples belong to neighbouring chains, memory or a disk is read strictly in order, by all
    cores: the fastest way to use a whole record once. Each chain has only B/gap steps to forget its start.

    Parameters
    ----------
    gap : int, optional
        Number of chains, and distance of a chain's samples. By default the power of two from 4 to 1024 that gives a
        chain about 2^13 steps.

    Examples
    --------
    >>> import multireplay as mr
    >>> epoch = mr.Interleaved(4).plan(12)[0]
    >>> epoch.chains, epoch.positions.reshape(4, 3).tolist()
    (4, [[4, 8, 12], [3, 7, 11], [2, 6, 10], [1, 5, 9]])
    """

    gap: int | None = None

    def __post_init__(self) -> None:
        if self.gap is not None:
            object.__setattr__(self, "gap", whole_number("gap", self.gap, least=1))

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        gap = self.gap or min(length, max(4, min(1024, 2 ** (length // LONG_ENOUGH).bit_length() // 2)))
        if gap > length:
            raise InputError(f"gap {gap} is larger than the buffer of {length} samples: no step could be taken")
        steps = length // gap
        return (
            PlannedEpoch(
                k=1,
                gap=length / steps,
                length=steps,
                block=partial(offset_after_offset, steps, length, gap),
                chains=gap,
                forwards=gap == 1,
                side_by_side=length if gap > 1 and length <= LONGEST else None,
            ),
        )
