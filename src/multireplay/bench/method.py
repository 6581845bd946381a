"""What the bench needs of a method: one run on one record, at its published step or at one of the grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from multireplay._check import Vector
from multireplay.bench.world import Case, World
from multireplay.problems import GLM, PolicyEvaluation
from multireplay.replay import Replay

GRID = tuple(2.0**power for power in range(-11, 7))
"""Constant steps to tune over, in units of 1/L."""

TAIL = 7 / 8
"""Share of the iterates that is averaged, wherever a method's definition leaves it open."""


PUBLISHED, TUNED = "published", "tuned"
"""The two kinds of step a method is run at."""


class Answer(NamedTuple):
    """What a run found, and how many samples it read, each counted as often as it was read."""

    x: Vector
    touched: float


@dataclass(frozen=True)
class Method:
    """A method of the bench.

    Attributes
    ----------
    name : str
        In the tables, and by which it has its colour.
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
    order : callable, optional
        ``order(case)``: the replay scheme, where the method is one with the plain update; it has error curves.
    independent : bool
        Whether it is fed independent samples instead of the record, in error curves.
    """

    name: str
    run: Callable[[Case, float | None], Answer]
    published: str = "as published"
    tuned: bool = True
    works_on: Callable[[World], bool] = lambda world: True
    note: str = ""
    order: Callable[[Case], Replay] | None = None
    independent: bool = False


def key(method: str, kind: str) -> str:
    """The name under which a method's numbers at one kind of step are kept."""
    return f"{method}~{kind}"


def is_rank_one(world: World) -> bool:
    """Whether F̃ is a residual times the features, without constraint: policy evaluation and GLMs."""
    return isinstance(world.problem, PolicyEvaluation | GLM)


def is_policy_evaluation(world: World) -> bool:
    return isinstance(world.problem, PolicyEvaluation)
