"""What a replay scheme is: a rule that turns a buffer length into a plan of epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions, whole_number
from multireplay.buffer.buffer import MAX_ROWS
from multireplay.errors import InputError

BLOCK = 2**15
"""Positions are made this many at a time, so that a plan never needs memory for a whole pass."""
LONGEST = 2**31
"""Up to this length of a buffer the product of two positions fits in 64 bits."""


@dataclass(frozen=True)
class PlannedEpoch:
    """One epoch of a plan: which samples, in which order.

    Attributes
    ----------
    k : int
        The paper's epoch number; 1 for schemes with a single epoch.
    gap : float or None
        Distance between consecutive samples (the paper's τ_k), None where there is no fixed distance.
    length : int
        Number of steps of a chain, T_k.
    chains : int
        Independent chains, each from the same start, whose answers are averaged. Their positions come chain after
        chain.
    """

    k: int
    gap: float | None
    length: int
    block: Callable[[int, int], Positions]
    """``block(first, count)``: the 1-based positions of steps first, …, first + count − 1 (from 0), asked in order."""
    chains: int = 1
    forwards: bool = False
    """Whether one chain reads positions that increase."""

    scale_of: int | None = None
    """B, for an epoch of static multiscale replay with one phase: all of those can be run in one pass."""

    side_by_side: int | None = None
    """B, where chain j reads position ⌊t·B/T⌋ − ⌊j·⌊B/T⌋/n⌋ in step t of T: all chains can be run in one pass."""

    kept: int = 0
    """Bytes of memory that the order takes as long as the plan is there."""

    nested: bool = False
    """Whether every half of the order lies between the samples of the half before it, as in bit-reversed order."""

    @property
    def steps(self) -> int:
        """Steps of all chains together."""
        return self.length * self.chains

    def blocks(self, size: int = BLOCK) -> Iterator[Positions]:
        """Yield the 1-based positions in order, at most `size` at a time."""
        for first in range(0, self.steps, size):
            yield self.block(first, min(size, self.steps - first))

    @property
    def positions(self) -> Positions:
        """All 1-based positions of the epoch as one array."""
        return np.concatenate(list(self.blocks()))


class Replay(ABC):
    """A replay scheme. It knows nothing of problems: ``plan(B)`` is all it does."""

    def plan(self, length: int) -> tuple[PlannedEpoch, ...]:
        """The epochs for a buffer of `length` samples.

        Examples
        --------
        >>> import multireplay as mr
        >>> for epoch in mr.Multiscale().plan(8):
        ...     print(epoch.k, epoch.gap, epoch.length, epoch.positions)
        1 4.0 2 [4 8]
        2 2.0 4 [2 4 6 8]
        3 1.0 8 [1 2 3 4 5 6 7 8]
        """
        if type(length) is not int or length < 1:
            length = whole_number("the number of samples", length, least=1)
        if length > MAX_ROWS:
            raise InputError(f"{length} samples are more than the {MAX_ROWS} that positions are computed for")
        return self._epochs(length)

    @abstractmethod
    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]: ...

    def _whole(self, **least: int) -> None:
        """Check that the fields of these names are whole numbers of at least so much."""
        for name, low in least.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least=low))


def part_of(order: NDArray[Any], first: int, count: int) -> Positions:
    """The `block` of an order that is kept as one array, of a shorter type where that will do."""
    return order[first : first + count].astype(np.int64, copy=False)


def multiples_of_gap(steps: int, length: int, first: int, count: int) -> Positions:
    """⌊t·B/T⌋ for t = first + 1, …, first + count, without overflow.

    With t = first + j and first·B = q·T + r the value is q + ⌊(r + j·B)/T⌋, and B itself is split into its whole gap
    and remainder, so that the largest product is count·T.
    """
    whole, rest = divmod(length, steps)
    base, carry = divmod(first * rest, steps)
    j = np.arange(1, count + 1, dtype=np.int64)
    return np.asarray(first * whole + base + j * whole + (carry + j * rest) // steps, dtype=np.int64)
