"""What the bench needs of a world: a problem, records of it, the answer, and the exact fit to compare with."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import Problem

Size = Literal["full", "small"]
LENGTHS: dict[Size, int] = {"full": 2**16, "small": 2**12}
"""Rows of a record of the comparison."""


class MissingExtra(InputError):
    """A world needs a package that is not installed."""


def needed(module: str, sentence: str) -> Any:
    """The module; where it is not installed, the sentence says what to do."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(sentence) from None


@dataclass(frozen=True, eq=False)
class World:
    """A problem with a known answer x*, and ``record(seed)``, one dependent record of it.

    The error is (x − x*)ᵀQ(x − x*) with Q = `weight`; `jacobian` is the derivative of the mean operator at x*, and
    `time` the autocorrelation time in steps: dependence falls by e in it. ``fresh(seed)`` draws as many independent
    samples. The yardstick is ``exact(record, ridge)``, by default the problem's own exact fit, at that of the
    `ridges` which is best on the tuning seeds. `reference` says where x* comes from.
    """

    problem: Problem
    record: Callable[[Any], Buffer]
    solution: Vector
    weight: Vector
    jacobian: Vector
    time: float
    fresh: Callable[[Any], Buffer] | None = None
    exact: Callable[[Buffer, float], Vector] | None = None
    ridges: tuple[float, ...] = (0.0,)
    yardstick: str = "LSTD"
    reference: str = "exact"

    def fit(self, record: Buffer, ridge: float) -> Vector:
        """The exact fit of a record."""
        return (self.exact or self.problem.fit_exactly)(record, ridge)

    def error(self, x: Vector) -> float:
        """Squared distance to x*, infinite where x is not finite."""
        if not np.isfinite(x).all():
            return float("inf")
        away = x - self.solution
        with np.errstate(over="ignore"):
            return float(away @ self.weight @ away)

    @cached_property
    def condition(self) -> float:
        """Condition number of the mean operator's derivative."""
        return float(np.linalg.cond(self.jacobian))

    @cached_property
    def mu(self) -> float:
        """Modulus of strong monotonicity: the least eigenvalue of the symmetric part."""
        return float(np.linalg.eigvalsh((self.jacobian + self.jacobian.T) / 2)[0])

    @cached_property
    def lipschitz(self) -> float:
        """L of the mean operator: the largest singular value."""
        return float(np.linalg.norm(self.jacobian, 2))

    @property
    def gap(self) -> int:
        """The gap of one who knows the autocorrelation time: twice it."""
        return max(1, math.ceil(2 * self.time))


def simulated_world(simulated: Any, length: int, jacobian: Vector, time: float, **more: Any) -> World:
    """Records of a simulation of `multireplay.simulate` that knows its solution."""
    record, fresh = partial(simulated.buffer, length), partial(simulated.independent_buffer, length)
    known = simulated.solution, simulated.weight, jacobian
    return World(simulated.problem, record, *known, time, fresh=fresh, **more)


@dataclass(frozen=True, eq=False)
class Case:
    """One record of one world, as a method sees it. `seed` is for the method's own random numbers."""

    world: World
    record: Buffer
    seed: int
    ridge: float = 0.0
    fresh: Buffer | None = None

    @property
    def length(self) -> int:
        return len(self.record)

    @cached_property
    def samples(self) -> Any:
        return self.world.problem.samples(self.world.problem.columns(self.record))

    @cached_property
    def unit(self) -> float:
        """1/L with L = max ‖ψ_t‖² (times the link's largest slope): the unit of the grid of steps."""
        bound = self.world.problem.lipschitz(self.samples)
        if not bound:
            raise ValueError("a world of the bench needs a Lipschitz constant")
        return 1 / bound

    def gap(self, factor: float = 1.0) -> int:
        """The oracle gap times a factor, within [1, B/4]."""
        return min(max(1, round(factor * self.world.gap)), max(1, self.length // 4))


@dataclass(frozen=True)
class Listing:
    """A world of the comparison by name: ``make(size, cache)`` builds it, with `cache` a folder for what is costly.

    ``seconds`` is the rough time of one full-size report seed, all methods together.
    """

    name: str
    suite: str
    make: Callable[[Size, Path], World]
    seconds: float = 1.0


def seeds(*parts: Any) -> tuple[int, ...]:
    """A seed from numbers and words, the same on every machine."""
    return tuple(part if isinstance(part, int) else int.from_bytes(str(part).encode(), "big") for part in parts)
