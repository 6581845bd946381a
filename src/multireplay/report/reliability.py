"""How far standard errors are to be relied on: beside those that take rows for independent, and with other batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from multireplay._check import Vector
from multireplay.buffer.columns import row_count
from multireplay.buffer.record import Record
from multireplay.errors import InputError
from multireplay.inference.uncertainty import Uncertainty
from multireplay.problems.packed import take
from multireplay.problems.residual import ResidualProblem
from multireplay.report.fitted import Pieces, grouped, spread_count

COUNTS = (64, 32, 16, 8)
"""Numbers of batches that standard errors are worked out with."""
MOST_WORK = 2**32
"""Multiplications by the inverse Jacobian for standard errors of independent rows, which need at least …"""
FEWEST = 1024
"""… so many rows."""
BY_CALLS = 2048
"""Rows whose operator is called one by one, where there is no other way."""


class ByBatches(NamedTuple):
    """Plain standard errors of every coordinate with several numbers of batches, in units of those that are shown.

    Plain ones take batches for independent. They rise with the length of a batch where rows depend on one another for
    longer than that.
    """

    counts: Vector
    ratios: Vector
    """Of shape (counts, coordinates), NaN where there is no standard error."""

    def chance(self) -> tuple[Vector, Vector]:
        """The ratios that 95 % of independent normal batches have."""
        free = self.counts - 1.0
        low, high = (np.sqrt(chdtri(free, tail) / free) for tail in (0.975, 0.025))
        return low, high

    @property
    def rising(self) -> bool:
        """Whether long batches show more than chance has, in the middle of all coordinates."""
        long = self.counts <= 16
        return bool((np.nanmedian(self.ratios, axis=1) > self.chance()[1])[long].any())


def by_batches(known: Uncertainty, pieces: Pieces) -> ByBatches | None:
    """From the scores of consecutive pieces of the record at the answer; None where there is nothing to compare."""
    error = known.standard_error
    if error is None or not (np.isfinite(error) & (error > 0)).any():
        return None
    try:
        values = known.images_of(pieces.scores)
    except InputError:
        return None
    there = [count for count in COUNTS if count <= len(values)]
    found = []
    for count in there:
        rows = grouped(pieces.rows, count)
        means = grouped(values * pieces.rows[:, None], count) / rows[:, None]
        found.append(np.sqrt(means.var(axis=0, ddof=1) / count))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.array(found) / np.where(np.isfinite(error) & (error > 0), error, np.nan)
    return ByBatches(np.array(there), ratios) if there else None


def is_of(known: Uncertainty, x: Vector) -> bool:
    """Whether something is known of functions of this very answer."""
    try:
        return np.array_equal(known.at(x), known.x, equal_nan=True)
    except ValueError:
        return False


def if_independent(known: Uncertainty, record: Record, x: Vector) -> Vector | None:
    """Standard errors that take rows for independent, by coordinate, from rows spread over the record.

    They are those of the textbook, robust to variances that differ: √(diag(J⁻¹ S J⁻ᵀ)/n) with the covariance S of a
    row's operator. None where they would be dear, or there are no standard errors at all.
    """
    error = known.standard_error
    count = min(spread_count(record), MOST_WORK // record.dim**2)
    if error is None or count < min(FEWEST, record.length):
        return None
    problem = record.problem
    if isinstance(problem, ResidualProblem):
        columns = record.spread(count)
        rows, factor = take(problem.rows(columns), slice(None)), problem.residuals_at(x, columns)
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        scores = np.asarray(factor, dtype=np.float64)[:, None] * dense
    else:
        columns = record.spread(min(count, BY_CALLS))
        samples = problem.samples(columns)
        scores = np.array([problem.operator(x.copy(), samples, row) for row in range(row_count(columns))])
    try:
        values = known.images_of(scores)
    except InputError:
        return None
    return np.where(np.isfinite(error), values.std(axis=0, ddof=1) / np.sqrt(record.length), np.nan)
