"""Multiscale experience replay, the paper's Algorithm 1 on a static buffer, and one of its gaps alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

from multireplay.errors import InputError
from multireplay.replay.base import LONGEST, PlannedEpoch, Replay, multiples_of_gap
from multireplay.replay.side_by_side import offset_after_offset

LONG_ENOUGH = 2**13
"""By default a chain has about this many steps, if the gap then is one of 4 to 1024."""


@dataclass(frozen=True)
class Multiscale(Replay):
    """Epoch k takes T_k = 2^k steps at gap τ_k = B/2^k: samples ξ_{τ_k}, ξ_{2τ_k}, …, ξ_{T_kτ_k}.

    This is Algorithm 1 (alg:two) of the paper in its static form: nothing is deleted, and every epoch
    restarts from x0. Where 2^k does not divide B, step t reads 1-based position ⌊t·B/2^k⌋, so that every epoch
    still spans the whole buffer. Epoch k touches exactly 2^k distinct samples, the epochs together fewer than 2B.
    Every epoch has a step of its own with `multireplay.steps.PerEpoch`, which is what ``step="auto"`` is here.

    Parameters
    ----------
    epochs : int, optional
        Number of epochs K, at most ⌊log2 B⌋, which is the default.
    phases : int or "all"
        How many of the ⌊τ_k⌋ offsets of the gap are replayed; 1, the last one, is the paper's. Epoch k then has n_k =
        min(phases, ⌊τ_k⌋) chains from the same start, whose answers are averaged: chain j = 0, …, n_k − 1 reads
        positions ⌊t·B/2^k⌋ − ⌊j·⌊τ_k⌋/n_k⌋ for t = 1, …, 2^k. No sample is read twice in an epoch, so that it uses
        exactly n_k · 2^k of the B samples: with "all", every one of them if 2^k divides B.
    sweep : bool
        One chain that visits offset after offset instead of n_k chains side by side: n_k · 2^k steps without a restart.

    Examples
    --------
    >>> import multireplay as mr
    >>> [epoch.positions.tolist() for epoch in mr.Multiscale().plan(10)]
    [[5, 10], [2, 5, 7, 10], [1, 2, 3, 5, 6, 7, 8, 10]]
    >>> epoch = mr.Multiscale(phases="all").plan(8)[0]
    >>> epoch.chains, epoch.positions.reshape(4, 2).tolist()
    (4, [[4, 8], [3, 7], [2, 6], [1, 5]])
    """

    epochs: int | None = None
    phases: int | Literal["all"] = 1
    sweep: bool = False

    def __post_init__(self) -> None:
        if self.phases != "all":
            self._whole(phases=1)
        if self.epochs is not None:
            self._whole(epochs=1)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        return tuple(self._epoch(k, length) for k in range(1, self.epoch_count(length) + 1))

    def _epoch(self, k: int, length: int) -> PlannedEpoch:
        offsets = length >> k  # ⌊τ_k⌋
        phases = offsets if self.phases == "all" else min(self.phases, offsets)
        if phases == 1:
            return scale(k, length)
        block = partial(offset_after_offset, 2**k, length, phases)
        chains, steps = (1, phases * 2**k) if self.sweep else (phases, 2**k)
        passes = length if chains > 1 and length <= LONGEST else None
        return PlannedEpoch(k=k, gap=length / 2**k, length=steps, block=block, chains=chains, side_by_side=passes)

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
            self._whole(gap=1)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        gap = self.gap or min(length, max(4, min(1024, 2 ** (length // LONG_ENOUGH).bit_length() // 2)))
        if gap > length:
            raise InputError(f"gap {gap} is larger than the buffer of {length} samples: no step could be taken")
        steps = length // gap
        block = partial(offset_after_offset, steps, length, gap)
        passes = length if gap > 1 and length <= LONGEST else None
        return (PlannedEpoch(1, length / steps, steps, block, chains=gap, forwards=gap == 1, side_by_side=passes),)


def out_of_step(gap: int, length: int) -> int:
    """The smallest prime from `gap` on that does not divide `length`, which no period of such a record has in it."""
    while length % gap == 0 or any(gap % factor == 0 for factor in range(2, math.isqrt(gap) + 1)):
        gap += 1
    return gap


def scale(k: int, length: int) -> PlannedEpoch:
    """Epoch k of Algorithm 1 on a buffer of `length` samples."""
    block = partial(multiples_of_gap, 2**k, length)
    streams = length if length <= LONGEST else None
    return PlannedEpoch(k=k, gap=length / 2**k, length=2**k, block=block, forwards=True, scale_of=streams)
