"""Rivals of the literature, recursive LSTD(λ), and scikit-learn's stochastic gradient descent.

FTD, VRTD, VRFTD and MAG are each an update of its own, at its own step sizes or at one of the grid. Their μ, L and gap
are the true ones, which is more than anyone would know. Where the table says "our reading", some constant of the run
could not be traced to the authors' words or code; the update says which.

Recursive LSTD(λ) is the exact fit one sample at a time by the Sherman–Morrison formula: Bradtke and Barto (1996) for
λ = 0, Boyan (2002) and Xu, He and Hu (2002) for traces. With z_t = γλz_{t−1} + ψ_t and u_t = ψ_t − γψ_{t+1}:
P ← P − Pz uᵀP/(1 + uᵀPz), θ ← θ + Pz(r − uᵀθ), from P = βI. No step size; O(d²) a sample. With λ > 0 its limit is
another projection of the value function than x*, unless the features can represent it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import multireplay as mr
from multireplay._check import Vector
from multireplay._jit import jit
from multireplay.bench.method import TAIL, Answer, Method, is_rank_one
from multireplay.bench.methods.library import DEFAULT_SHARE, sample_lipschitz, without_step
from multireplay.bench.world import Case, World
from multireplay.problems import GLM, PolicyEvaluation
from multireplay.updates.base import Update
from multireplay.updates.batch_reduced import BatchExtrapolated, BatchReduced
from multireplay.updates.extrapolated import Extrapolated
from multireplay.updates.multilevel import Multilevel
from multireplay.updates.rank_one import RankOne, rank_one

START = 1e6
"""β, in units of 1/L."""
WIDEST = 500
OURS = "our reading"
"""Of step sizes that could not be traced to the authors' words in full."""


def swept(case: Case, update: Update, step: float) -> Answer:
    """One sweep of an update at a step in units of 1/L."""
    result = mr.solve(case.world.problem, case.record, update=update, step=step * case.unit)
    epoch = result.epochs[-1]
    return Answer(np.full_like(result.x, np.inf) if epoch.diverged else result.x, epoch.taken)


def fast_td(case: Case, step: float | None) -> Answer:
    """FTD."""
    if step is None:
        return swept(case, Extrapolated(case.gap(), case.world.mu, sample_lipschitz(case)), 1.0)
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


@jit
def recurse(rows: RankOne, trace: float, start: float) -> Vector:
    """θ after one pass in order."""
    dim = rows.features.shape[1]
    theta, z, u = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    inverse = start * np.eye(dim)
    discount = 0.0  # of the row before: 0 after the end of an episode, where the trace starts again
    for row in range(len(rows.targets)):
        for j in range(dim):
            z[j] = discount * trace * z[j] + rows.features[row, j]
            u[j] = rows.features[row, j] - rows.discounts[row] * rows.next_features[row, j]
        discount = rows.discounts[row]
        right = inverse @ z
        left = u @ inverse
        scale = 1.0 + np.sum(u * right)
        error = (rows.targets[row] - np.sum(u * theta)) / scale
        for i in range(dim):
            theta[i] += right[i] * error
            share = right[i] / scale
            for j in range(dim):
                inverse[i, j] -= share * left[j]
    return theta


def is_narrow_policy_evaluation(world: World) -> bool:
    """Beyond some hundred features a pass takes minutes, for the answer of the exact fit."""
    return isinstance(world.problem, PolicyEvaluation) and len(world.solution) <= WIDEST


def recursive_lstd(trace: float, case: Case, step: float | None) -> Answer:
    """One pass in order."""
    rows = rank_one(case.samples)
    assert rows is not None
    return Answer(recurse(rows, trace, START * case.unit), case.length)


def is_known_to_sklearn(world: World) -> bool:
    """Least squares and logistic regression on 0/1 targets."""
    return isinstance(world.problem, GLM) and world.problem.link.name in ("identity", "logistic")


def _fit(case: Case, **options: Any) -> Answer:
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    features, targets = case.record["features"], case.record["targets"]
    link = case.world.problem.link.name  # type: ignore[attr-defined]
    kind = SGDClassifier if link == "logistic" else SGDRegressor
    loss = "log_loss" if link == "logistic" else "squared_error"
    try:
        model = kind(loss=loss, random_state=case.seed, **options).fit(features, targets)
    except ValueError:  # it raises where its numbers overflow
        return Answer(np.full(features.shape[1], np.inf), float("nan"))
    return Answer(np.ravel(model.coef_), model.n_iter_ * case.length)


def shuffled_and_averaged(case: Case, step: float | None) -> Answer:
    """One shuffled pass at a constant step, no penalty or intercept, the average of the last 7/8 of the iterates."""
    first = int((1 - TAIL) * case.length) + 1
    size = (DEFAULT_SHARE if step is None else step) * case.unit
    alone = {"penalty": None, "fit_intercept": False, "max_iter": 1, "tol": None}
    return _fit(case, learning_rate="constant", eta0=size, average=first, **alone)


METHODS = (
    Method(
        "FTD", fast_td, OURS, works_on=is_rank_one, note="operator extrapolation with the true μ and the oracle gap"
    ),
    Method("VRTD", variance_reduced_td, OURS, works_on=is_rank_one, note="batches of 2000 consecutive samples"),
    Method(
        "VRFTD", variance_reduced_ftd, OURS, works_on=is_rank_one,
        note="8 epochs, inner batches of 16, every sample an oracle gap from the next",
    ),
    Method(
        "MAG", multilevel_adagrad, OURS, works_on=is_rank_one,
        note="α = D/√2 on a ball of radius D/2 = 2‖x*‖; tuned: α = number × D",
    ),
    *(
        without_step(
            f"recursive LSTD({trace:g})", partial(recursive_lstd, trace), note, works_on=is_narrow_policy_evaluation
        )
        for trace, note in ((0.0, "O(d²) a sample"), (0.5, "its limit is x* only where values are representable"))
    ),
    Method(
        "scikit-learn SGD", lambda case, step: _fit(case), "its defaults", tuned=False, works_on=is_known_to_sklearn,
        note="with an intercept and a penalty, as it comes; passes until it stops by itself",
    ),
    Method(
        "scikit-learn SGD, shuffle + average", shuffled_and_averaged, published="", works_on=is_known_to_sklearn,
        note="constant step, one pass",
    ),
)  # fmt: skip
