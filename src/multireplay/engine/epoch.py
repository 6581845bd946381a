"""One epoch under way: blocks of positions, with averages, error curves and divergence taken care of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.averaging import Averaging
from multireplay.buffer.record import Record
from multireplay.engine.checkpoint import Checkpoint
from multireplay.engine.stepper import StepFailure, Stepper
from multireplay.errors import InputError, OperatorError
from multireplay.problems import Problem
from multireplay.replay import PlannedEpoch
from multireplay.result import Epoch
from multireplay.steps import Schedule
from multireplay.tracking import Recorder, Track


@dataclass(frozen=True, eq=False, kw_only=True)
class Stepping:
    """What is solved, by which engine and with which steps: all that the epochs of a run have in common."""

    problem: Problem
    stepper: Stepper
    schedule: Schedule
    averaging: Averaging
    x0: Vector
    limit: float
    """Size of a residual beyond which a chain has diverged."""
    track: Track | None = None

    def epoch(self, planned: PlannedEpoch) -> EpochRun:
        """The run of one chain of an epoch."""
        return EpochRun(self, planned)


@dataclass(frozen=True, eq=False, kw_only=True)
class Job(Stepping):
    """Epochs of a plan to be run on a record."""

    record: Record
    threads: int = 1
    checkpoint: Checkpoint | None = None


class EpochRun:
    """One epoch under way: feed it positions, then ask for the `Epoch`.

    Parameters
    ----------
    how : Stepping
        What is run.
    planned : PlannedEpoch
        The epoch.
    name : callable, optional
        What a person calls the sample at a position.
    """

    def __init__(
        self,
        how: Stepping,
        planned: PlannedEpoch,
        name: Callable[[int], str] = "sample {} (counting from 1)".format,
    ) -> None:
        self.problem, self.stepper, self.schedule = how.problem, how.stepper, how.schedule
        self.averaging, self.x0, self.limit = how.averaging, how.x0, how.limit
        self.planned, self.name, self.dim = planned, name, len(how.x0)
        self.skipped = self.averaging.skipped(planned.length)
        self.recorder = None if how.track is None else Recorder(how.track, planned.length, self.x0)
        self.curve = self.recorder if planned.chains == 1 else None  # of several chains, it is of the mean at the end
        self.first_step = float(self.steps_from(0, 1)[0])  # may be refused, before anything is changed
        self.restart()

    def restart(self) -> None:
        """Go back to before the first step."""
        self.taken = 0
        self.stopped = False
        self.stepper.x[:] = self.x0
        self.stepper.total[:] = 0

    def feed(self, samples: Any, positions: Positions, shown: Positions | None = None) -> bool:
        """Take one step for each position; False if the run diverged. `shown` are the positions that errors name."""
        names = positions if shown is None else shown
        steps, weights = self.sizes_from(self.taken, len(positions))
        first = self.taken
        for stop in self._stops(first, first + len(positions)):
            part = slice(self.taken - first, stop - first)
            try:
                taken = self.stepper.advance(samples, positions[part], steps[part], weights[part], self.limit)
            except StepFailure as failure:
                raise failure.explained(self.where(names[part][failure.taken], failure.taken)) from failure.__cause__
            self.taken += taken
            at = self.taken - first
            if self.taken < stop:
                if self.problem.users_code:
                    self.blame_operator(samples, int(positions[at]), self.where(names[at]))
                self.stopped = True
                return False
            if self.curve is not None and stop in self.curve.wanted:
                self.curve.record(stop, self.stepper.x, self.average)
        return True

    def _stops(self, first: int, last: int) -> Positions:
        """Where to stop on the way for the error curve, and at the end."""
        if self.curve is None:
            return np.array([last])
        at = self.curve.at
        return np.unique(np.append(at[(at > first) & (at < last)], last))

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

    def blame_operator(self, samples: Any, position: int, where: str) -> None:
        """Raise if the user's function is not finite at a point that is; otherwise the run itself diverged."""
        x = self.stepper.x.copy()
        with np.errstate(all="ignore"):
            value = self.problem.operator(x, samples, position - 1)
        if not np.isfinite(value).all() and np.abs(x).max() < 1e50:
            message = f"the operator returned {value} at {where}, where x = {x}: every value must be finite and set"
            raise OperatorError(message)

    def where(self, position: int, ahead: int = 0) -> str:
        """The place of a step, for a person."""
        return f"epoch {self.planned.k}, step {self.taken + ahead + 1}, {self.name(int(position))}"

    @property
    def average(self) -> Vector:
        """The average so far, or the iterate while there is nothing to average."""
        weight = self.averaging.weight(self.planned.length, self.taken)
        return self.stepper.total / weight if weight > 0 else self.stepper.x.copy()

    def finish(self) -> Epoch:
        """What the epoch found, where the chain is all of it."""
        return self.ended(self.stepper.x.copy(), self.average, self.taken, self.stopped)

    def ended(self, last: Vector, average: Vector, taken: int, stopped: bool) -> Epoch:
        """The record of an epoch that ended so; iterates that overflowed in the very last step are caught here."""
        whole = bool(np.isfinite(last).all() and np.isfinite(average).all())
        if not whole:
            last, average = self.x0.copy(), self.x0.copy()
        if self.recorder is not None and not stopped:
            self.recorder.end(self.planned.length, last, average)
        return Epoch(
            k=self.planned.k,
            gap=self.planned.gap,
            length=self.planned.length,
            step=self.first_step,
            last=last,
            average=average,
            answer=(average if self.averaging.answers else last).copy(),
            taken=taken,
            diverged=not whole or stopped,
            curve=None if self.recorder is None else self.recorder.curve(last, average),
        )
