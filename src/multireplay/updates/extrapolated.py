"""Operator extrapolation, FTD on every gap-th sample.

Kotsalis, Lan and Li (2022), "Simple and optimal methods for stochastic variational inequalities", I and II, SIAM J.
Optim.: x_{t+1} = x_t − η_t(F̃_t(x_t) + λ_t(F̃_t(x_t) − F̃_{t−1}(x_{t−1}))), and the last iterate as the answer. With
decreasing steps it is said to be run by its authors at η_t = 4/(μ(t0 + t)) and λ_t = 1 − 2/(t + t0 + 2); we have not
seen that code. The two fit together: λ_t = θ_{t−1}η_{t−1}/(θ_tη_t) for θ_t = (t + t0)(t + t0 + 1)(t + t0 + 2), as their
analysis wants. Our reading: t0 = 16L/μ, with which every step is below 1/(4L); and L is that of the sample operators,
not of their mean, with which the first steps are so long that the noise, which grows with x, throws the iterates far
out. At a step of one's own it is constant, λ = 1, and iterates are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Positions, Vector
from multireplay._jit import jit
from multireplay.updates.rank_one import HUGE, RankOne, Sweep, residual

TAIL = 7 / 8
"""Share of the iterates that is averaged at a constant step."""


@jit
def extrapolate(
    rows: RankOne, order: Positions, steps: Vector, weights: Vector, skipped: int, x: Vector, mean: Vector
) -> bool:
    """Run in place from x; `mean` becomes the average of the iterates after the first `skipped`. False: it diverged."""
    before, before_row = 0.0, -1
    for t in range(len(order)):
        row = order[t]
        now = residual(rows, row, x)
        if not abs(now) < HUGE:
            return False
        if before_row < 0:
            before, before_row = now, row
        for j in range(len(x)):
            here = now * rows.features[row, j]
            x[j] -= steps[t] * (here + weights[t] * (here - before * rows.features[before_row, j]))
        before, before_row = now, row
        if t >= skipped:
            for j in range(len(x)):
                mean[j] += x[j] / (len(order) - skipped)
    return True


def decreasing_steps(mu: float, lipschitz: float, count: int) -> tuple[Vector, Vector]:
    """η_t and λ_t for t = 1, …, count."""
    time = np.arange(1, count + 1) + 16 * lipschitz / mu
    return 4 / (mu * time), 1 - 2 / (time + 2)


@dataclass(frozen=True)
class Extrapolated(Sweep):
    """Operator extrapolation on every gap-th sample (FTD).

    With both `mu` and `lipschitz` it takes the decreasing step sizes; otherwise the constant step of the run.
    """

    gap: int = 1
    mu: float | None = None
    lipschitz: float | None = None

    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """One pass over every gap-th sample."""
        order, mean = np.arange(self.gap - 1, len(rows.targets), self.gap, dtype=np.int64), np.zeros_like(x)
        steps, weights = np.full(len(order), step), np.ones(len(order))
        if self.mu is not None and self.lipschitz is not None:
            steps, weights = decreasing_steps(self.mu, self.lipschitz, len(order))
        going = extrapolate(rows, order, steps, weights, len(order) - int(np.ceil(TAIL * len(order))), x, mean)
        averaged = self.mu is None or self.lipschitz is None
        return mean if averaged else x, len(order) if going else -1
