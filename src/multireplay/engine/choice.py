"""Which engine runs a problem."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from multireplay.engine.batched import BatchedStepper
from multireplay.engine.compiled import CompiledStepper
from multireplay.engine.python import PythonStepper
from multireplay.engine.sparse import SparseStepper
from multireplay.engine.stepper import Stepper
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.batched import OverBatches
from multireplay.problems.packed import has_sparse_rows
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
    problem or a set written in plain Python runs in the Python loop, sparse rows on the whole space in time proportional
    to their nonzeros, and a problem over batches in lanes.

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
        reasons.append(f"{problem!r} calls a plain Python function (jit it with numba.njit)")
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
