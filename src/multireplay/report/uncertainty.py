"""Standard errors of the exact fit under dependence, from the means of consecutive batches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.engine.sums import BATCHES
from multireplay.problems import GLM, PolicyEvaluation, Problem
from multireplay.result import Result
from multireplay.sets import Set, WholeSpace

LONG_ENOUGH = 10.0
"""A batch of fewer autocorrelation times than this gives standard errors that are too small."""
_BLOCK = 2**13


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How far the exact fit is expected to be from the truth.

    Attributes
    ----------
    errors : ndarray
        Standard error by coordinate.
    total : float
        Their root sum of squares, the expected distance.
    batch : int
        Rows in a batch.
    """

    errors: Vector
    total: float
    batch: int

    def is_rough(self, tau: float) -> bool:
        """Whether a batch is too short for a record with this autocorrelation time."""
        return self.batch < LONG_ENOUGH * tau


def uncertainty_of_run(result: Result, rows: int) -> Uncertainty | None:
    """What the run itself found out (`Newton`), if it did."""
    errors = result.standard_error
    if errors is None or not np.isfinite(errors).all():
        return None
    return Uncertainty(errors, float(np.linalg.norm(errors)), rows // BATCHES)


def uncertainty(problem: Problem, columns: Columns, feasible: Set, x: Vector) -> Uncertainty | None:
    """The sandwich J⁻¹ S J⁻ᵀ with the Jacobian J of F̂ at x and S the covariance of F̂, from batch means.

    Each batch is a stretch of consecutive rows, so that dependence within it is counted. None where the Jacobian
    is not known, there is a constraint, or the record is too short for batches of two rows.
    """
    length = row_count(columns)
    if not isinstance(feasible, WholeSpace) or length < 2 * BATCHES:
        return None
    slope = jacobian(problem, columns, x)
    if slope is None or issparse(slope):
        return None
    bounds = np.linspace(0, length, BATCHES + 1).astype(int)
    means = np.array([problem.mean_operator(x, _rows(columns, a, b)) for a, b in pairwise(bounds.tolist())])
    moved = np.linalg.lstsq(slope, (means - means.mean(axis=0)).T, rcond=None)[0]
    variances = (moved**2).sum(axis=1) / (BATCHES * (BATCHES - 1))
    return Uncertainty(np.sqrt(variances), float(np.sqrt(variances.sum())), length // BATCHES)


def jacobian(problem: Problem, columns: Columns, x: Vector) -> Vector | None:
    """The derivative of F̂ at x, in O(B d²), where it is known."""
    if isinstance(problem, PolicyEvaluation):
        return problem.jacobian(x, columns)
    if not isinstance(problem, GLM):
        return None
    length = row_count(columns)
    parts = [_rows(columns, start, start + _BLOCK) for start in range(0, length, _BLOCK)]
    total = np.zeros((len(x), len(x)))
    for part in parts:
        total += len(part["targets"]) * problem.curvature(x, part)
    return total / length


def _rows(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column[start:stop] for name, column in columns.items()}
