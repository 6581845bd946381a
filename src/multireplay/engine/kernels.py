"""The compiled loop: one function for every problem, set and order.

`descend` is resolved at compile time by the type of the packed samples, so that each problem gets its own fused,
inlined loop and Numba's disk cache keeps it. (A jitted function passed as an argument would be compiled again in
every process.) The feasible set travels as an array of numbers, see `multireplay.sets`.

Numba notices a change in this file only. After changing a function that is called from here, remove the caches:
``make clean``.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from multireplay.engine.prefetch import AHEAD, fetch_number, fetch_row
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.links import IDENTITY, LOGISTIC, apply
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.problems.variational_inequality import UserSamples
from multireplay.sets.projections import project

FAST = {"reassoc", "contract", "arcp", "nsz"}  # sums may be reordered, NaN and infinity keep their meaning


@numba.njit(cache=True, fastmath=FAST, _nrt=False)
def dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(b.shape[0]):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


def has(samples: Any, field: str) -> bool:
    """Whether a field of the packed samples is not None, known when a loop is compiled."""
    fields = samples.fields
    return field in fields and not isinstance(samples.types[fields.index(field)], types.NoneType)


@numba.njit(cache=True, fastmath=FAST, _nrt=False, inline="always")
def subtract(x, row, amount):  # type: ignore[no-untyped-def]
    """x ← x − amount · row."""
    for j in range(x.shape[0]):
        x[j] -= amount * row[j]


def link_value(link: Any, z: float) -> float:
    """f(z): a built-in link by its code, the user's by calling it."""
    raise NotImplementedError


@overload(link_value)
def _link_value(link, z):  # type: ignore[no-untyped-def]
    if isinstance(link, types.Integer):
        return lambda link, z: (
            1.0 / (1.0 + math.exp(-z)) if link == LOGISTIC else z if link == IDENTITY else apply(link, z)
        )
    return lambda link, z: link(z)


def score(x: Any, samples: Any, i: int) -> float:
    """The linear functional of x that F̃(x, ξ_i) depends on: ⟨a, x⟩, or ⟨ψ − γψ', x⟩ for policy evaluation."""
    raise NotImplementedError


