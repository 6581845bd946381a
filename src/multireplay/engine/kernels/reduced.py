"""The loop of variance reduction on dense rows, with or without a preconditioner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from multireplay._jit import FAST, kernel, users_kernel
from multireplay.problems.compiled import fetch, has, move_along, residual, score
from multireplay.problems.compiled_sparse import has_sparse_rows, state_of
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.packed import IndexedTransitionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.problems.variational_inequality import UserSamples, evaluate
from multireplay.sets.projections import project
from multireplay.vectors.coordinates import dot
from multireplay.vectors.intrinsics import AHEAD


@kernel(fastmath=FAST, inline="always")
def subtract_reduced(x, row, move, step, mean, axes, stretch):  # type: ignore[no-untyped-def]
    """x ← x − move · P row − step · g."""
    for j in range(x.shape[0]):
        x[j] -= move * row[j] + step * mean[j]
    for k in range(axes.shape[0]):
        along = move * stretch[k] * dot(row, axes[k])
        for j in range(x.shape[0]):
            x[j] -= along * axes[k, j]


def move_reduced(x: Any, samples: Any, i: int, move: float, step: float, mean: Any, axes: Any, stretch: Any) -> None:
    """x ← x − move · P features[i] − step · g."""
    raise NotImplementedError


@overload(move_reduced, inline="always")
def _move_reduced(x, samples, i, move, step, mean, axes, stretch):  # type: ignore[no-untyped-def]
    if samples.instance_class in (RegressionSamples, TransitionSamples):
        return lambda x, samples, i, move, step, mean, axes, stretch: subtract_reduced(
            x, samples.features[i], move, step, mean, axes, stretch
        )
    if samples.instance_class is IndexedTransitionSamples and not has_sparse_rows(samples):
        return lambda x, samples, i, move, step, mean, axes, stretch: subtract_reduced(
            x, samples.table.rows[state_of(samples, i)], move, step, mean, axes, stretch
        )

    def sparse(x, samples, i, move, step, mean, axes, stretch):  # type: ignore[no-untyped-def]
        """On a feasible set, and so without axes: a preconditioner does not commute with a projection."""
        for j in range(x.shape[0]):
            x[j] -= step * mean[j]
        move_along(x, samples, i, move)

    return sparse


def descend_reduced(
    x: Any, samples: Any, i: int, step: float, limit: float, anchor: Any, mean: Any, axes: Any, stretch: Any, out: Any
) -> bool:
    """x ← x − η(P(F̃(x, ξ_i) − F̃(x̃, ξ_i)) + g) in place; False, with x untouched, beyond the limit.

    g is the preconditioned mean operator at the anchor x̃. An anchor without coordinates stands for a plain step.
    """
    raise NotImplementedError


# The scores at x and at the anchor are taken while the row is in the cache, and the row is then added once for both.
@overload(descend_reduced)
def _descend_reduced(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
    if samples.instance_class is UserSamples:

        def user(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
            evaluate(samples.operator, anchor, samples.rows[i], out)
            reference = out.copy()
            for j in range(out.shape[0]):
                out[j] = np.nan
            evaluate(samples.operator, x, samples.rows[i], out)
            for j in range(out.shape[0]):
                if not abs(out[j]) <= limit:
                    return False
            for j in range(x.shape[0]):
                x[j] -= step * (out[j] - reference[j] + mean[j])
            return True

        return user

    if has(samples, "ridge"):

        def penalized(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
            r = residual(score(x, samples, i), samples, i)
            if not abs(r) <= limit:
                return False
            ridge, last = samples.ridge, x.shape[0] - samples.unpenalized
            if anchor.shape[0] > 0:
                r -= residual(score(anchor, samples, i), samples, i)
            features = samples.features[i]
            for j in range(x.shape[0]):
                out[j] = r * features[j]
            for j in range(last):
                out[j] += ridge * x[j]
            if anchor.shape[0] > 0:
                for j in range(last):
                    out[j] -= ridge * anchor[j]
            for j in range(x.shape[0]):
                x[j] -= step * (out[j] + mean[j])
            for k in range(axes.shape[0]):
                along = step * stretch[k] * dot(out, axes[k])
                for j in range(x.shape[0]):
                    x[j] -= along * axes[k, j]
            return True

        return penalized

    def rank_one(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            return False
        if anchor.shape[0] > 0:
            r -= residual(score(anchor, samples, i), samples, i)
        move_reduced(x, samples, i, step * r, step, mean, axes, stretch)
        return True

    return rank_one


def _advance_reduced(  # type: ignore[no-untyped-def]
    samples, spec, positions, steps, weights, limit, x, total, anchor, mean, axes, stretch, out, taken
):
    """As `loops.advance`, with the steps of `descend_reduced`."""
    for t in range(positions.shape[0]):
        if t + AHEAD < positions.shape[0]:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        i = positions[t] - 1
        if not descend_reduced(x, samples, i, steps[t], limit, anchor, mean, axes, stretch, out):
            return
        if spec is not None:
            project(x, spec)
        weight = weights[t]
        if weight > 0.0:
            for j in range(x.shape[0]):
                total[j] += weight * x[j]
    taken[0] = positions.shape[0]


advance_reduced, advance_reduced_users = kernel(_advance_reduced), users_kernel(_advance_reduced)
