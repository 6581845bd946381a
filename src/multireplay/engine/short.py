"""The chains of one epoch, run one after the other, and the mean of what they end with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Positions
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.batched_phases import BatchedChains
from multireplay.engine.chains import Chains
from multireplay.engine.kinds import are_few
from multireplay.engine.lazy import SparseStepper
from multireplay.engine.lazy_chains import SparseChains
from multireplay.engine.one_by_one import OneByOne
from multireplay.engine.run import finished
from multireplay.engine.steppers import CompiledStepper, StepFailure, explain_failure
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.tracking import Recorder

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


class ShortChains:
    """An epoch under way whose chains follow one another.

    Parameters
    ----------
    planned : PlannedEpoch
        The epoch.
    job : Job
        What is run.
    whole : bool
        Whether chains are given as wholes, many at a time, which is faster where there is a compiled loop for it.
    """

    def __init__(self, planned: PlannedEpoch, job: Job, whole: bool = True) -> None:
        self.planned, self.job = planned, job
        self.run = job.epoch(planned)
        self._sums: Chains | SparseChains | BatchedChains | OneByOne
        if whole and type(job.stepper) is CompiledStepper:
            self._sums = Chains(self.run)
        elif whole and isinstance(job.stepper, BatchedStepper):
            self._sums = BatchedChains(self.run)
        elif whole and type(job.stepper) is SparseStepper and not are_few(planned, job):
            self._sums = SparseChains(self.run)
        else:
            self._sums = OneByOne(self.run)
        self.taken, self.stopped = 0, 0

    def advance(self, samples: Any, positions: Positions, shown: Positions) -> None:
        """Take the steps on these positions, unless a chain has diverged. `shown` are those that errors name."""
        if self.stopped or not len(positions):
            return
        if isinstance(self._sums, Chains | SparseChains):
            taken = self._advance(self._sums, samples, positions, shown)
        else:
            taken = self._sums.advance(samples, positions, shown)
        self.taken += taken
        self.stopped = int(taken < len(positions))
        self.job.advanced(taken)

    def _advance(self, sums: Chains | SparseChains, samples: Any, positions: Positions, shown: Positions) -> int:
        """Whole chains in the compiled loop; it has no words for what goes wrong."""
        try:
            taken = sums.advance(samples, positions)
        except StepFailure as failure:
            raise explain_failure(failure, self._where(failure.taken, shown)) from failure.__cause__
        if taken < len(positions) and self.job.problem.users_code:
            self.run.stepper.x[:] = sums.x
            self.run.blame_operator(samples, int(positions[taken]), self._where(taken, shown))
        return taken

    def _where(self, taken: int, shown: Positions) -> str:
        self.run.taken = taken % self.planned.length
        return self.run.where(0, shown[taken:])

    def state(self) -> dict[str, Any]:
        """All that changes between two chains, copied, since an interruption may find a chain half done."""
        counts = np.array([self.taken, self.stopped, self._sums.ended])
        return {"lasts": self._sums.lasts.copy(), "totals": self._sums.totals.copy(), "counts": counts}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""
        self._sums.lasts[:], self._sums.totals[:] = state["lasts"], state["totals"]
        self.taken, self.stopped, self._sums.ended = (int(count) for count in state["counts"])

    def finish(self) -> Epoch:
        """What the epoch found."""
        ended = self._sums.ended
        last, average = (one / ended for one in self._sums.sums()) if ended else (self.job.x0, self.job.x0)
        how = self.job.averaging, self.job.x0, last, average, self.taken, bool(self.stopped)
        track = self.job.track
        recorder = None if track is None else Recorder(track, self.planned.length, self.job.x0)
        return finished(self.planned, self.run.first_step, *how, recorder)
