"""Which engine runs a problem, and the one in plain Python that runs any problem on any set."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine.batched import BatchedStepper
from multireplay.engine.compiled import CompiledStepper
from multireplay.engine.sparse import SparseStepper
from multireplay.engine.stepper import Preconditioner, ReducedStepper, StepFailure, Stepper
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.over_batches import OverBatches
from multireplay.problems.packed import has_sparse_rows
from multireplay.problems.variational_inequality import UserSamples
from multireplay.sets import Set, WholeSpace

Backend = Literal["auto", "python", "compiled", "batched"]


def as_backend(backend: str) -> Backend:
    """The backend by name, or an error that lists them."""
    if backend not in ("auto", "python", "compiled", "batched"):
        raise InputError(f"backend must be 'auto', 'python', 'compiled' or 'batched', not {backend!r}")
    return cast(Backend, backend)


def make_stepper(
    problem: Problem, constraint: Set, dim: int, backend: Backend, samples: Any, precision: str = "float64"
) -> Stepper:
    """The engine for this problem, set and kind of samples; "auto" is the compiled one wherever it can run.

    `samples` are some packed samples, from which the types can be seen. The compiled loop runs what Numba compiles, a
    problem or a set written in plain Python runs in the Python loop, sparse rows on the whole space in time that is
    proportional to their nonzeros, and a problem over batches in lanes.

    Raises `InputError`, with the reasons, where the backend or the precision that was asked for cannot be had.
    """
    whole = isinstance(constraint, WholeSpace)
    in_python = not whole and constraint.spec(dim) is None  # also checks that the set fits the dimension
    if isinstance(problem, OverBatches) and precision != "float64":
        raise InputError(f"precision={precision!r} is for the compiled loop; in lanes give float32 columns instead")
    if isinstance(problem, OverBatches):
        return BatchedStepper(problem, constraint, dim)
    if backend == "batched":
        raise InputError("backend='batched' is for solve, which replays a record in memory in lanes")
    reasons = []
    if not problem.compiled:
        plain = "calls a plain Python function (jit it with numba.njit)"
        reasons.append(f"{problem!r} {plain if problem.users_code else 'has no compiled loop'}")
    if in_python:
        reasons.append(f"{constraint!r} is a plain Python set")
    if backend == "compiled" and reasons:
        raise InputError(f"backend='compiled' cannot be used: {'; '.join(reasons)}")
    sparse = whole and not isinstance(getattr(samples, "features", None), np.ndarray) and has_sparse_rows(samples)
    if precision != "float64" and (backend == "python" or reasons or sparse):
        raise InputError(f"precision={precision!r} is for the compiled loop on dense features")
    if backend == "python" or reasons:
        return PythonStepper(problem, constraint, dim)
    return SparseStepper(dim) if sparse else CompiledStepper(constraint, dim, np.dtype(precision))


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

    def reduced(self, preconditioner: Preconditioner) -> ReducedStepper:
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
            value = value.copy()  # which an operator may write into at every call
            value -= self.problem.operator(self.anchor.copy(), samples, row)
        return self.preconditioner.apply(value) + self.mean