@overload(score)
def _score(x, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples:
        return lambda x, samples, i: dot(samples.features[i], x)
    if samples.instance_class is TransitionSamples:
        return lambda x, samples, i: (
            dot(samples.features[i], x) - samples.discounts[i] * dot(samples.next_features[i], x)
        )
    return None


def residual(value: float, samples: Any, i: int) -> float:
    """The number r with F̃(x, ξ_i) = r · features[i], given the score of x."""
    raise NotImplementedError


@overload(residual)
def _residual(value, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples and has(samples, "weights"):
        return lambda value, samples, i: samples.weights[i] * (link_value(samples.link, value) - samples.targets[i])
    if samples.instance_class is RegressionSamples:
        return lambda value, samples, i: link_value(samples.link, value) - samples.targets[i]
    if samples.instance_class is TransitionSamples:
        return lambda value, samples, i: value - samples.rewards[i]
    return None


def move_along(x: Any, samples: Any, i: int, amount: float) -> None:
    """x ← x − amount · features[i]."""
    raise NotImplementedError


@overload(move_along, inline="always")
def _move_along(x, samples, i, amount):  # type: ignore[no-untyped-def]
    if samples.instance_class in (RegressionSamples, TransitionSamples):
        return lambda x, samples, i, amount: subtract(x, samples.features[i], amount)
    return None


def across(samples: Any, i: int, following: int) -> float:
    """The score of features[i] on the sample that follows, for dense features."""
    raise NotImplementedError


@overload(across, inline="always")
def _across(samples, i, following):  # type: ignore[no-untyped-def]
    if samples.instance_class in (RegressionSamples, TransitionSamples):
        return lambda samples, i, following: score(samples.features[i], samples, following)
    return None


def descend(x: Any, samples: Any, i: int, step: float, limit: float, out: Any) -> bool:
    """x ← x − η F̃(x, ξ_i) in place; False, with x untouched, where F̃ is not finite or beyond the limit."""
    raise NotImplementedError


@overload(descend)
def _descend(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
    if samples.instance_class is UserSamples:

        def user(x, samples, i, step, limit, out):  # type: ignore[no-untyped-def]
            for j in range(out.shape[0]):
                out[j] = np.nan
            samples.operator(x, samples.rows[i], out)
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


def fetch(samples: Any, i: int) -> None:
    """Ask for sample i before it is needed."""
    raise NotImplementedError


@overload(fetch)
def _fetch(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples and has(samples, "weights"):

        def weighted(samples, i):  # type: ignore[no-untyped-def]
            fetch_row(samples.features, i)
            fetch_number(samples.targets, i)
            fetch_number(samples.weights, i)

        return weighted

    if samples.instance_class is RegressionSamples:

        def regression(samples, i):  # type: ignore[no-untyped-def]
            fetch_row(samples.features, i)
            fetch_number(samples.targets, i)

        return regression

    if samples.instance_class is TransitionSamples:

        def transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_row(samples.features, i)
            fetch_row(samples.next_features, i)
            fetch_number(samples.rewards, i)
            fetch_number(samples.discounts, i)

        return transition

    if samples.instance_class is UserSamples:
        return lambda samples, i: fetch_row(samples.rows, i)
    return None


def _advance(samples, spec, positions, steps, weights, limit, x, total, out, taken):  # type: ignore[no-untyped-def]
    """One step for each 1-based position; the iterates are added to `total` with their weights.

    ``taken[0]`` counts the steps as they are taken, so that it is right also when the user's operator raises.
    """
    for t in range(positions.shape[0]):
        if t + AHEAD < positions.shape[0]:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        if not descend(x, samples, positions[t] - 1, steps[t], limit, out):
            return
        project(x, spec)
        weight = weights[t]
        if weight > 0.0:
            for j in range(x.shape[0]):
                total[j] += weight * x[j]
    taken[0] = positions.shape[0]


def _advance_freely(samples, positions, steps, weights, limit, x, total, taken):  # type: ignore[no-untyped-def]
    """`_advance` without a set or a ridge, for operators of the form F̃(x, ξ) = r(score(x, ξ)) · features.

    The score is linear, so that of the next sample at the new iterate is score(x) − ηr · score(features), both of
    which are worked out while r is still being waited for.
    """
    last = positions.shape[0] - 1
    taken[0] = 0
    if last < 0:
        return
    i = positions[0] - 1
    value = score(x, samples, i)
    for t in range(last + 1):
        if t + AHEAD <= last:
            fetch(samples, positions[t + AHEAD] - 1)
        following = positions[min(t + 1, last)] - 1
        ahead = score(x, samples, following)
        between = across(samples, i, following)
        r = residual(value, samples, i)
        if not abs(r) <= limit:
            taken[0] = t
            return
        move = steps[t] * r
        move_along(x, samples, i, move)
        weight = weights[t]
        if weight > 0.0:
            for j in range(x.shape[0]):
                total[j] += weight * x[j]
        value = ahead - move * between
        if not abs(value) < np.inf:  # the products overflowed, the score itself may not
            value = score(x, samples, following)
        i = following
    taken[0] = last + 1


OPTIONS = {"fastmath": FAST, "nogil": True, "error_model": "numpy"}

advance = numba.njit(cache=True, _nrt=False, **OPTIONS)(_advance)
"""For the built-in problems. They allocate nothing, and without reference counting a step takes half the time."""

advance_freely = numba.njit(cache=True, _nrt=False, **OPTIONS)(_advance_freely)
"""For the built-in problems on the whole space, without a ridge."""

advance_users = numba.njit(**OPTIONS)(_advance)
"""For a user's own operator or link, which may allocate, and is compiled anew in every process."""
