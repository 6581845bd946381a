"""Rounds of variance reduction, and when to stop them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.buffer.record import Record
from multireplay.engine import EpochRun, Job, ReducedStepper, Stepping, run_chains
from multireplay.engine.residuals import Batches, Residual, batch_means, measure, residual_of
from multireplay.engine.stepper import LowRank
from multireplay.replay import PlannedEpoch
from multireplay.replay.multiscale import scattered
from multireplay.result import Epoch
from multireplay.sets import Set
from multireplay.steps import Constant
from multireplay.tracking import Track

ON_ITS_WAY = 0.15
"""A round whose last two quarters differ by more than this share of all it moved had not arrived."""
MOST_ROUNDS = 2
MOST_LANE_ROUNDS = 8
"""With many lanes a round has far fewer steps, and so there may be more of them."""
ENOUGH = 5.0
"""A pass that shrinks the slowest direction by e to this power leaves nothing that a second round would have to do."""
NOWHERE = 0.9
"""A round that leaves more than this share of the residual got nowhere."""
NOT_FAR = 0.1
"""And so did one that leaves more than this share, where the slowest direction should have shrunk by e^ENOUGH."""
ROUNDING = 1e-12
"""A step along the residual that is below this share of x is rounding."""
PREFIX = 4096
WIDEST = 1024
SECOND_HALF = Averaging(fraction=0.5, answers=True)


def contraction(record: Record, preconditioner: LowRank, step: float, x: Vector) -> float | None:
    """How often one pass shrinks the slowest direction by a factor e: η·λ_min·B, from 4096 samples of the record.

    None where the problem knows no curvature, or has so many coordinates that this would cost more than a pass.
    """
    if len(x) > WIDEST:
        return None
    curvature = record.problem.curvature(x, record.take(scattered(record.length, PREFIX)))
    if curvature is None:
        return None
    root = preconditioner.root()
    occurs = np.diag(curvature) > 0  # a feature that does not occur has nothing to converge to
    shrinking = (root @ curvature @ root)[np.ix_(occurs, occurs)]
    return float(step * record.length * np.linalg.eigvalsh(shrinking)[0]) if occurs.any() else None


@dataclass(frozen=True)
class Outcome:
    """What the rounds found: the epochs, passes over the record, and sentences on what was done."""

    epochs: tuple[Epoch, ...]
    passes: float
    notes: tuple[str, ...]


class _Round(NamedTuple):
    """What one round starts from, whatever its order and step."""

    record: Record
    stepper: ReducedStepper
    anchor: Vector
    mean: Vector
    """The mean operator at the anchor."""
    limit: float
    number: int
    track: Track | None


def run_rounds(
    record: Record,
    plan: tuple[PlannedEpoch, ...],
    instead: tuple[PlannedEpoch, ...] | None,
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
    at half the step; if that diverges too, what it started from is the answer. One that gets nowhere is run once more
    as planned in `instead`, and so are all that follow; None leaves the order as it is. In lanes a round is one epoch
    of many short chains, the last of the plan, and up to 8 are taken.
    """
    lanes = stepper.name == "batched" and plan[-1].chains > 1
    take_round, most = (_lane_round, MOST_LANE_ROUNDS) if lanes else (_round, MOST_ROUNDS)
    x, epochs, notes, passes = start, [], [], 0.0
    shrinks = contraction(record, stepper.preconditioner, step, start) if rounds is None else None
    if shrinks is not None and lanes:
        shrinks *= plan[-1].length / record.length
    for number in range(1, (rounds or most) + 1):
        residual = residual_of(record.batches([x])[0], feasible, x)
        passes += 1
        if rounds is None and residual.is_noise:
            share = residual.size / residual.error if residual.error else 0.0
            notes.append(f"no round {number}, since the residual is only {share:.2g} of its standard error")
            break
        rounding = step * residual.size <= ROUNDING * np.linalg.norm(x)
        if rounds is None and rounding:
            notes.append(f"no round {number}, since the residual is rounding")
            break
        how = _Round(record, stepper, x, residual.mean, limit, number, track)
        epoch, drift = take_round(how, plan, step)
        passes += epoch.taken / record.length
        if epoch.diverged:
            step /= 2
            notes.append(f"round {number} diverged and was run again at half the step ({step:.3g})")
            epoch, drift = take_round(how, plan, step)
            passes += epoch.taken / record.length
        if lanes and not epoch.diverged and _ran_off(record, feasible, x, epoch.answer):
            notes.append(f"round {number} got nowhere and was left out: try another gap, replay=mr.Interleaved(gap)")
            break
        if instead and not lanes and not rounding and _got_nowhere(record, stepper, feasible, step, residual, epoch):
            plan, instead = instead, None
            notes.append(f"round {number} got nowhere, as where the order is in step with the record, and was shuffled")
            epoch, drift = _round(how, plan, step)
            passes += epoch.taken / record.length
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
            "or a preconditioner of higher rank, may do better"
        )
    return Outcome(tuple(epochs), passes, tuple(notes))


