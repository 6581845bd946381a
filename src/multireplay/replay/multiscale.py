"""Multiscale experience replay, the paper's Algorithm 1 on a static buffer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay.errors import InputError
from multireplay.replay.base import PlannedEpoch, Positions, Replay, whole_number


@dataclass(frozen=True)
class Multiscale(Replay):
    """Epoch k takes T_k = 2^k steps at gap τ_k = B/2^k: samples ξ_{τ_k}, ξ_{2τ_k}, …, ξ_{T_kτ_k}.

    This is Algorithm 1 (alg:two) of the paper in its static form: nothing is deleted, and every epoch
    restarts from x0. Where 2^k does not divide B, step t reads 1-based position ⌊t·B/2^k⌋, so that every epoch
    still spans the whole buffer. Epoch k touches exactly 2^k distinct samples, the epochs together fewer than 2B.

    Parameters
    ----------
    epochs : int, optional
        Number of epochs K, at most ⌊log2 B⌋, which is the default.
    phases : 1
        Offsets of the gap that are replayed. Only 1, the paper's, is there so far.

    Examples
    --------
    >>> import multireplay as mr
    >>> [epoch.positions.tolist() for epoch in mr.Multiscale().plan(10)]
    [[5, 10], [2, 5, 7, 10], [1, 2, 3, 5, 6, 7, 8, 10]]
    """

    epochs: int | None = None
    phases: int = 1

    def __post_init__(self) -> None:
        if self.phases != 1:
            raise InputError(f"phases={self.phases!r} is not available: only 1, as in the paper")
        if self.epochs is not None:
            object.__setattr__(self, "epochs", whole_number("epochs", self.epochs, least=1))

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        return tuple(scale(k, length) for k in range(1, self.epoch_count(length) + 1))

    def epoch_count(self, length: int) -> int:
        """K for a buffer of `length` samples."""
        most = length.bit_length() - 1
        if most < 1:
            raise InputError("multiscale replay needs at least 2 samples; this buffer has 1")
        if self.epochs is not None and self.epochs > most:
            raise InputError(
                f"epochs={self.epochs} asks for 2^{self.epochs} steps, "
                f"but a buffer of {length} samples has at most {most} epochs"
            )
        return self.epochs or most


def scale(k: int, length: int) -> PlannedEpoch:
    """Epoch k of Algorithm 1 on a buffer of `length` samples."""
    return PlannedEpoch(k=k, gap=length / 2**k, length=2**k, block=partial(_multiples_of_gap, k, length))


def _multiples_of_gap(k: int, length: int, first: int, count: int) -> Positions:
    """⌊t·B/2^k⌋ for t = first + 1, …, first + count, without overflow.

    With t = first + j and first·B = q·2^k + r the value is q + ⌊(r + j·B)/2^k⌋, and B itself is split into
    its whole gap and remainder, so that the largest product is count·2^k.
    """
    whole, rest = divmod(length, 2**k)
    base, carry = divmod(first * rest, 2**k)
    j = np.arange(1, count + 1, dtype=np.int64)
    return np.asarray(first * whole + base + j * whole + ((carry + j * rest) >> k), dtype=np.int64)
