"""A chain that reads forwards, block by block of the record, with any engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.engine.steppers import arrays_of
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


class OneChain:
    """The chain of one epoch under way."""

    def __init__(self, planned: PlannedEpoch, job: Job) -> None:
        self.planned, self.run = planned, job.epoch(planned)

    @property
    def taken(self) -> int:
        """Steps taken so far."""
        return self.run.taken

    def feed(self, samples: Any, base: int, last: int) -> None:
        """Take the steps on positions up to `last`; `base` is the position of the first sample, both counted from 1."""
        length = self.planned.length
        while self.taken < length and not self.run.stopped:
            positions = self.planned.block(self.taken, min(BLOCK, length - self.taken))
            due = positions[: np.searchsorted(positions, last, side="right")]
            if len(due):
                self.run.feed(samples, due - base + 1, due)
            if len(due) < len(positions):
                break

    def state(self) -> dict[str, Any]:
        """Copies of all that changes, since an interruption may find a block half done."""
        arrays = {name: array.copy() for name, array in arrays_of(self.run.stepper).items()}
        return {**arrays, "counts": np.array([self.run.taken, self.run.stopped])}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""
        for name, array in arrays_of(self.run.stepper).items():
            array[...] = state[name]
        self.run.taken, self.run.stopped = int(state["counts"][0]), bool(state["counts"][1])

    def finish(self) -> Epoch:
        """What the epoch found."""
        return self.run.finish()
