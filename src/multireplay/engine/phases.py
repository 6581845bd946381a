"""The chains of one epoch side by side with any engine: each takes the steps that a block of the record has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine.run import finished
from multireplay.engine.steppers import arrays_of
from multireplay.replay import PlannedEpoch
from multireplay.replay.multiscale import multiples_of_gap
from multireplay.result import Epoch
from multireplay.tracking import Recorder

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


class Phases:
    """Several chains under way, for which one stepper takes the steps of one after the other.

    It comes to the same as running them as wholes, one after the other, to the last bit. So when one of them diverges,
    those after it do not go on, and those before it do.
    """

    def __init__(self, planned: PlannedEpoch, job: Job) -> None:
        self.planned, self.job = planned, job
        self.run = job.epoch(planned)
        self.run.recorder = None  # curves are of the mean over the chains
        self.length = job.record.length
        self.offsets = multiples_of_gap(planned.chains, self.length // planned.length, -1, planned.chains)
        start = arrays_of(self.run.stepper)
        self._kept = {name: np.repeat(array[None], planned.chains, axis=0) for name, array in start.items()}
        self._counts = np.zeros(planned.chains, dtype=np.int64)
        self._going = planned.chains  # chains before the first that has diverged

    @property
    def taken(self) -> int:
        """Steps taken so far, but those after a chain that diverged."""
        return int(self._counts[: self._going + 1].sum())

    def feed(self, samples: Any, base: int, last: int) -> None:
        """Take the steps on positions up to `last`; `base` is the position of the first sample, both counted from 1."""
        due, counts = self._due(last)[: self._going], self._counts[: self._going]
        if (due > counts).any():
            begin = int(counts.min())
            self._advance(samples, base, due, begin, *self.run.sizes_from(begin, int(due.max()) - begin))

    def _advance(self, samples: Any, base: int, due: Positions, begin: int, steps: Vector, weights: Vector) -> None:
        """Take the steps of every chain up to the `due` one; steps[0] and weights[0] are those of step begin + 1."""
        for chain in np.flatnonzero(due > self._counts[: self._going]).tolist():
            part = slice(int(self._counts[chain]) - begin, int(due[chain]) - begin)
            positions = self._positions(chain, part.stop - part.start)
            self._turn_to(chain)
            fine = self.run.advance(samples, positions - base + 1, steps[part], weights[part], positions)
            for name, array in arrays_of(self.run.stepper).items():
                self._kept[name][chain] = array
            self._counts[chain] = self.run.taken
            if not fine:
                self._going = chain
                break

    def _due(self, last: int) -> Positions:
        """The number of steps that each chain has on positions up to `last`: the largest t with ⌊t·B/T⌋ − o ≤ last."""
        steps = self.planned.length
        return np.minimum(steps, ((last + 1 + self.offsets) * steps - 1) // self.length)

    def _positions(self, chain: int, count: int) -> Positions:
        """The next positions of a chain."""
        ends = multiples_of_gap(self.planned.length, self.length, int(self._counts[chain]), count)
        return np.asarray(ends - self.offsets[chain])

    def _turn_to(self, chain: int) -> None:
        for name, array in arrays_of(self.run.stepper).items():
            array[...] = self._kept[name][chain]
        self.run.taken = int(self._counts[chain])

    def state(self) -> dict[str, Any]:
        """Copies of all that changes, since an interruption may find a block half done."""
        kept = {name: array.copy() for name, array in self._kept.items()}
        return {**kept, "counts": self._counts.copy(), "going": np.array(self._going)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to this state."""
        for name, array in self._kept.items():
            array[...] = state[name]
        self._counts[...], self._going = state["counts"], int(state["going"])

    def _means(self) -> tuple[Vector, Vector]:
        """Of the last iterates and of the averages of the chains, none of which may have diverged before."""
        last, total = np.zeros(len(self.job.x0)), np.zeros(len(self.job.x0))
        for chain in range(self._going):
            self._turn_to(chain)
            last += self.run.stepper.x
            total += self.run.stepper.total
        whole = self.job.averaging.weight(self.planned.length, self.planned.length)
        return last / self._going, total / whole / self._going

    def finish(self) -> Epoch:
        """What the epoch found."""
        x0, track = self.job.x0, self.job.track
        last, average = self._means() if self._going else (x0, x0)
        stopped = self._going < self.planned.chains
        recorder = None if track is None else Recorder(track, self.planned.length, x0)
        how = self.job.averaging, x0, last, average, self.taken, stopped, recorder
        return finished(self.planned, self.run.first_step, *how)
