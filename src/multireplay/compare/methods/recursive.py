"""Recursive LSTD(λ), the exact fit one sample at a time by the Sherman–Morrison formula.

Bradtke and Barto (1996) for λ = 0, Boyan (2002) and Xu, He and Hu (2002) for traces. With z_t = γλz_{t−1} + ψ_t and
u_t = ψ_t − γψ_{t+1}: P ← P − Pz uᵀP/(1 + uᵀPz), θ ← θ + Pz(r − uᵀθ), from P = βI. No step size; O(d²) a sample. With
λ > 0 its limit is another projection of the value function than x*, unless the features can represent it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from multireplay._check import Vector
from multireplay._jit import jit
from multireplay.compare.methods.base import Answer, Case, Method, is_policy_evaluation
from multireplay.compare.methods.rows import Rows, rows_of
from multireplay.compare.worlds import World

START = 1e6
"""β, in units of 1/L."""
WIDEST = 500


@jit
def recurse(rows: Rows, trace: float, start: float) -> Vector:
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
    return is_policy_evaluation(world) and len(world.solution) <= WIDEST


def recursive_lstd(trace: float, case: Case, step: float | None) -> Answer:
    """One pass in order."""
    return Answer(recurse(rows_of(case), trace, START * case.unit), case.length)


METHODS = tuple(
    Method(
        f"recursive LSTD({trace:g})", partial(recursive_lstd, trace), published="-", tuned=False,
        works_on=is_narrow_policy_evaluation, note=note,
    )
    for trace, note in ((0.0, "O(d²) a sample"), (0.5, "its limit is x* only where values are representable"))
)  # fmt: skip
