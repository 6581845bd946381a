"""VRTD and VRFTD: variance reduction against the mean operator of a batch, on consecutive batches of the record.

VRTD is from Korda and La (2015) and Xu, Wang, Zhou and Liang (2020), "Reanalysis of variance reduced temporal
difference learning". Batch m is the next M samples; with ĝ the batch's mean operator at the anchor x̃, M inner steps
x ← x − α(F̃(x, ξ_j) − F̃(x̃, ξ_j) + ĝ) on samples ξ_j drawn from the batch; the next anchor is the average of the inner
iterates. α = 0.1 for ‖ψ‖ ≤ 1 and M = 2000 are our reading of their experiments.

VRFTD is from Li, Lan and Pananjady (2023), "Accelerated and instance-optimal policy evaluation with linear function
approximation". Epochs with a growing batch of N_k samples for ĝ, then steps of operator extrapolation (λ = 1) on
F̃(x, ·) − F̃(x̃, ·) + ĝ, each on a small batch of m samples; the next anchor is the average of the iterates. Our
reading, for want of their code: on a dependent record every sample, of either batch, is `gap` samples from the one
before; η = 1/(4L) with L of the mean operator, N_k ∝ (4/3)^k, 8 epochs, m = 16, and half of the samples for the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions, Vector
from multireplay._jit import jit
from multireplay.errors import InputError
from multireplay.updates.rank_one import HUGE, RankOne, Sweep, mean_operator, residual

BATCH = 2000
EPOCHS = 8
INNER_BATCH = 16


@jit
def reduce_variance(rows: RankOne, batch: int, draws: Positions, step: float, anchor: Vector) -> bool:
    """One sweep over the record, batch by batch, in place in `anchor`. `draws` are uniform in 0, …, batch − 1."""
    mean, x, total = np.zeros_like(anchor), np.zeros_like(anchor), np.zeros_like(anchor)
    for first in range(0, len(rows.targets) - batch + 1, batch):
        mean_operator(rows, first, first + batch, anchor, mean)
        x[:] = anchor
        total[:] = 0.0
        for t in range(batch):
            row = first + draws[first + t]
            change = residual(rows, row, x) - residual(rows, row, anchor)
            if not abs(change) < HUGE:
                return False
            for j in range(len(x)):
                x[j] -= step * (change * rows.features[row, j] + mean[j])
                total[j] += x[j]
        anchor[:] = total / batch
    return True


@dataclass(frozen=True)
class BatchReduced(Sweep):
    """Variance reduction on batches of consecutive samples (VRTD); every sample is read twice on average."""

    seed: int = 0
    batch: int = BATCH

    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """One sweep, batch after batch."""
        length = len(rows.targets)
        batch = max(1, min(self.batch, length // 8))
        draws = np.random.default_rng(self.seed).integers(batch, size=length)
        going = reduce_variance(rows, batch, draws, step, x)
        return x, 2 * batch * (length // batch) if going else -1


@jit
def reduce_and_extrapolate(
    rows: RankOne, batches: Positions, inner: int, small: int, step: float, anchor: Vector
) -> int:
    """VRFTD on all rows, in place in `anchor`; the number of samples read, or −1 if it diverged."""
    dim = len(anchor)
    mean, x, total = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    now, before, base = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    place = 0
    for batch in batches:
        mean_operator(rows, place, place + batch, anchor, mean)
        place += batch
        x[:] = anchor
        total[:] = 0.0
        for t in range(inner):
            mean_operator(rows, place, place + small, x, now)
            mean_operator(rows, place, place + small, anchor, base)
            place += small
            for j in range(dim):
                now[j] += mean[j] - base[j]
                if not abs(now[j]) < HUGE:
                    return -1
                if t == 0:
                    before[j] = now[j]
                x[j] -= step * (2 * now[j] - before[j])
                before[j] = now[j]
                total[j] += x[j]
        anchor[:] = total / inner
    return place


def batches_of(count: int) -> tuple[Positions, int, int]:
    """Batch sizes of the epochs, inner steps of an epoch and their samples, of `count` samples: half of them each."""
    epochs = max(1, min(EPOCHS, count // 16))  # so that no share is rounded up to a sample that is not there
    shares = (4 / 3) ** np.arange(epochs)
    small = min(INNER_BATCH, max(1, count // (4 * epochs)))
    inner = max(1, count // 2 // epochs // small)
    batches = (shares / shares.sum() * (count - epochs * inner * small)).astype(np.int64)
    return batches, inner, small


@dataclass(frozen=True)
class BatchExtrapolated(Sweep):
    """Variance reduction and operator extrapolation in epochs of growing batches, on every gap-th sample (VRFTD)."""

    gap: int = 1

    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """One sweep over every gap-th sample, epoch after epoch."""
        count = len(rows.targets) // self.gap
        if count < 2:
            raise InputError(f"gap={self.gap} leaves {count} of {len(rows.targets)} samples; this update needs two")
        features, ahead, targets, discounts = (np.ascontiguousarray(c[self.gap - 1 :: self.gap]) for c in rows[:4])
        spaced = RankOne(features, ahead, targets, discounts, rows.link)
        return x, reduce_and_extrapolate(spaced, *batches_of(count), step, x)
