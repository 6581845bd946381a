"""What chance does to a mean over rollouts, from the episodes of the rollouts and of the record together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multireplay._check import Positions, Vector

FAR = 3.0
"""Standard errors beyond which a difference is no chance, where errors are normal."""
RARE = 0.9973
"""The share of what chance does that lies within them."""
DRAWS = 4000
NUMBERS = 2**24
BATCHES = 32


class Totals(NamedTuple):
    """By episode: the sum of the gaps between value and return over some of its rows, and how many those are."""

    sums: Vector
    counts: Positions

    @property
    def reached(self) -> int:
        """Episodes with such a row."""
        return int(np.count_nonzero(self.counts))

    @property
    def centred(self) -> Vector:
        """The sums less what they would be if the gap were the same everywhere."""
        mean = self.sums.sum() / max(1, int(self.counts.sum()))
        return np.asarray(self.sums - mean * self.counts)


def errors_of(parts: Sequence[Totals], own: float) -> tuple[float, float]:
    """Standard error of the mean gap of the rollouts, and the difference that is beyond chance.

    Parameters
    ----------
    parts : sequence of Totals
        Those of the rollouts, and those of the record where it is known: its many episodes say how much returns vary
        even if no rollout saw a rare reward.
    own : float
        Standard error of the estimate's mean over the same states, NaN if it is not known.
    """
    rollouts, visits = len(parts[0].counts), int(parts[0].counts.sum())
    centred = np.concatenate([part.centred for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    here = float(np.sum(parts[0].centred ** 2)) * rollouts / (rollouts - 1) / visits**2
    square = float(np.mean(centred**2))
    pooled = square / float(counts.mean()) / visits
    error, own = math.sqrt(max(here, pooled)), 0.0 if math.isnan(own) else own
    rng = np.random.default_rng(0)
    draws = max(400, min(DRAWS, NUMBERS // rollouts))
    chosen = rng.integers(len(centred), size=(draws, rollouts))
    unit = centred[chosen].sum(axis=1) / math.sqrt(rollouts * square) if square > 0 else np.zeros(draws)
    moved = np.abs(error * unit + own * rng.standard_t(BATCHES - 1, size=draws))
    total = math.hypot(error, own)
    return total, max(FAR * total, float(np.quantile(moved, RARE)))
