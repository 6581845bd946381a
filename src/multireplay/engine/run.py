"""One epoch under way: blocks of positions, with averages, error curves and divergence taken care of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.engine.steppers import StepFailure, Stepper, explain_failure
from multireplay.errors import InputError, OperatorError
from multireplay.problems import Problem
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.steps import Schedule
from multireplay.tracking import Recorder, Track


class EpochRun:
    """One epoch under way: feed it positions, then ask for the `Epoch`."""

    def __init__(
        self,
        problem: Problem,
        stepper: Stepper,
        planned: PlannedEpoch,
        schedule: Schedule,
        averaging: Averaging,
        x0: Vector,
        limit: float,
        track: Track | None = None,
        name: Callable[[int], str] = "sample {} (counting from 1)".format,
    ) -> None:
        self.problem = problem
        self.stepper = stepper
        self.planned = planned
        self.schedule = schedule
        self.averaging = averaging
        self.limit = limit
        self.name = name
        self.x0 = x0
        self.skipped = averaging.skipped(planned.length)
        self.recorder = None if track is None else Recorder(track, planned.length, x0)
        self.first_step = float(self.steps_from(0, 1)[0])  # may be refused, before anything is changed
        self.restart()

    def restart(self) -> None:
        """Go back to before the first step."""
        self.taken = 0
        self.stopped = False
        self.stepper.x[:] = self.x0
        self.stepper.total[:] = 0

    def feed(self, samples: Any, positions: NDArray[np.int64], shown: NDArray[np.int64] | None = None) -> bool:
        """Take one step for each position; False if the run diverged. `shown` are the positions that errors name."""
        steps, weights = self.sizes_from(self.taken, len(positions))
        names = positions if shown is None else shown
        start = self.taken
        for stop in self._stops(start, start + len(positions)):
            part = slice(self.taken - start, stop - start)
            if not self.advance(samples, positions[part], steps[part], weights[part], names[part]):
                self.stopped = True
                return False
            if self.recorder is not None and stop in self.recorder.wanted:
                self.recorder.record(stop, self.stepper.x, self.average)
        return True

    def sizes_from(self, first: int, count: int) -> tuple[Vector, Vector]:
        """The sizes of steps first + 1, …, first + count, and the weights of their iterates in the average."""
        return self.steps_from(first, count), self.averaging.weights(self.planned.length, first, count)

    def steps_from(self, first: int, count: int) -> Vector:
        """The sizes of steps first + 1, …, first + count, checked."""
        steps = np.asarray(self.schedule.values(self.planned.k, first, count), dtype=np.float64)
        if steps.shape != (count,):
            raise InputError(f"the step schedule gave an array of shape {steps.shape} instead of ({count},)")
        if not (steps.min() > 0 and steps.max() < np.inf):
            raise InputError(
                f"the step schedule gives {steps.min():g} in epoch {self.planned.k}; steps must be positive"
            )
        return np.ascontiguousarray(steps)

    def _stops(self, start: int, stop: int) -> NDArray[np.int64]:
        if self.recorder is None:
            return np.array([stop])
        at = self.recorder.at
        return np.unique(np.append(at[(at > start) & (at < stop)], stop))

    def advance(
        self,
        samples: Any,
        positions: NDArray[np.int64],
        steps: Vector,
        weights: Vector,
        names: NDArray[np.int64],
    ) -> bool:
        """The same with the sizes of the steps and the weights of their iterates given, and without error curves."""
        try:
            taken = self.stepper.advance(samples, positions, steps, weights, self.limit)
        except StepFailure as failure:
            where = self.where(failure.taken, names)
            raise explain_failure(failure, where) from failure.__cause__
        self.taken += taken
        if taken < len(positions):
            if self.problem.users_code:
                self.blame_operator(samples, int(positions[taken]), self.where(0, names[taken:]))
            return False
        return True

    def blame_operator(self, samples: Any, position: int, where: str) -> None:
        """Raise if the user's function is not finite at a point that is; otherwise the run itself diverged."""
        x = self.stepper.x.copy()
        with np.errstate(all="ignore"):
            value = self.problem.operator(x, samples, position - 1)
        if not np.isfinite(value).all() and np.abs(x).max() < 1e50:
            message = f"the operator returned {value} at {where}, where x = {x}: every value must be finite and set"
            raise OperatorError(message)

    def where(self, taken: int, positions: NDArray[np.int64]) -> str:
        """The place of a step, for a person."""
        return f"epoch {self.planned.k}, step {self.taken + taken + 1}, {self.name(int(positions[taken]))}"

    @property
    def average(self) -> Vector:
        """The average so far, or the iterate while there is nothing to average."""
        weight = self.averaging.weight(self.planned.length, self.taken)
        return self.stepper.total / weight if weight > 0 else self.stepper.x.copy()

    def finish(self) -> Epoch:
        """What the epoch found."""
        return finished(
            self.planned, self.first_step, self.averaging, self.x0, self.stepper.x.copy(), self.average, self.taken,
            self.stopped, self.recorder,
        )  # fmt: skip


def finished(
    planned: PlannedEpoch,
    step: float,
    averaging: Averaging,
    x0: Vector,
    last: Vector,
    average: Vector,
    taken: int,
    stopped: bool,
    recorder: Recorder | None,
) -> Epoch:
    """The record of an epoch; iterates that overflowed in the very last step are caught here."""
    whole = bool(np.isfinite(last).all() and np.isfinite(average).all())
    if not whole:
        last, average = x0.copy(), x0.copy()
    if recorder is not None and not stopped:
        recorder.end(planned.length, last, average)
    return Epoch(
        k=planned.k,
        gap=planned.gap,
        length=planned.length,
        step=step,
        last=last,
        average=average,
        answer=(average if averaging.answers else last).copy(),
        taken=taken,
        diverged=not whole or stopped,
        curve=None if recorder is None else recorder.curve(last, average),
    )
