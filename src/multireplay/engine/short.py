"""The chains of one epoch, run as wholes one after the other, and the mean of what they end with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multireplay.engine.chains import Chains
from multireplay.engine.lazy import SparseStepper
from multireplay.engine.lazy_chains import SparseChains
from multireplay.engine.run import finished
from multireplay.engine.steppers import CompiledStepper
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.tracking import Recorder

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


class ShortChains:
    """An epoch under way whose chains are short enough to be given whole, many at a time."""

    def __init__(self, planned: PlannedEpoch, job: Job) -> None:
        self.planned, self.job = planned, job
        self.first = job.epoch(planned)
        steps, weights = self.first.steps(planned.length), job.averaging.weights(planned.length, 0, planned.length)
        if isinstance(job.stepper, SparseStepper):
            self._sums: Chains | SparseChains = SparseChains(job.x0, steps, weights, job.limit)
        else:
            assert isinstance(job.stepper, CompiledStepper)
            self._sums = Chains(job.stepper.projection, job.x0, steps, weights, job.limit, job.stepper.x.dtype)
        self._seen = 0

    @property
    def taken(self) -> int:
        """Steps taken so far."""
        return int(self._sums.counts.sum())

    @property
    def stopped(self) -> bool:
        """Whether one of the chains seen so far has diverged."""
        return self.taken < self._seen

    def advance(self, samples: Any, positions: NDArray[np.int64]) -> None:
        """Run the whole chains that these positions are, unless one has diverged.

        Those that had been run before an interruption are left out.
        """
        ended = self.taken // self.planned.length * self.planned.length
        known = ended - self._seen
        self._seen += len(positions)
        if 0 <= known < len(positions):
            self.job.advanced(self._sums.advance(samples, positions[known:]))

    def skip(self, steps: int) -> None:
        """Go on after so many steps, which were seen before an interruption."""
        self._seen += steps
        self.job.advanced(self.taken)

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into; for chains on dense rows."""
        assert isinstance(self._sums, Chains)
        return {"lasts": self._sums.lasts, "averages": self._sums.averages, "counts": self._sums.counts}

    def epoch(self) -> Epoch:
        """What the epoch found."""
        ended = max(1, self.taken // self.planned.length)
        last, average = self._sums.lasts / ended, self._sums.averages / ended
        how = self.job.averaging, self.job.x0, last, average, self.taken, self.stopped
        track = self.job.track
        recorder = None if track is None else Recorder(track, self.planned.length, self.job.x0)
        return finished(self.planned, self.first.first_step, *how, recorder)
