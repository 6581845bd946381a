"""Rivals of the literature: each an update of its own, at its published step sizes or at one of the grid.

μ, L and the gap of each are the true ones, which is more than anyone would know.
"""

from __future__ import annotations

import numpy as np

import multireplay as mr
from multireplay.bench.method import Answer, Method, is_rank_one
from multireplay.bench.world import Case
from multireplay.updates.base import Update
from multireplay.updates.batch_reduced import BatchExtrapolated, BatchReduced
from multireplay.updates.extrapolated import Extrapolated
from multireplay.updates.multilevel import Multilevel


def swept(case: Case, update: Update, step: float) -> Answer:
    """One sweep of an update at a step in units of 1/L."""
    result = mr.solve(case.world.problem, case.record, update=update, step=step * case.unit)
    epoch = result.epochs[-1]
    return Answer(np.full_like(result.x, np.inf) if epoch.diverged else result.x, epoch.taken)


def fast_td(case: Case, step: float | None) -> Answer:
    """FTD."""
    if step is None:
        return swept(case, Extrapolated(case.gap(), case.world.mu, 1 / case.unit), 1.0)
    return swept(case, Extrapolated(case.gap()), step)


def variance_reduced_td(case: Case, step: float | None) -> Answer:
    """VRTD."""
    return swept(case, BatchReduced(case.seed), 0.1 if step is None else step)


def variance_reduced_ftd(case: Case, step: float | None) -> Answer:
    """VRFTD."""
    return swept(case, BatchExtrapolated(case.gap()), 0.25 / case.world.lipschitz / case.unit if step is None else step)


def multilevel_adagrad(case: Case, step: float | None) -> Answer:
    """MAG, on a ball of radius 2‖x*‖."""
    radius = 2 * float(np.linalg.norm(case.world.solution))
    return swept(case, Multilevel(radius, case.seed, None if step is None else 2 * radius * step), 1.0)


METHODS = (
    Method("FTD", fast_td, works_on=is_rank_one, note="operator extrapolation with the true μ and the oracle gap"),
    Method("VRTD", variance_reduced_td, works_on=is_rank_one, note="batches of 2000 consecutive samples"),
    Method("VRFTD", variance_reduced_ftd, works_on=is_rank_one, note="8 epochs, inner batches of 16, oracle gap"),
    Method("MAG", multilevel_adagrad, works_on=is_rank_one, note="on a ball of radius 2‖x*‖; tuned: α = number × D"),
)
