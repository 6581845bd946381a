"""Rounds of variance reduction, and when to stop them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multireplay.averaging import Averaging
from multireplay.engine import EpochRun, Job
from multireplay.engine.batched import ReducedBatchedStepper
from multireplay.engine.lanes import run_lanes
from multireplay.engine.reduced import ReducedCompiledStepper, ReducedPythonStepper
from multireplay.precondition import Preconditioner
from multireplay.problems import Problem
from multireplay.problems.base import Columns
from multireplay.replay import PlannedEpoch
from multireplay.replay.dyadic import dyadic_order
from multireplay.result import Epoch
from multireplay.sets import Set
from multireplay.steps import Constant
from multireplay.tracking import Track

Vector = NDArray[np.float64]
ReducedStepper: TypeAlias = ReducedPythonStepper | ReducedCompiledStepper | ReducedBatchedStepper

BATCHES = 32
WELL_BELOW = 0.1
"""A mean operator shorter than this share of its own standard error is noise: more passes would fit that."""
ON_ITS_WAY = 0.15
"""A round whose last two quarters differ by more than this share of all it moved had not arrived."""
MOST_ROUNDS = 2
MOST_LANE_ROUNDS = 8
"""With many lanes a round has far fewer steps, and so there may be more of them."""
ENOUGH = 5.0
"""A pass that shrinks the slowest direction by e to this power leaves nothing that a second round would have to do."""
PREFIX = 4096
WIDEST = 1024
SECOND_HALF = Averaging(fraction=0.5, answers=True)


@dataclass(frozen=True)
class Residual:
    """The record's mean operator F̂(x) at a point, and what is left of it on the feasible set.

    Attributes
    ----------
    mean : ndarray
        F̂(x).
    size : float
        ‖x − Proj(x − F̂(x))‖, which is ‖F̂(x)‖ on the whole space.
    error : float
        Standard error of F̂(x) under dependence, from the means of 32 consecutive batches.
    """

    mean: Vector
    size: float
    error: float

    @property
    def is_noise(self) -> bool:
        """Whether it is well below its own standard error."""
        return self.size <= WELL_BELOW * self.error


def measure(problem: Problem, columns: Columns, feasible: Set, x: Vector) -> Residual:
    """F̂(x) and its standard error, in one pass over the record in order."""
    length = len(next(iter(columns.values())))
    bounds = np.linspace(0, length, min(BATCHES, length) + 1).astype(int)
    sizes = np.diff(bounds)
    means = np.array(
        [
            problem.mean_operator(x, {name: column[start:stop] for name, column in columns.items()})
            for start, stop in pairwise(bounds.tolist())
        ]
    )
    mean = np.average(means, axis=0, weights=sizes)
    spread = float(np.sqrt(means.var(axis=0, ddof=1).sum() / len(sizes))) if len(sizes) > 1 else np.inf
    left = x - feasible.projected(x - mean)
    return Residual(mean, float(np.linalg.norm(left)), spread)


def contraction(
    problem: Problem, columns: Columns, preconditioner: Preconditioner, step: float, x: Vector
) -> float | None:
    """How often one pass shrinks the slowest direction by a factor e: η·λ_min·B, from 4096 samples of the record.

    None where the problem knows no curvature, or has so many coordinates that this would cost more than a pass.
    """
    length = len(next(iter(columns.values())))
    if len(x) > WIDEST:
        return None
    rows = dyadic_order(length)[:PREFIX] - 1
    curvature = problem.curvature(x, {name: column[rows] for name, column in columns.items()})
    if curvature is None:
        return None
    root = preconditioner.root()
    return float(step * length * np.linalg.eigvalsh(root @ curvature @ root)[0])


@dataclass(frozen=True)
class Outcome:
    """What the rounds found: the epochs, passes over the record, and sentences on what was done."""

    epochs: tuple[Epoch, ...]
    passes: float
    notes: tuple[str, ...]


def run_rounds(
    problem: Problem,
    columns: Columns,
    samples: Any,
    plan: tuple[PlannedEpoch, ...],
    stepper: ReducedStepper,
    feasible: Set,
    step: float,
    start: Vector,
    limit: float,
    rounds: int | None,
    track: Track | None,
) -> Outcome:
    """Rounds from `start`; None is as many as it takes, at most 2.

    A second round is taken where one pass does not shrink the slowest direction enough (`contraction`), or, where
    that is not known, where the first round was still on its way at its end. A round that diverges is run once more
    at half the step; if that diverges too, what it started from is the answer. In lanes a round is one epoch of many
    short chains, the last of the plan, and up to 8 are taken.
    """
    lanes = isinstance(stepper, ReducedBatchedStepper) and plan[-1].chains > 1
    take_round, most = (_lane_round, MOST_LANE_ROUNDS) if lanes else (_round, MOST_ROUNDS)
    length = len(next(iter(columns.values())))
    x, epochs, notes, passes = start, [], [], 0.0
    shrinks = contraction(problem, columns, stepper.preconditioner, step, start) if rounds is None else None
    if shrinks is not None and lanes:
        shrinks *= plan[-1].length / length
    for number in range(1, (rounds or most) + 1):
        residual = measure(problem, columns, feasible, x)
        passes += 1
        if rounds is None and residual.is_noise:
            share = residual.size / residual.error if residual.error else 0.0
            notes.append(f"no round {number}, since the residual is only {share:.2g} of its standard error")
            break
        epoch, drift = take_round(problem, samples, plan, stepper, x, residual.mean, step, limit, number, track)
        passes += epoch.taken / length
        if epoch.diverged:
            step /= 2
            notes.append(f"round {number} diverged and was run again at half the step ({step:.3g})")
            epoch, drift = take_round(problem, samples, plan, stepper, x, residual.mean, step, limit, number, track)
            passes += epoch.taken / length
        epochs.append(epoch)
        if epoch.diverged:
            break
        x = epoch.answer
        arrived = drift <= ON_ITS_WAY if shrinks is None else number * shrinks >= ENOUGH
        if rounds is None and arrived:
            break
    if shrinks is not None and shrinks < ENOUGH / 10:
        notes.append(
            f"ill-conditioned: a round shrinks the slowest direction only by a factor e^{-shrinks:.2g}; fit_exactly, "
            f"or a "
            "preconditioner of higher rank, may do better"
        )
    return Outcome(tuple(epochs), passes, tuple(notes))


def _round(
    problem: Problem,
    samples: Any,
    plan: tuple[PlannedEpoch, ...],
    stepper: ReducedStepper,
    anchor: Vector,
    mean: Vector,
    step: float,
    limit: float,
    number: int,
    track: Track | None,
) -> tuple[Epoch, float]:
    """One pass around the anchor, and how far its last two quarters are apart, relative to all it moved."""
    stepper.anchor = anchor.copy()
    stepper.mean = stepper.preconditioner.apply(mean)
    planned = replace(plan[-1], k=plan[-1].k + number, length=sum(epoch.steps for epoch in plan), chains=1)
    run = EpochRun(problem, stepper, planned, Constant(step), SECOND_HALF, anchor, limit, track)
    three_quarters = planned.length - (planned.length - run.skipped) // 2
    earlier, seen = np.zeros_like(anchor), 0
    for positions in (block for epoch in plan for block in epoch.blocks()):
        cut = int(np.clip(three_quarters - run.taken, 0, len(positions)))
        for part in (positions[:cut], positions[cut:]):
            if len(part) and not run.feed(samples, part):
                return run.finish(), np.inf
            if run.taken == three_quarters:
                earlier, seen = stepper.total.copy(), run.taken - run.skipped
    epoch = run.finish()
    late = planned.length - three_quarters
    if not seen or not late:
        return epoch, 0.0
    quarter, last_quarter = earlier / seen, (stepper.total - earlier) / late
    moved = float(np.linalg.norm(epoch.answer - anchor))
    return epoch, float(np.linalg.norm(last_quarter - quarter)) / moved if moved else 0.0


def _lane_round(
    problem: Problem,
    samples: Any,
    plan: tuple[PlannedEpoch, ...],
    stepper: ReducedStepper,
    anchor: Vector,
    mean: Vector,
    step: float,
    limit: float,
    number: int,
    track: Track | None,
) -> tuple[Epoch, float]:
    """One epoch of many chains around the anchor; whether it has arrived is left to the residual."""
    stepper.anchor, stepper.mean = anchor.copy(), mean
    planned = replace(plan[-1], k=plan[-1].k + number)
    job = Job(problem, samples, stepper, Constant(step), SECOND_HALF, anchor, limit, track)
    return run_lanes(planned, job), np.inf