def _ran_off(record: Record, feasible: Set, before: Vector, after: Vector) -> bool:
    """Whether a round in lanes left the residual on 4096 samples as large as it was, beyond what chance does."""
    columns = record.take(scattered(record.length, PREFIX))
    old, new = (measure(record.problem, columns, feasible, x) for x in (before, after))
    return new.size > old.size and new.size > 2 * new.error


def _got_nowhere(
    record: Record, stepper: ReducedStepper, feasible: Set, step: float,
    before: Residual, epoch: Epoch,
) -> bool:  # fmt: skip
    """Whether a round left a residual that is beyond chance, and that it should have removed.

    It happens where the order is in step with a period of the record, so that neighbours in it are all alike. The
    residual after the round is that before it, known from the whole record, and the change from the anchor to the
    answer on 4096 samples: far less noisy than what these alone say, since most of their noise is in both.
    """
    if epoch.diverged:
        return False
    columns, anchor = record.take(scattered(record.length, PREFIX)), stepper.anchor
    old, new = batch_means(record.problem, columns, np.array([anchor, epoch.answer]))
    after = residual_of(Batches(before.mean + new.means - old.means, new.sizes), feasible, epoch.answer)
    if after.size <= max(NOT_FAR * before.size, 2 * after.error, before.error):
        return False
    shrinks = contraction(record, stepper.preconditioner, step, anchor)
    return after.size > (NOT_FAR if shrinks is not None and shrinks >= ENOUGH else NOWHERE) * before.size


def _round(how: _Round, plan: tuple[PlannedEpoch, ...], step: float) -> tuple[Epoch, float]:
    """One pass around the anchor, and how far its last two quarters are apart, relative to all it moved."""
    record, stepper, anchor = how.record, how.stepper, how.anchor
    stepper.anchor = anchor.copy()
    stepper.mean = stepper.preconditioner.apply(how.mean)
    planned = replace(plan[-1], k=plan[-1].k + how.number, length=sum(epoch.steps for epoch in plan), chains=1)
    run = EpochRun(Stepping(**_stepping(how, step)), planned)
    three_quarters = planned.length - (planned.length - run.skipped) // 2
    earlier, seen = np.zeros_like(anchor), 0
    for samples, positions, shown in record.chunks(block for epoch in plan for block in epoch.blocks()):
        cut = int(np.clip(three_quarters - run.taken, 0, len(positions)))
        for part in (slice(0, cut), slice(cut, None)):
            if len(positions[part]) and not run.feed(samples, positions[part], shown[part]):
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


def _lane_round(how: _Round, plan: tuple[PlannedEpoch, ...], step: float) -> tuple[Epoch, float]:
    """One epoch of many chains around the anchor; whether it has arrived is left to the residual."""
    how.stepper.anchor, how.stepper.mean = how.anchor.copy(), how.mean
    planned = replace(plan[-1], k=plan[-1].k + how.number)
    return run_chains(planned, Job(**_stepping(how, step), record=how.record)), np.inf


def _stepping(how: _Round, step: float) -> dict[str, Any]:
    """What a round runs, as arguments of `Stepping`."""
    return {
        "problem": how.record.problem, "stepper": how.stepper, "schedule": Constant(step), "averaging": SECOND_HALF,
        "x0": how.anchor, "limit": how.limit, "track": how.track,
    }  # fmt: skip
