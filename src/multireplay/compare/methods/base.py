"""What the bench needs of a method: one run on one record, at its published step or at one of the grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds import World
from multireplay.problems import GLM, PolicyEvaluation

GRID = tuple(2.0**power for power in range(-11, 7))
"""Constant steps to tune over, in units of 1/L with L = max ‖ψ_t‖² (times the link's largest slope)."""

TAIL = 7 / 8
"""Share of the iterates that is averaged, wherever a method's definition leaves it open."""


class Answer(NamedTuple):
    """What a run found, and how many samples it read, each counted as often as it was read."""

    x: Vector
    touched: float


@dataclass(frozen=True, eq=False)
class Case:
    """One record of one world, as a method sees it. `seed` is for the method's own random numbers."""

    world: World
    record: Buffer
    seed: int
    ridge: float = 0.0

    @property
    def length(self) -> int:
        return len(self.record)

    @cached_property
    def samples(self) -> Any:
        return self.world.problem.samples(self.world.problem.columns(self.record))

    @cached_property
    def unit(self) -> float:
        """1/L, the unit of the grid of steps."""
        bound = self.world.problem.lipschitz(self.samples)
        if not bound:
            raise ValueError("a world of the bench needs a Lipschitz constant")
        return 1 / bound

    def gap(self, factor: float = 1.0) -> int:
        """The oracle gap times a factor, within [1, B/4]."""
        return min(max(1, round(factor * self.world.gap)), max(1, self.length // 4))


Run = Callable[[Case, float | None], Answer]


@dataclass(frozen=True)
class Method:
    """A method of the bench.

    Attributes
    ----------
    name : str
        In the tables.
    run : callable
        ``run(case, step)``: with its own published step sizes if `step` is None, otherwise with that constant
        step in units of 1/L.
    published : str
        What its own step sizes are, in a word; empty if it has none and is only tuned.
    tuned : bool
        Whether it is also run at its best step of the grid.
    works_on : callable
        Whether it is defined on a world.
    note : str
        What a reader of the table needs to know.
    """

    name: str
    run: Run
    published: str = "as published"
    tuned: bool = True
    works_on: Callable[[World], bool] = lambda world: True
    note: str = ""


def is_rank_one(world: World) -> bool:
    """Whether F̃ is a residual times the features, without constraint: policy evaluation and GLMs."""
    return isinstance(world.problem, PolicyEvaluation | GLM)


def is_policy_evaluation(world: World) -> bool:
    return isinstance(world.problem, PolicyEvaluation)
