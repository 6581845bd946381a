"""The loop of variance reduction, compiled and in plain Python, with or without a preconditioner."""

from __future__ import annotations

from typing import Any, cast

import numba
import numpy as np
from numba.extending import overload

from multireplay.engine import kernels
from multireplay.engine.batched import BatchedStepper, ReducedBatchedStepper
from multireplay.engine.kernels import dot, fetch, residual, score
from multireplay.engine.prefetch import AHEAD
from multireplay.engine.steppers import CompiledStepper, Positions, PythonStepper, is_built_in, run_kernel
from multireplay.precondition import Preconditioner
from multireplay.problems import Problem
from multireplay.problems.base import Vector
from multireplay.problems.variational_inequality import UserSamples
from multireplay.sets import Set
from multireplay.sets.projections import project


def descend_reduced(
    x: Any, samples: Any, i: int, step: float, limit: float, anchor: Any, mean: Any, axes: Any, stretch: Any, out: Any
) -> bool:
    """x ← x − η(P(F̃(x, ξ_i) − F̃(x̃, ξ_i)) + g) in place; False, with x untouched, beyond the limit.

    g is the preconditioned mean operator at the anchor x̃. An anchor without coordinates stands for a plain step.
    """
    raise NotImplementedError


@overload(descend_reduced)
def _descend_reduced(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
    if samples.instance_class is UserSamples:

        def user(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
            samples.operator(anchor, samples.rows[i], out)
            reference = out.copy()
            for j in range(out.shape[0]):
                out[j] = np.nan
            samples.operator(x, samples.rows[i], out)
            for j in range(out.shape[0]):
                if not abs(out[j]) <= limit:
                    return False
            for j in range(x.shape[0]):
                x[j] -= step * (out[j] - reference[j] + mean[j])
            return True

        return user

    def rank_one(x, samples, i, step, limit, anchor, mean, axes, stretch, out):  # type: ignore[no-untyped-def]
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            return False
        if anchor.shape[0] > 0:
            r -= residual(score(anchor, samples, i), samples, i)
        features = samples.features[i]
        move = step * r
        for j in range(x.shape[0]):
            x[j] -= move * features[j] + step * mean[j]
        for k in range(axes.shape[0]):
            along = move * stretch[k] * dot(features, axes[k])
            for j in range(x.shape[0]):
                x[j] -= along * axes[k, j]
        return True

    return rank_one


def _advance_reduced(  # type: ignore[no-untyped-def]
    samples, spec, positions, steps, weights, limit, x, total, anchor, mean, axes, stretch, out, taken
):
    """As `kernels.advance`, with the steps of `descend_reduced`."""
    for t in range(positions.shape[0]):
        if t + AHEAD < positions.shape[0]:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        i = positions[t] - 1
        if not descend_reduced(x, samples, i, steps[t], limit, anchor, mean, axes, stretch, out):
            return
        project(x, spec)
        weight = weights[t]
        if weight > 0.0:
            for j in range(x.shape[0]):
                total[j] += weight * x[j]
    taken[0] = positions.shape[0]


advance_reduced = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_reduced)
advance_reduced_users = numba.njit(**kernels.OPTIONS)(_advance_reduced)


class ReducedPythonStepper(PythonStepper):
    """Variance reduction in plain Python."""

    def __init__(self, problem: Problem, constraint: Set, dim: int, preconditioner: Preconditioner) -> None:
        super().__init__(problem, constraint, dim)
        self.preconditioner = preconditioner
        self.anchor = np.zeros(0)
        self.mean = np.zeros(dim)

    def direction(self, value: Vector, samples: Any, row: int) -> Vector:
        if len(self.anchor):
            value = value - self.problem.operator(self.anchor.copy(), samples, row)
        return self.preconditioner.apply(value) + self.mean


class ReducedCompiledStepper(CompiledStepper):
    """Variance reduction, compiled."""

    def __init__(self, problem: Problem, constraint: Set, dim: int, preconditioner: Preconditioner) -> None:
        super().__init__(problem, constraint, dim)
        self.preconditioner = preconditioner
        self.anchor = np.zeros(0)
        self.mean = np.zeros(dim)

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        if not len(self.anchor) and not self.preconditioner.rank:
            return super().advance(samples, positions, steps, weights, limit)
        kernel = advance_reduced if is_built_in(samples) else advance_reduced_users
        where = samples, self.spec, positions, steps, weights, limit, self.x, self.total
        around = self.anchor, self.mean, self.preconditioner.axes, self.preconditioner.stretch
        return run_kernel(kernel, *where, *around, self.out, self.taken)


def make_reduced(
    problem: Problem, stepper: Any, constraint: Set, dim: int, preconditioner: Preconditioner
) -> ReducedPythonStepper | ReducedCompiledStepper | ReducedBatchedStepper:
    """The variance-reduced counterpart of a plain stepper."""
    if isinstance(stepper, BatchedStepper):
        return ReducedBatchedStepper(stepper.problem, constraint, dim, preconditioner)
    kind = ReducedCompiledStepper if isinstance(stepper, CompiledStepper) else ReducedPythonStepper
    return cast(Any, kind)(problem, constraint, dim, preconditioner)  # type: ignore[no-any-return]
