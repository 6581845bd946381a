"""What a run is compared with: the exact fit with its standard errors, one pass in order, and one shuffled pass."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.engine.sums import BATCHES
from multireplay.errors import MultireplayError
from multireplay.problems import Problem
from multireplay.replay import Replay, Serial, Shuffle
from multireplay.result import Epoch, Result
from multireplay.sets import Set
from multireplay.show.text import rough
from multireplay.solve import solve
from multireplay.solving.run import Run
from multireplay.tracking import Curve, Track
from multireplay.updates import Plain

WIDEST = 512
MOST_WORK = 5e9
"""The exact fit is worked out unasked where d is at most `WIDEST` and rows·d² at most this: about a second."""
IN_ORDER, SHUFFLED = "one pass in order", "one shuffled pass"
ORDERS: dict[str, Replay] = {IN_ORDER: Serial(), SHUFFLED: Shuffle(0)}


@dataclass(frozen=True)
class Missing:
    """Stands where a value would be, with a sentence on why it is not there and how to have it."""

    reason: str


@dataclass(frozen=True, eq=False)
class Contender:
    """One way to an answer: this run, or what it is compared with."""

    name: str
    x: Vector
    passes: float
    """NaN for the exact fit, which is not counted in passes."""
    seconds: float
    steps: Vector | None = None
    distances: Vector | None = None
    """Its way to the reference: samples read, and the distance then."""
    ok: bool = True


def exact_fit(problem: Problem, buffer: Buffer, feasible: Set, wanted: bool | str) -> Contender | Missing:
    """The exact fit on the same feasible set, where it is wanted and affordable."""
    columns = problem.columns(buffer)
    rows, dim = len(buffer), problem.dim(columns)
    if wanted is False:
        return Missing("The exact fit was not asked for (exact=False).")
    dense = isinstance(columns.get("features"), np.ndarray)
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
    return Contender("exact fit", x, float("nan"), time.perf_counter() - began)


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """How far the exact fit is expected to be from the truth: standard errors, from batches of so many rows.

    They are infinite for coordinates of which the record says nothing.
    """

    errors: Vector
    batch: int

    @property
    def total(self) -> float:
        """The expected distance, in what the record says something of."""
        return float(np.linalg.norm(self.errors[np.isfinite(self.errors)]))

    def is_rough(self, tau: float) -> bool:
        """Whether a batch is too short for this autocorrelation time, so that standard errors are too small."""
        return self.batch < 10 * tau


def error_bars(result: Result, rows: int) -> ErrorBars | Missing:
    """The standard errors of a result, or why there are none."""
    found = result.uncertainty
    errors = found.standard_error
    if errors is None or not np.isfinite(errors).any():
        return Missing(f"There are no standard errors: {found.why_not or 'the record says nothing of x'}.")
    return ErrorBars(errors, rows // BATCHES)


def one_pass(name: str, run: Run, reference: Vector | None) -> Contender | Missing:
    """One plain pass in the order of that name, with the step, average, start and set of the run."""
    same = {key: run.arguments[key] for key in ("step", "average", "x0", "constraint", "backend")}
    result = rerun(run, reference, {**same, "replay": ORDERS[name], "update": Plain(), "holdout": None})
    if isinstance(result, str):
        return Missing(f"A {name} could not be run: {result}.")
    return Contender(name, result.x, result.passes, result.seconds, *path(result, fresh=0), result.status.ok)


def rerun(run: Run, reference: Vector | None, arguments: Mapping[str, Any]) -> Result | str:
    """Another run on the record of this one, followed on its way to the reference; or the error, if there is one."""
    assert run.problem is not None
    assert run.buffer is not None
    track = None if reference is None else Track(reference)
    with warnings.catch_warnings(action="ignore"):
        try:
            return solve(run.problem, run.buffer, **{**arguments, "track": track, "checkpoint": None})
        except MultireplayError as error:
            return str(error)


def path(result: Result, fresh: int) -> tuple[Vector | None, Vector | None]:
    """Samples read and the distance to the tracked solution, along the run.

    Newton corrections and the exact fit have one point a pass. Otherwise the first `fresh` epochs each start anew and
    count their own steps; the rest continue one another, and a round of variance reduction reads the record once in
    order before it begins.
    """
    run = result.run
    if run is None or any(epoch.curve is None for epoch in result.epochs):
        return None, None
    found = [(epoch, epoch.curve) for epoch in result.epochs if epoch.curve is not None]
    if run.route in ("exact", "corrections"):
        read_by_then = np.cumsum([epoch.taken for epoch, _ in found]).astype(np.float64)
        return read_by_then, np.sqrt([curve.end_last for _, curve in found])
    steps, distances = [], []
    read = 0
    for index, (epoch, curve) in enumerate(found):
        taken, last, average = recorded(epoch, curve, ends=index < fresh, later=index > 0)
        if index >= fresh:
            read += run.rows if run.route == "rounds" and index > 0 else 0
            taken = read + max(1, epoch.taken // epoch.length) * taken  # chains side by side read a sample a step each
        steps.append(taken)
        distances.append(np.sqrt(average if np.array_equal(epoch.answer, epoch.average) else last))
        read += epoch.taken
    return np.concatenate(steps), np.concatenate(distances)


def recorded(epoch: Epoch, curve: Curve, ends: bool, later: bool) -> Vector:
    """Steps and the squared errors of the last iterate and of the average, at the end of an epoch or along it."""
    if ends:
        return np.array([[epoch.taken], [curve.end_last], [curve.end_average]], dtype=np.float64)
    shown = curve.iterations >= (epoch.length // 16 if later else 0)  # later rounds begin where they are
    return np.array([curve.iterations, curve.last, curve.average])[:, shown]
