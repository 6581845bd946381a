"""The exact fit: the root of the record's own mean operator, with standard errors under dependence."""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.linalg

from multireplay._check import Vector
from multireplay.engine.checkpoint import kept_fold
from multireplay.engine.sums import Folding, JacobianSum, MomentSum, batch_bounds, fold, operator_batches
from multireplay.errors import InputError
from multireplay.inference.residuals import standard_errors
from multireplay.problems.exact import least_norm
from multireplay.show.progress import step_bar
from multireplay.updates.base import Found, Needs, Route, Unsuitable, Update
from multireplay.updates.newton import as_epoch

if TYPE_CHECKING:
    from multireplay.solving.run import Run

WIDEST = 4096
"""Beyond so many coordinates a d × d matrix is too much for an exact fit."""


@dataclass(frozen=True)
class Exact(Update):
    """The x with F̂(x) = 0 on the whole record: LSTD, least squares, or the GLM's own maximum-likelihood fit.

    Where the operator is linear, its moments are added up by batches in one pass, at O(d²) a row, in memory or on disk:
    they give the fit and F̂ of every batch at it, and so its standard errors, at once. Otherwise, and on a feasible set,
    it is ``problem.fit_exactly``, which needs the record in memory; standard errors take two more passes, and there are
    none on a feasible set.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**14, seed=0)
    >>> result = mr.solve(process.problem, buffer, update=mr.Exact())
    >>> result.passes, abs(result.x - process.problem.fit_exactly(buffer)).max() < 1e-9
    (1.0, np.True_)
    """

    route: ClassVar[Route] = "exact"
    needs: ClassVar[Needs] = Needs(
        own_order="mr.Exact() reads the record in order: leave replay=... out",
        no_step="mr.Exact() takes no steps: leave step=... out",
        double="mr.Exact() works in float64: leave precision=... out",
    )

    def run(self, run: Run) -> Found:
        """One pass for the moments, or the problem's own exact fit."""
        began, record = time.perf_counter(), run.record
        if record.dim > WIDEST:
            raise Unsuitable(f"mr.Exact() is for at most {WIDEST} coordinates; there are {record.dim}")
        linear = run.on_the_whole_space and record.problem.moments(record.head()) is not None
        if not linear and run.checkpoint is not None:
            raise Unsuitable("checkpoint=... is for sums over the record, and this exact fit is not one of them")
        x, error, passes = self._by_moments(run) if linear else self._in_memory(run)
        epoch = as_epoch(1, 1.0, record.length, x, run.track)
        what = f"the exact fit of all {record.length} samples ({passes:.3g} passes in all)"
        return Found((epoch,), 0, passes, time.perf_counter() - began, what, standard_error=error)

    def _by_moments(self, run: Run) -> tuple[Vector, Vector, float]:
        """The fit and its standard errors from the moments of every batch."""
        record = run.record
        bounds = batch_bounds(record.length, record.dim**2)
        with step_bar(record.length, "rows") if run.progress else nullcontext(lambda rows: None) as advanced:
            how = Folding(run.threads, advanced)
            sums = MomentSum(record.problem, record.dim)
            totals = (
                kept_fold(record, sums, bounds, how, run.checkpoint)
                if run.checkpoint
                else fold(record, sums, bounds, how)
            )
        matrices, vectors = (np.array([total[place] for total in totals]) for place in (0, 1))
        ridge = record.problem.penalty_diagonal(record.dim)
        matrix = matrices.sum(axis=0) / record.length + np.diag(ridge)
        x = least_norm(matrix, vectors.sum(axis=0) / record.length)
        means = (matrices @ x - vectors) / np.diff(bounds)[:, None] + ridge * x
        return x, _errors(matrix, means), 1.0

    def _in_memory(self, run: Run) -> tuple[Vector, Vector | None, float]:
        """The problem's own exact fit, and two passes for its standard errors."""
        record, problem = run.record, copy.copy(run.record.problem)
        if record.on_disk:
            raise Unsuitable("this exact fit needs the record in memory: buffer.load(), if it fits")
        problem.constraint = run.feasible
        try:
            x = problem.fit_exactly(run.buffer)
        except InputError as error:
            raise Unsuitable(f"mr.Exact() cannot be used here: {error}") from error
        if not run.on_the_whole_space or problem.jacobian(x, record.head()) is None:
            return x, None, 1.0
        how = Folding(run.threads)
        matrix = fold(record, JacobianSum(record.problem, x), how=how)[0][0] / record.length
        return x, _errors(matrix, operator_batches(record, [x], how)[0].means), 3.0


def _errors(matrix: Vector, means: Vector) -> Vector:
    """Standard errors of the fit by coordinate, from the mean operator of every batch at it."""
    try:
        images = scipy.linalg.solve(matrix, means.T).T
    except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning, ValueError):  # the last of what is not finite
        return np.full(len(matrix), np.inf)
    return standard_errors(np.asarray(images))
