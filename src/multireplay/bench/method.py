"""What the bench needs of a method: one run on one record, at its published step or at one of the grid."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.bench.world import Case, World
from multireplay.errors import MultireplayError
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
    """A method of the bench, by the name in the tables, which also gives it its colour.

    ``run(case, step)`` runs it with its own published step sizes if `step` is None, otherwise with that constant step
    in units of 1/L. `published` says in a word what its own step sizes are; it is empty if a method is only tuned.
    ``order(case)`` is the replay scheme, where the method is one with the plain update: it has error curves, and in
    these it may be fed independent samples instead of the record.
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


def attempt(method: Method, case: Case, step: float | None) -> tuple[float, float, float, float]:
    """Error, passes over the record, samples read and seconds; the error is infinite where the run failed."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = method.run(case, step)
    except (MultireplayError, ZeroDivisionError, OverflowError) as failure:
        if step is None:
            warnings.warn(f"{method.name} failed: {failure}", stacklevel=2)
        return float("inf"), float("nan"), float("nan"), time.perf_counter() - began
    seconds = time.perf_counter() - began
    return case.world.error(found.x), found.touched / case.length, found.touched, seconds
