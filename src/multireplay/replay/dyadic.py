"""One pass in bit-reversed order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions
from multireplay._jit import jit
from multireplay.errors import InputError
from multireplay.replay.base import LONGEST, PlannedEpoch, Replay, part_of


@dataclass(frozen=True)
class Dyadic(Replay):
    """Every sample once, coarse to fine: the first 2^k samples are exactly those of `Multiscale`'s epoch k.

    The order is bit-reversed: ξ_B, then ξ_{B/2}, then ξ_{B/4}, ξ_{3B/4}, and so on. Within the first 2^k steps the
    samples are at least ⌊B/2^k⌋ apart in time, whatever k is, and no random numbers are needed. For B not a power of
    two the same positions ⌊t·B/2^K⌋ with K = ⌈log2 B⌉ are visited in the same order and each sample is taken the
    first time it comes up, so that each of the B samples is used exactly once and the prefix property holds for every
    k up to ⌊log2 B⌋.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Dyadic().plan(8)[0].positions
    array([8, 4, 2, 6, 1, 5, 3, 7])
    >>> mr.Dyadic().plan(6)[0].positions
    array([6, 3, 1, 4, 2, 5])
    """

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        if length > LONGEST:
            raise InputError(
                f"dyadic order keeps 8 bytes a sample in memory; {length} samples are too many (at most 2^31)"
            )
        order = dyadic_order(length)
        return (PlannedEpoch(k=1, gap=None, length=length, block=partial(part_of, order), nested=True),)


@jit
def dyadic_order(length: int) -> Positions:
    """The 1-based positions of one dyadic pass over `length` samples."""
    order = np.empty(length, dtype=np.int64)
    bits = 0
    while 2 ** (bits + 1) <= length:
        bits += 1
    coarse = 2**bits
    reverse = 0  # i with its bits reversed
    for i in range(coarse):
        order[i] = (reverse * length) >> bits if i else length
        reverse = _next_reversed(reverse, coarse)
    filled = coarse
    reverse = 0
    for _ in range(coarse):  # the level in which two neighbours of the level above have at most one sample between them
        before, after = (reverse * length) >> bits, ((reverse + 1) * length) >> bits
        if after - before == 2:
            order[filled] = before + 1
            filled += 1
        reverse = _next_reversed(reverse, coarse)
    return order


@jit
def _next_reversed(reverse: int, size: int) -> int:
    """Add 1 to a number whose bits are reversed: the carry goes down."""
    bit = size >> 1
    while reverse & bit:
        reverse ^= bit
        bit >>= 1
    return reverse | bit
