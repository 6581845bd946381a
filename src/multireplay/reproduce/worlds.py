"""What one instance of a figure is made of: a record, independent samples, the solution and the exact fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.problems import Problem
from multireplay.simulate import AutoregressiveLogistic, paper_mrp

Size = Literal["full", "small"]


@dataclass(frozen=True, eq=False)
class World:
    """One instance. ``exact[name](parameter)`` is an exact fit, e.g. ridge regression with that penalty."""

    problem: Problem
    record: Buffer
    fresh: Buffer
    solution: Vector
    weight: Vector
    exact: Mapping[str, Callable[[float], Vector]]


def policy_evaluation(m: float, length: int, seed: tuple[int, ...]) -> World:
    """The paper's Markov reward process, one trajectory of it."""
    process = paper_mrp(m)
    record = process.buffer(length, seed=(*seed, 0))
    return World(
        process.problem,
        record,
        process.independent_buffer(length, seed=(*seed, 1)),
        process.solution,
        process.weight,
        {"LSTD": lambda ridge: process.problem.fit_exactly(record, ridge)},
    )


def logistic(dim: int, slow: int, length: int, seed: tuple[int, ...]) -> World:
    """The paper's logistic regression: a new matrix A, solution and record for every instance."""
    world = AutoregressiveLogistic(dim, slow, seed=(*seed, 0))
    record = world.buffer(length, seed=(*seed, 1))

    def fit(ridge: float) -> Vector:
        return world.problem.fit_exactly(record, ridge)

    return World(
        world.problem,
        record,
        world.independent_buffer(length, seed=(*seed, 2)),
        world.solution,
        world.weight,
        {"maximum likelihood": fit, "best ridge": fit},
    )


def seeds(*parts: Any) -> tuple[int, ...]:
    """A seed from numbers and words, the same on every machine."""
    return tuple(part if isinstance(part, int) else int.from_bytes(str(part).encode(), "big") for part in parts)
