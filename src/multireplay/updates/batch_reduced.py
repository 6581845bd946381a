"""VRTD and VRFTD: variance reduction against the mean operator of a batch, on consecutive batches of the record.

VRTD is from Korda and La (2015) and Xu, Wang, Zhou and Liang (2020), "Reanalysis of variance reduced temporal
difference learning". Batch m is the next M samples; with ĝ the batch's mean operator at the anchor x̃, M inner steps
x ← x − α(F̃(x, ξ_j) − F̃(x̃, ξ_j) + ĝ) on samples ξ_j drawn from the batch; the next anchor is the average of the inner
iterates. Published: α = 0.1 for ‖ψ‖ ≤ 1, M = 2000.

VRFTD is from Li, Lan and Pananjady (2023), "Accelerated and instance-optimal policy evaluation with linear function
approximation". Epochs with a growing batch of N_k ∝ (4/3)^k samples for ĝ, then steps of operator extrapolation (λ = 1)
on F̃(x, ·) − F̃(x̃, ·) + ĝ, each on a small batch of m samples after `gap` samples thrown away against dependence; the
next anchor is the average of the iterates. Published: η = 1/(4L) with L of the mean operator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions, Vector
from multireplay._jit import jit
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
    rows: RankOne, batches: Positions, inner: int, gap: int, small: int, step: float, anchor: Vector
) -> int:
    """VRFTD in place in `anchor`; the number of samples read, or −1 if it diverged."""
    dim = len(anchor)
    mean, x, total = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    now, before, base = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    place, touched = 0, 0
    for batch in batches:
        mean_operator(rows, place, place + batch, anchor, mean)
        place += batch
        touched += batch
        x[:] = anchor
        total[:] = 0.0
        for t in range(inner):
            place += gap - 1
            mean_operator(rows, place, place + small, x, now)
            mean_operator(rows, place, place + small, anchor, base)
            place += small
            touched += small
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
    return touched


def batches_of(length: int, gap: int) -> tuple[Positions, int, int, int]:
    """Batch sizes of the epochs, inner steps of an epoch, their gap and their samples: half of the record each."""
    shares = (4 / 3) ** np.arange(EPOCHS)
    small = min(INNER_BATCH, max(1, length // (4 * EPOCHS)))
    gap = max(1, min(gap, length // (2 * EPOCHS) - small))
    inner = max(1, length // 2 // EPOCHS // (gap - 1 + small))
    batches = (shares / shares.sum() * (length - EPOCHS * inner * (gap - 1 + small))).astype(np.int64)
    return np.maximum(batches, 1), inner, gap, small


@dataclass(frozen=True)
class BatchExtrapolated(Sweep):
    """Variance reduction and operator extrapolation in epochs of growing batches (VRFTD)."""

    gap: int = 1

    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """One sweep, epoch after epoch."""
        return x, reduce_and_extrapolate(rows, *batches_of(len(rows.targets), self.gap), step, x)
