"""What the bench needs of a world: a problem, records of it, the answer, and the exact fit to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.reproduce.worlds import Size

LENGTHS: dict[Size, int] = {"full": 2**16, "small": 2**12}
"""Rows of a record."""


class MissingExtra(InputError):
    """A world needs a package that is not installed."""


@dataclass(frozen=True, eq=False)
class World:
    """A problem with a known answer.

    Attributes
    ----------
    problem : Problem
        What is solved.
    record : callable
        ``record(seed)``: one dependent record.
    solution, weight : array
        x* and the matrix Q of the norm in which the error (x − x*)ᵀQ(x − x*) is measured.
    jacobian : array
        Derivative of the mean operator at x*; from it come μ, L and the condition number.
    time : float
        Autocorrelation time of the record in steps: dependence falls by e in this time.
    exact : callable
        ``exact(record, ridge)``: the yardstick.
    ridges : tuple of float
        Penalties of the exact fit to choose from on the tuning seeds; no choice by default.
    yardstick : str
        What the exact fit is called.
    reference : str
        Where x* comes from, if not from the world itself.
    """

    problem: Problem
    record: Callable[[Any], Buffer]
    solution: Vector
    weight: Vector
    jacobian: Vector
    time: float
    exact: Callable[[Buffer, float], Vector]
    ridges: tuple[float, ...] = (0.0,)
    yardstick: str = "LSTD"
    reference: str = "exact"

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


@dataclass(frozen=True)
class Entry:
    """A world by name: ``make(size, cache)`` builds it, with `cache` a folder for what is costly.

    ``seconds`` is the rough time of one full-size report seed, all methods together.
    """

    name: str
    suite: str
    make: Callable[[Size, Path], World]
    seconds: float = 1.0


def fit(problem: Problem) -> Callable[[Buffer, float], Vector]:
    """The problem's own exact fit as a yardstick."""
    return lambda record, ridge: problem.fit_exactly(record, ridge)
