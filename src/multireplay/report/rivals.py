"""What a run is compared with: the exact fit, one pass in order, and one shuffled pass."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import MultireplayError
from multireplay.problems import Problem
from multireplay.replay import Replay, Serial, Shuffle
from multireplay.report.missing import Missing
from multireplay.report.wording import rough
from multireplay.result import Result
from multireplay.sets import Set
from multireplay.solving.run import Run
from multireplay.tracking import Track
from multireplay.updates import Plain

WIDEST = 512
MOST_WORK = 5e9
"""The exact fit is worked out unasked where d is at most `WIDEST` and rows·d² at most this: about a second."""
SLOW_PASS = 20.0
"""Seconds: a pass that takes longer is not run unasked."""
SEED = 0


@dataclass(frozen=True, eq=False)
class Rival:
    """One way to an answer.

    Attributes
    ----------
    name : str
        In the tables.
    x : ndarray
        Its answer.
    passes, seconds : float
        What it cost. The exact fit reads the record once for a linear problem, and is not counted in passes.
    steps, distances : ndarray or None
        Its way to the reference: samples read, and the distance then.
    ok : bool
        False if it diverged.
    """

    name: str
    x: Vector
    passes: float
    seconds: float
    steps: Vector | None = None
    distances: Vector | None = None
    ok: bool = True


def exact_fit(problem: Problem, buffer: Buffer, feasible: Set, wanted: bool | str) -> Rival | Missing:
    """The exact fit on the same feasible set, where it is wanted and affordable."""
    rows, dim = len(buffer), problem.dim(problem.columns(buffer))
    if wanted is False:
        return Missing("The exact fit was not asked for (exact=False).")
    dense = isinstance(problem.columns(buffer).get("features"), np.ndarray)
    work = (rows if dense else dim) * dim**2  # rows with few nonzeros cost next to nothing
    if wanted == "auto" and (dim > WIDEST or work > MOST_WORK):
        return Missing(
            f"The exact fit costs rows · d² = {rough(rows * dim**2)} and solves a system of {dim:,} unknowns: more "
            f"than this page works out by itself (d up to {WIDEST}, rows · d² up to {rough(MOST_WORK)}). "
            "result.report(path, exact=True) does."
        )
    constrained = copy.copy(problem)
    constrained.constraint = feasible
    began = time.perf_counter()
    try:
        x = constrained.fit_exactly(buffer)
    except MultireplayError as error:
        return Missing(f"There is no exact fit to compare with: {error}.")
    return Rival("exact fit", x, float("nan"), time.perf_counter() - began)


def one_pass(name: str, replay: Replay, recipe: Run, reference: Vector | None) -> Rival | Missing:
    """One plain pass in another order, with the step, average, start and set of the run."""
    assert recipe.problem is not None
    assert recipe.buffer is not None
    same = {key: recipe.arguments[key] for key in ("step", "average", "x0", "constraint", "backend")}
    try:
        result = _quietly(
            recipe.problem, recipe.buffer, replay=replay, update=Plain(), holdout=None, track=_track(reference), **same
        )
    except MultireplayError as error:
        return Missing(f"A {name} could not be run: {error}.")
    steps, distances = path(result, recipe.rows, fresh=0)
    return Rival(name, result.x, result.passes, result.seconds, steps, distances, result.status.ok)


def again(recipe: Run, reference: Vector) -> Result | None:
    """The run itself once more, followed on its way to the reference."""
    assert recipe.problem is not None
    assert recipe.buffer is not None
    try:
        return _quietly(recipe.problem, recipe.buffer, **{**recipe.arguments, "track": Track(reference)})
    except MultireplayError:
        return None


def path(result: Result, rows: int, fresh: int) -> tuple[Vector | None, Vector | None]:
    """Samples read and the distance to the tracked solution, along the run.

    Newton corrections have one point a pass. Otherwise the first `fresh` epochs each start anew and count their own
    steps; the rest continue one another, and a round of variance reduction reads the record once in order before it
    begins.
    """
    if result.standard_error is not None and result.epochs[0].curve is not None:
        ends = [epoch.curve.end_last for epoch in result.epochs if epoch.curve is not None]
        return np.cumsum([epoch.taken for epoch in result.epochs]).astype(np.float64), np.sqrt(ends)
    steps, distances = [], []
    read = 0
    for index, epoch in enumerate(result.epochs):
        if epoch.curve is None:
            return None, None
        averaged = np.array_equal(epoch.answer, epoch.average)
        if index < fresh:
            steps.append(np.array([epoch.taken]))
            distances.append(np.sqrt([epoch.curve.end_average if averaged else epoch.curve.end_last]))
            read += epoch.taken
            continue
        read += rows if index > 0 else 0
        shown = epoch.curve.iterations >= (epoch.length // 16 if index > 0 else 0)  # later rounds begin where they are
        steps.append(read + epoch.curve.iterations[shown])
        distances.append(np.sqrt((epoch.curve.average if averaged else epoch.curve.last)[shown]))
        read += epoch.taken
    return np.concatenate(steps).astype(np.float64), np.concatenate(distances)


def in_order() -> Replay:
    return Serial()


def shuffled() -> Replay:
    return Shuffle(SEED)


def _track(reference: Vector | None) -> Track | None:
    return None if reference is None else Track(reference)


def _quietly(*arguments: Any, **options: Any) -> Result:
    from multireplay.solve import solve

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(*arguments, **options)
