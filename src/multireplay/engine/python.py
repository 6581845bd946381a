"""The engine in plain Python: any problem on any set."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine.stepper import LowRank, ReducedStepper, StepFailure, Stepper
from multireplay.problems import Problem
from multireplay.problems.variational_inequality import UserSamples
from multireplay.sets import Set


class PythonStepper(Stepper):
    """Runs any problem on any set, at the speed of Python."""

    name = "python"

    def __init__(self, problem: Problem, constraint: Set, dim: int) -> None:
        self.problem = problem
        self.constraint = constraint
        self.x = np.zeros(dim)
        self.total = np.zeros(dim)

    def fresh(self) -> Stepper:
        return PythonStepper(self.problem, self.constraint, len(self.x))

    def reduced(self, preconditioner: LowRank) -> ReducedStepper:
        return ReducedPythonStepper(preconditioner, self.problem, self.constraint, len(self.x))

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        for t, (position, step) in enumerate(zip(positions.tolist(), steps.tolist(), strict=True)):
            try:
                with np.errstate(all="ignore"):
                    value = self.problem.operator(self.x.copy(), samples, position - 1)
                    if not np.abs(value).max() <= limit * _reach(samples, position - 1):
                        return t
                    self.x -= step * self.direction(value, samples, position - 1)
                    self.constraint.project(self.x)
            except Exception as error:
                raise StepFailure(t) from error
            if weights[t] > 0:
                self.total += weights[t] * self.x
        return len(positions)

    def direction(self, value: Vector, samples: Any, row: int) -> Vector:
        """Where to go, given F̃ at the iterate on that row."""
        return value


def _reach(samples: Any, row: int) -> float:
    """How much larger than the residual F̃ can be on this row: its largest feature, 1 for a user's operator."""
    return 1.0 if isinstance(samples, UserSamples) else float(np.abs(samples.row(row)).max())


class ReducedPythonStepper(ReducedStepper, PythonStepper):
    """Variance reduction in plain Python."""

    def direction(self, value: Vector, samples: Any, row: int) -> Vector:
        if len(self.anchor):
            value = value - self.problem.operator(self.anchor.copy(), samples, row)
        return self.preconditioner.apply(value) + self.mean
