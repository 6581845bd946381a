"""`solve`, and what to do where dyadic order is in step with the record."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer import Buffer
from multireplay.problems import Problem
from multireplay.replay import Shuffle
from multireplay.residuals import measure
from multireplay.result import Result
from multireplay.sets import WholeSpace
from multireplay.solve import solve
from multireplay.updates import VarianceReduced

Vector = NDArray[np.float64]

LEAST = 0.5
"""A fit that leaves more than this share of the mean operator at its start has gone wrong."""


def solve_safely(problem: Problem, buffer: Buffer, x0: Vector, replay: Any, **options: Any) -> Result:
    """`solve`, with the rows shuffled instead where dyadic order does not get anywhere.

    In a record with a period of 2, 4, 8, … rows, and of a length that is a multiple of a large power of two, the
    samples that dyadic order takes one after the other are all alike, and the rounds may run off. It is noticed by the
    mean operator at the answer: beyond its own standard error, and no smaller than half of that at the start. Of the
    two answers, that with the smaller one is returned. An order or a step that was asked for is not changed.

    Parameters
    ----------
    problem, buffer, x0, replay, **options
        As in `solve`.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solve(problem, buffer, x0=x0, replay=replay, holdout=None, **options)
    if replay is None and options.get("step") == "auto":
        left = _left(problem, buffer, result.x)
        if not left.size <= left.error and not left.size <= LEAST * _left(problem, buffer, x0).size:
            update = VarianceReduced() if options.get("passes") is None else None
            other = solve(problem, buffer, x0=x0, replay=Shuffle(0), update=update, holdout=None, **options)
            if not _left(problem, buffer, other.x).size >= left.size:
                return other
    for one in caught:
        warnings.warn(one.message, one.category, stacklevel=2)
    return result


def _left(problem: Problem, buffer: Buffer, x: Vector) -> Any:
    """The mean operator at a point, with its standard error."""
    return measure(problem, problem.columns(buffer), WholeSpace(), x)
