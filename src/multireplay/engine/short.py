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
            self._sums = Chains(job.stepper.projection, job.x0, steps, weights, job.limit)
        self.taken, self.stopped = 0, False

    def advance(self, samples: Any, positions: NDArray[np.int64]) -> None:
        """Run the whole chains that these positions are, unless one has diverged."""
        if self.stopped:
            return
        done = self._sums.advance(samples, positions)
        self.taken += done
        self.stopped = done < len(positions)
        self.job.advanced(done)

    def epoch(self) -> Epoch:
        """What the epoch found."""
        ended = max(1, self.taken // self.planned.length)
        last, average = self._sums.lasts / ended, self._sums.averages / ended
        how = self.job.averaging, self.job.x0, last, average, self.taken, self.stopped
        track = self.job.track
        recorder = None if track is None else Recorder(track, self.planned.length, self.job.x0)
        return finished(self.planned, self.first.first_step, *how, recorder)
