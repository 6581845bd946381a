"""Policy evaluation and GLMs in one form, F̃(x, ξ_t) = r_t(x) ψ_t, for the compiled loops of the rivals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay._jit import jit
from multireplay.bench.world import Case
from multireplay.problems import PolicyEvaluation
from multireplay.problems.links import IDENTITY, apply

HUGE = 1e60
"""A residual beyond this counts as divergence; its square is still finite."""


class Rows(NamedTuple):
    """r_t(x) = f(⟨ψ_t, x⟩) − y_t − γ_t⟨ψ'_t, x⟩. For a GLM γ_t = 0 and ψ' is never read."""

    features: Vector
    next_features: Vector
    targets: Vector
    discounts: Vector
    link: int


def rows_of(case: Case) -> Rows:
    """The samples of a case in the common form."""
    samples: Any = case.samples
    if isinstance(case.world.problem, PolicyEvaluation):
        return Rows(samples.features, samples.next_features, samples.rewards, samples.discounts, IDENTITY)
    return Rows(samples.features, samples.features, samples.targets, np.zeros(case.length), samples.link)


@jit
def residual(rows: Rows, row: int, x: Vector) -> float:
    """r_t(x)."""
    score = 0.0
    for j in range(len(x)):
        score += rows.features[row, j] * x[j]
    value = apply(rows.link, score) - rows.targets[row]
    if rows.discounts[row] != 0.0:
        ahead = 0.0
        for j in range(len(x)):
            ahead += rows.next_features[row, j] * x[j]
        value -= rows.discounts[row] * ahead
    return float(value)


@jit
def mean_operator(rows: Rows, first: int, stop: int, x: Vector, out: Vector) -> None:
    """out ← the mean of F̃(x, ξ_t) over the rows first, …, stop − 1."""
    out[:] = 0.0
    for row in range(first, stop):
        value = residual(rows, row, x) / (stop - first)
        for j in range(len(x)):
            out[j] += value * rows.features[row, j]


def lost(dim: int) -> Vector:
    """The answer of a run that diverged."""
    return np.full(dim, np.inf)
