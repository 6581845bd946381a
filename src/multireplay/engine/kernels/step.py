"""The compiled step, one function for every problem, set and order.

What F̃ is on a sample comes from `problems.compiled`, resolved by the type of the packed samples. The feasible set
travels as an array of numbers, see `multireplay.sets`, or as None.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from multireplay.problems.compiled import (
    fetch,
    fetch_numbers,
    has,
    has_dense_rows,
    move_along,
    move_and_add,
    residual,
    score,
)
from multireplay.problems.variational_inequality import UserSamples, evaluate
from multireplay.sets.projections import project
from multireplay.vectors.coordinates import INLINE


def descend(x: Any, samples: Any, i: int, step: float, limit: float, out: Any) -> bool:
    """x ← x − η F̃(x, ξ_i) in place; False, with x untouched, where F̃ is not finite or beyond the limit."""
    raise NotImplementedError


@overload(descend)
def _descend(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
    if samples.instance_class is UserSamples:

        def user(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
            for j in range(out.shape[0]):
                out[j] = np.nan
            evaluate(samples.operator, x, samples.rows[i], out)
            for j in range(out.shape[0]):
                if not abs(out[j]) <= limit:
                    return False
            for j in range(x.shape[0]):
                x[j] -= step * out[j]
            return True

        return user

    if has(samples, "ridge"):

        def penalized(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
            r = residual(score(x, samples, i), samples, i)
            if not abs(r) <= limit:
                return False
            features = samples.features[i]
            move = step * r
            shrink = step * samples.ridge
            for j in range(x.shape[0] - samples.unpenalized):
                x[j] -= shrink * x[j]
            for j in range(x.shape[0]):
                x[j] -= move * features[j]
            return True

        return penalized

    def rank_one(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            return False
        move_along(x, samples, i, step * r)
        return True

    return rank_one


def step_once(
    x: Any, total: Any, samples: Any, i: Any, step: float, weight: float, limit: float, spec: Any, out: Any, later: int
) -> bool:
    """x ← Π(x − η F̃(x, ξ_i)) and total ← total + weight · x, and ask for a later sample; False as for `descend`.

    A `spec` of None stands for the whole space.
    """
    raise NotImplementedError


@overload(step_once, jit_options=INLINE)
def _step_once(x, total, samples, i, step, weight, limit, spec, out, later):  # type: ignore[no-untyped-def]
    everywhere = isinstance(spec, types.NoneType)
    if everywhere and has_dense_rows(samples) and not has(samples, "ridge"):

        def fused(x, total, samples, i, step, weight, limit, spec, out, later):  # type: ignore[no-untyped-def]
            fetch_numbers(samples, later)
            r = residual(score(x, samples, i), samples, i)
            if not abs(r) <= limit:
                return False
            move_and_add(x, total, samples, i, step * r, weight, later)
            return True

        return fused

    def step_by_step(x, total, samples, i, step, weight, limit, spec, out, later):  # type: ignore[no-untyped-def]
        fetch(samples, later)
        if not descend(x, samples, i, step, limit, out):
            return False
        if not everywhere:
            project(x, spec)
        if weight > 0.0:
            for j in range(x.shape[0]):
                total[j] += weight * x[j]
        return True

    return step_by_step
