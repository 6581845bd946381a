"""Rounds of variance reduction, and when to stop them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.engine import EpochRun, Job, ReducedStepper, run_chains
from multireplay.engine.sums import Batches, operator_batches
from multireplay.inference.residuals import Residual, measure, residual_at, residual_of
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.steps import Constant

if TYPE_CHECKING:
    from multireplay.solving.run import Run

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
"""Samples, spread evenly over the record, on which rounds are looked at."""
WIDEST = 1024
SECOND_HALF = Averaging(fraction=0.5, answers=True)


class _Anchored(NamedTuple):
    """What one round starts from, whatever its order and step: the anchor, and the mean operator there."""

    number: int
    anchor: Vector
    residual: Residual


class Rounds:
    """The rounds of one run.

    A second round is taken where one pass does not shrink the slowest direction enough (`contraction`), or, where that
    is not known, where the first round was still on its way at its end. A round that diverges is run once more at half
    the step; if that diverges too, what it started from is the answer. One that gets nowhere is run once more in the
    order that the run has for such a case, and so are all that follow. Over batches a round is one epoch of many short
    chains, the last of the plan, and up to 8 are taken.
    """

    def __init__(self, run: Run, plan: tuple[PlannedEpoch, ...], stepper: ReducedStepper, job: Job) -> None:
        self.what, self.record, self.plan, self.stepper, self.job = run, run.record, plan, stepper, job
        self.instead = None if run.instead is None else run.instead.plan(run.record.length)
        self.lanes = run.engine == "batched" and plan[-1].chains > 1
        self.notes: list[str] = []
        self.passes = 0.0

    def run(self, start: Vector, step: float, rounds: int | None) -> tuple[Epoch, ...]:
        """Rounds from `start`; None is as many as it takes, at most 2, or 8 over batches."""
        x, epochs, automatic = start, [], rounds is None
        shrinks = self.contraction(step, start) if automatic else None
        if shrinks is not None and self.lanes:
            shrinks *= self.plan[-1].length / self.record.length
        for number in range(1, (rounds or (MOST_LANE_ROUNDS if self.lanes else MOST_ROUNDS)) + 1):
            residual = residual_at(self.record, self.what.feasible, x, self.what.threads)
            self.passes += 1
            rounding = bool(step * residual.size <= ROUNDING * np.linalg.norm(x))
            if automatic and (why := self._no_more(residual, rounding)):
                self.notes.append(f"no round {number}, since the residual is {why}")
                break
            around = _Anchored(number, x, residual)
            epoch, drift, step = self._round_or_shorter(around, step)
            if self.lanes and not epoch.diverged and self._ran_off(x, epoch.answer):
                self.notes.append(
                    f"round {number} got nowhere and was left out: try another gap, replay=mr.Interleaved(gap)"
                )
                break
            if self.instead and not self.lanes and not rounding and self._got_nowhere(around, epoch, step):
                self.plan, self.instead = self.instead, None
                self.notes.append(
                    f"round {number} got nowhere, as where the order is in step with the record, and was shuffled"
                )
                epoch, drift = self._round(around, step)
            epochs.append(epoch)
            if epoch.diverged:
                break
            x = epoch.answer
            if automatic and (drift <= ON_ITS_WAY if shrinks is None else number * shrinks >= ENOUGH):
                break
        if shrinks is not None and shrinks < ENOUGH / 10:
            self.notes.append(
                f"ill-conditioned: a round shrinks the slowest direction only by a factor e^{-shrinks:.2g}; "
                "fit_exactly, or a preconditioner of higher rank, may do better"
            )
        return tuple(epochs)

    def contraction(self, step: float, x: Vector) -> float | None:
        """How often one pass shrinks the slowest direction by a factor e: η·λ_min·B, from 4096 samples of the record.

        None where the problem knows no curvature, or has so many coordinates that this would cost more than a pass.
        """
        if len(x) > WIDEST:
            return None
        curvature = self.record.problem.curvature(x, self.record.spread(PREFIX))
        if curvature is None:
            return None
        root = self.stepper.preconditioner.root()
        occurs = np.diag(curvature) > 0  # a feature that does not occur has nothing to converge to
        shrinking = (root @ curvature @ root)[np.ix_(occurs, occurs)]
        return float(step * self.record.length * np.linalg.eigvalsh(shrinking)[0]) if occurs.any() else None

    def _no_more(self, residual: Residual, rounding: bool) -> str:
        """Why there is nothing for another round to do, if that is so."""
        if residual.is_noise:
            return f"only {residual.size / residual.error if residual.error else 0.0:.2g} of its standard error"
        return "rounding" if rounding else ""

    def _ran_off(self, before: Vector, after: Vector) -> bool:
        """Whether a round in lanes left the residual on 4096 samples as large as it was, beyond what chance does."""
        columns = self.record.spread(PREFIX)
        old, new = (measure(self.record.problem, columns, self.what.feasible, x) for x in (before, after))
        return new.size > old.size and new.size > 2 * new.error

    def _got_nowhere(self, around: _Anchored, epoch: Epoch, step: float) -> bool:
        """Whether a round left a residual that is beyond chance, and that it should have removed.

        It happens where the order is in step with a period of the record, so that neighbours in it are all alike. The
        residual after the round is that before it, known from the whole record, and the change from the anchor to the
        answer on 4096 samples: far less noisy than what these alone say, since most of their noise is in both.
        """
        if epoch.diverged:
            return False
        before, spread = around.residual, self.record.part(self.record.spread(PREFIX))
        old, new = operator_batches(spread, [around.anchor, epoch.answer])
        left = Batches(before.mean + new.means - old.means, new.sizes)
        after = residual_of(left, self.what.feasible, epoch.answer)
        if after.size <= max(NOT_FAR * before.size, 2 * after.error, before.error):
            return False
        shrinks = self.contraction(step, around.anchor)
        return after.size > (NOT_FAR if shrinks is not None and shrinks >= ENOUGH else NOWHERE) * before.size

    def _round_or_shorter(self, around: _Anchored, step: float) -> tuple[Epoch, float, float]:
        """A round, once more at half the step if it diverges; with how far it was from its end, and its step."""
        epoch, drift = self._round(around, step)
        if epoch.diverged:
            step /= 2
            self.notes.append(f"round {around.number} diverged and was run again at half the step ({step:.3g})")
            epoch, drift = self._round(around, step)
        return epoch, drift, step

    def _round(self, around: _Anchored, step: float) -> tuple[Epoch, float]:
        epoch, drift = (self._round_in_lanes if self.lanes else self._round_in_order)(around, step)
        self.passes += epoch.taken / self.record.length
        return epoch, drift

    def _round_in_order(self, around: _Anchored, step: float) -> tuple[Epoch, float]:
        """One pass around the anchor, and how far its last two quarters are apart, relative to all it moved."""
        stepper, anchor, plan = self.stepper, around.anchor, self.plan
        stepper.anchor = anchor.copy()
        stepper.mean = stepper.preconditioner.apply(around.residual.mean)
        planned = replace(plan[-1], k=plan[-1].k + around.number, length=sum(epoch.steps for epoch in plan), chains=1)
        run = EpochRun(self._job(anchor, step), planned)
        three_quarters = planned.length - (planned.length - run.skipped) // 2
        earlier, seen = np.zeros_like(anchor), 0
        blocks, kept = (block for epoch in plan for block in epoch.blocks()), sum(epoch.kept for epoch in plan)
        for samples, positions, shown in self.record.chunks(blocks, kept):
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

    def _round_in_lanes(self, around: _Anchored, step: float) -> tuple[Epoch, float]:
        """One epoch of many chains around the anchor; whether it has arrived is left to the residual."""
        self.stepper.anchor, self.stepper.mean = around.anchor.copy(), around.residual.mean
        planned = replace(self.plan[-1], k=self.plan[-1].k + around.number)
        return run_chains(planned, self._job(around.anchor, step)), np.inf

    def _job(self, anchor: Vector, step: float) -> Job:
        return replace(self.job, stepper=self.stepper, schedule=Constant(step), averaging=SECOND_HALF, x0=anchor)
