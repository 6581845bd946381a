"""One pass in bit-reversed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions
from multireplay._jit import jit
from multireplay.errors import InputError
from multireplay.replay.base import LONGEST, PlannedEpoch, Replay


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
            raise InputError(f"dyadic order multiplies positions; {length} samples are too many (at most 2^31)")
        return (PlannedEpoch(k=1, gap=None, length=length, block=_Levels(length).block, nested=True),)


class _Levels:
    """The order in blocks, none of which is kept. Asked in order, the last level goes on where it was."""

    def __init__(self, length: int) -> None:
        self.length, self.bits = length, length.bit_length() - 1
        self.next = self.walked = 0

    def block(self, first: int, count: int) -> Positions:
        coarse = 2**self.bits
        order = np.empty(count, dtype=np.int64)
        if first != self.next:
            self.walked = 0
            if first > coarse:
                self.walked = dyadic_order(np.empty(first - coarse, dtype=np.int64), self.length, coarse, 0)
        self.walked = dyadic_order(order, self.length, first, self.walked)
        self.next = first + count
        return order


@jit
def dyadic_order(order: Positions, length: int, first: int, walked: int) -> int:
    """Fill in the 1-based positions of a dyadic pass over `length` samples from step `first` on, counted from 0.

    `walked` is how many gaps of the last level but one have been looked at before; how many have been now is returned.
    """
    bits = 0
    while 2 ** (bits + 1) <= length:
        bits += 1
    coarse = 2**bits
    filled = 0
    reverse = _reversed(first, bits)
    while filled < len(order) and first + filled < coarse:
        order[filled] = (reverse * length) >> bits if first + filled else length
        reverse = _next_reversed(reverse, coarse)
        filled += 1
    reverse = _reversed(walked, bits)
    while filled < len(order):  # the level in which neighbours of the level above have at most one sample between them
        before, after = (reverse * length) >> bits, ((reverse + 1) * length) >> bits
        if after - before == 2:
            order[filled] = before + 1
            filled += 1
        reverse = _next_reversed(reverse, coarse)
        walked += 1
    return walked


@jit
def _reversed(number: int, bits: int) -> int:
    """A number with its bits reversed."""
    found = 0
    for _ in range(bits):
        found = (found << 1) | (number & 1)
        number >>= 1
    return found


@jit
def _next_reversed(reverse: int, size: int) -> int:
    """Add 1 to a number whose bits are reversed: the carry goes down."""
    bit = size >> 1
    while reverse & bit:
        reverse ^= bit
        bit >>= 1
    return reverse | bit
