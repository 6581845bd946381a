"""Epochs that read forwards take turns with every block of a record on disk: with any engine and any step sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.engine.lazy import SparseStepper
from multireplay.engine.reading import Reading
from multireplay.engine.run import EpochRun
from multireplay.engine.sequential import is_scale
from multireplay.engine.steppers import Stepper
from multireplay.replay import PlannedEpoch
from multireplay.replay.base import BLOCK
from multireplay.result import Epoch

if TYPE_CHECKING:
    from multireplay.engine.plans import Job


def served(plan: tuple[PlannedEpoch, ...], job: Job) -> list[int]:
    """Which epochs: of one chain that reads forwards, where the compiled pass does not serve them."""
    if not job.record.on_disk or job.make is None:
        return []
    return [index for index, planned in enumerate(plan) if planned.forwards and not is_scale(planned, job)]


class Turns(Reading):
    """These epochs under way, each with a stepper of its own."""

    def __init__(self, plan: tuple[PlannedEpoch, ...], chosen: Sequence[int], jobs: Sequence[Job]) -> None:
        self.record, self.jobs = jobs[0].record, jobs
        self.size = self.record.length
        self.runs = {index: [job.apart().epoch(plan[index]) for job in jobs] for index in chosen}

    def run(self, first: int, note: Callable[[int], object]) -> None:
        for job, *runs in zip(self.jobs, *self.runs.values(), strict=True):
            job.advanced(sum(run.taken for run in runs))
        with closing(self.record.windows(first, cached=True)) as windows:
            for samples, base, last in windows:
                for runs in self.runs.values():
                    for job, run in zip(self.jobs, runs, strict=True):
                        job.advanced(_feed(run, samples, base, last))
                note(last)

    def epochs(self) -> dict[int, list[Epoch]]:
        return {index: [run.finish() for run in runs] for index, runs in self.runs.items()}

    def _all(self) -> dict[str, EpochRun]:
        return {
            f"epoch {index} job {number} in turn": run
            for index, runs in self.runs.items()
            for number, run in enumerate(runs)
        }

    def state(self) -> dict[str, Any]:
        """Copies, since an interruption may find a block half done."""
        found: dict[str, Any] = {}
        for name, run in self._all().items():
            found |= {f"{name} {what}": array.copy() for what, array in _arrays(run.stepper).items()}
            found[f"{name} counts"] = np.array([run.taken, run.stopped])
        return found

    def load(self, state: Mapping[str, Any]) -> None:
        for name, run in self._all().items():
            for what, array in _arrays(run.stepper).items():
                array[...] = state[f"{name} {what}"]
            run.taken, run.stopped = int(state[f"{name} counts"][0]), bool(state[f"{name} counts"][1])


def _arrays(stepper: Stepper) -> dict[str, Any]:
    """All that the steps change, as arrays that can be written into."""
    return stepper.arrays() if isinstance(stepper, SparseStepper) else {"x": stepper.x, "total": stepper.total}


def _feed(run: EpochRun, samples: Any, base: int, last: int) -> int:
    """Take the steps on positions up to `last`; the number of them. `base` is the position of the first sample."""
    before, length = run.taken, run.planned.length
    while run.taken < length and not run.stopped:
        positions = run.planned.block(run.taken, min(BLOCK, length - run.taken))
        due = positions[: np.searchsorted(positions, last, side="right")]
        if len(due):
            run.feed(samples, due - base + 1, due)
        if len(due) < len(positions):
            break
    return run.taken - before
