"""CTD: temporal differences on every gap-th sample with decaying steps.

Kotsalis, Lan and Li (2022), "Simple and optimal methods for stochastic variational inequalities, II", SIAM J. Optim.
Steps η_t = 2/(μ(t + t0 − 1)) with t0 = 8(L/μ)², the last iterate. μ and L are the true ones of the mean operator, and
the gap is twice the true autocorrelation time: more than anyone would know.
"""

from __future__ import annotations

import numpy as np

from multireplay.compare.methods.base import Answer, Case, Method
from multireplay.replay import Skip
from multireplay.solve import solve
from multireplay.steps import Decaying


def conditional_td(case: Case, step: float | None) -> Answer:
    """With `step`, the first step size is that many 1/L instead, and the decay is the same."""
    mu = case.world.mu
    offset = 8 * (case.world.lipschitz / mu) ** 2 if step is None else 2 / (mu * step * case.unit)
    schedule = Decaying(mu=mu, t0=max(1.0, offset))
    result = solve(case.world.problem, case.record, replay=Skip(case.gap()), step=schedule, average="none")
    epoch = result.epochs[-1]
    return Answer(np.full_like(epoch.last, np.inf) if epoch.diverged else epoch.last, epoch.taken)


METHODS = (
    Method("CTD", conditional_td, note="decaying steps from the true μ and L, oracle gap; tuned: its first step"),
)
