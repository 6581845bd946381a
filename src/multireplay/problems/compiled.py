"""F̃ of each kind of packed samples as the compiled loops evaluate it, with the rows of later steps asked for meanwhile.

Every function here is resolved by the type of the samples when a loop is compiled, so that each problem gets its own
fused, inlined loop and the cache on disk keeps it. (A jitted function passed as an argument would be compiled again in
every process.) A new kind of samples says what these functions are for it, and every loop of the engine can run it.
"""

from __future__ import annotations

import math
from typing import Any

from numba import types
from numba.extending import overload

from multireplay.problems.glm import RegressionSamples
from multireplay.problems.links import IDENTITY, LOGISTIC, apply
from multireplay.problems.packed import DenseTable, IndexedTransitionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.problems.variational_inequality import UserSamples
from multireplay.vectors.coordinates import INLINE, dot, dot_of_difference, fetch_part, move, subtract
from multireplay.vectors.intrinsics import AHEAD, REACH, ask, fetch_number, fetch_row


def has(samples: Any, field: str) -> bool:
    """Whether a field of the packed samples is not None, known when a loop is compiled."""
    fields = samples.fields
    return field in fields and not isinstance(samples.types[fields.index(field)], types.NoneType)


def has_dense_rows(samples: Any) -> bool:
    """Whether samples of this compiled type have rows of features, and they are dense."""
    if samples.instance_class is IndexedTransitionSamples:
        return samples.types[0].instance_class is DenseTable
    return samples.instance_class in (RegressionSamples, TransitionSamples)


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


@overload(score, jit_options=INLINE)
def _score(x, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples:
        return lambda x, samples, i: dot(samples.features[i], x)
    if samples.instance_class is TransitionSamples:
        return lambda x, samples, i: dot_of_difference(
            samples.features[i], samples.next_features[i], samples.discounts[i], x
        )
    return None


def residual(value: float, samples: Any, i: int) -> float:
    """The number r with F̃(x, ξ_i) = r · features[i], given the score of x."""
    raise NotImplementedError


@overload(residual, jit_options=INLINE)
def _residual(value, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples and has(samples, "weights"):
        return lambda value, samples, i: samples.weights[i] * (link_value(samples.link, value) - samples.targets[i])
    if samples.instance_class is RegressionSamples:
        return lambda value, samples, i: link_value(samples.link, value) - samples.targets[i]
    if samples.instance_class is TransitionSamples and has(samples, "weights"):
        return lambda value, samples, i: samples.weights[i] * (value - samples.rewards[i])
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


def fetch_numbers(samples: Any, i: int) -> None:
    """Ask for all of sample i but its features, before it is needed."""
    raise NotImplementedError


@overload(fetch_numbers)
def _fetch_numbers(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples and has(samples, "weights"):

        def weighted(samples, i):  # type: ignore[no-untyped-def]
            fetch_number(samples.targets, i)
            fetch_number(samples.weights, i)

        return weighted

    if samples.instance_class is RegressionSamples:
        return lambda samples, i: fetch_number(samples.targets, i)

    if samples.instance_class is TransitionSamples and has(samples, "weights"):

        def weighted_transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_number(samples.rewards, i)
            fetch_number(samples.discounts, i)
            fetch_number(samples.weights, i)

        return weighted_transition

    if samples.instance_class is TransitionSamples:

        def transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_number(samples.rewards, i)
            fetch_number(samples.discounts, i)

        return transition
    return None


@overload(fetch_part, inline="always")
def _fetch_part(samples, i, j):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples:
        return lambda samples, i, j: ask(samples.features, i, j * samples.features.itemsize)
    if samples.instance_class is TransitionSamples:

        def transition(samples, i, j):  # type: ignore[no-untyped-def]
            ask(samples.features, i, j * samples.features.itemsize)
            ask(samples.next_features, i, j * samples.next_features.itemsize)

        return transition
    return None


def fetch(samples: Any, i: int) -> None:
    """Ask for sample i before it is needed."""
    raise NotImplementedError


@overload(fetch)
def _fetch(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples:

        def regression(samples, i):  # type: ignore[no-untyped-def]
            fetch_row(samples.features, i)
            fetch_numbers(samples, i)

        return regression

    if samples.instance_class is TransitionSamples:

        def transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_row(samples.features, i)
            fetch_row(samples.next_features, i)
            fetch_numbers(samples, i)

        return transition

    if samples.instance_class is UserSamples:
        return lambda samples, i: fetch_row(samples.rows, i)
    return None


def steps_ahead(samples: Any) -> int:
    """How many steps before a sample is needed it is asked for."""
    raise NotImplementedError


@overload(steps_ahead)
def _steps_ahead(samples):  # type: ignore[no-untyped-def]
    if samples.instance_class in (RegressionSamples, TransitionSamples):
        return lambda samples: 1 + REACH // (samples.features.itemsize * samples.features.shape[1])
    return lambda samples: AHEAD


def move_and_add(x: Any, total: Any, samples: Any, i: int, amount: float, weight: float, later: int) -> None:
    """`move` along features[i], where they are dense."""
    raise NotImplementedError


@overload(move_and_add, inline="always")
def _move_and_add(x, total, samples, i, amount, weight, later):  # type: ignore[no-untyped-def]
    if samples.instance_class in (RegressionSamples, TransitionSamples):
        return lambda x, total, samples, i, amount, weight, later: move(
            x, total, samples.features[i], amount, weight, samples, later
        )
    return None
