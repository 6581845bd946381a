"""Two ways to take steps: a plain Python loop for any callable, a compiled one for speed. `batched` is the third."""

from __future__ import annotations

from typing import Any, Literal, Protocol, cast

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from multireplay._check import Positions, Vector
from multireplay.engine import kernels
from multireplay.engine.packs import zeros
from multireplay.errors import InputError, OperatorError
from multireplay.problems import Problem
from multireplay.problems.variational_inequality import UserSamples
from multireplay.sets import Set
from multireplay.sets.projections import WHOLE

Backend = Literal["auto", "python", "compiled", "batched"]


class StepFailure(Exception):
    """The user's operator failed after `taken` steps of the block; the cause says how."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken


class Stepper(Protocol):
    """What the driver needs of an engine."""

    @property
    def name(self) -> Literal["python", "compiled", "sparse", "batched"]:
        """Which engine it is."""

    @property
    def x(self) -> Vector:
        """The iterate, to be read or written in place."""

    @property
    def total(self) -> Vector:
        """The weighted sum of the iterates, to be read or written in place."""

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        """Take one step for each 1-based position and add the iterates to `total` with their weights.

        Returns the number of steps taken: fewer than asked means that the operator went beyond the limit there.
        """


class PythonStepper:
    """Runs any problem on any set, at the speed of Python."""

    name: Literal["python"] = "python"

    def __init__(self, problem: Problem, constraint: Set, dim: int) -> None:
        self.problem = problem
        self.constraint = constraint
        self.x = np.zeros(dim)
        self.total = np.zeros(dim)

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


class CompiledStepper:
    """Runs the compiled loop."""

    name: Literal["compiled"] = "compiled"

    def __init__(self, constraint: Set, dim: int, dtype: Any = np.float64) -> None:
        spec = cast(Vector, constraint.spec(dim))
        self.projection = None if spec[0] == WHOLE else spec
        """The feasible set as the loops take it: None for the whole space, where nothing is projected."""
        self.x = zeros(dim, dtype)
        self.total = zeros(dim)
        self.out = np.zeros(dim)
        self.taken = np.zeros(1, dtype=np.int64)

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        kernel = kernels.advance if is_built_in(samples) else kernels.advance_users
        where = self.projection, positions, steps, weights, limit, self.x, self.total, self.out
        return run_kernel(kernel, samples, *where, self.taken)


def arrays_of(stepper: Stepper) -> dict[str, Any]:
    """All that the steps change, as arrays that can be written into."""
    arrays = getattr(stepper, "arrays", None)
    return {"x": stepper.x, "total": stepper.total} if arrays is None else arrays()


def run_kernel(kernel: Any, *arguments: Any) -> int:
    """Call a compiled loop, whose last argument counts the steps; its failures become ours."""
    taken = arguments[-1]
    try:
        kernel(*arguments)
    except TypingError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OperatorError(f"Numba could not compile the operator for this problem: {reason}") from error
    except Exception as error:
        raise StepFailure(int(taken[0])) from error
    return int(taken[0])


def as_backend(backend: str) -> Backend:
    """The backend by name, or an error that lists them."""
    if backend not in ("auto", "python", "compiled", "batched"):
        raise InputError(f"backend must be 'auto', 'python', 'compiled' or 'batched', not {backend!r}")
    return cast(Backend, backend)


def explain_failure(failure: StepFailure, where: str) -> OperatorError:
    """The error for a user's function that raised, with its place."""
    cause = failure.__cause__
    what = str(cause) if isinstance(cause, OperatorError) else f"{type(cause).__name__}: {cause}"
    return OperatorError(f"the operator or the projection failed at {where}: {what}")


def is_built_in(samples: Any) -> bool:
    """Whether no function of the user's is called, so that the cached loops can be used."""
    return not any(isinstance(field, Dispatcher) for field in samples)
