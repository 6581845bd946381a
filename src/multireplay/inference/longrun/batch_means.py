"""Means of consecutive batches, whose own autocorrelation is allowed for: the default."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.inference.longrun.base import LongRun, Spread, WaldTest, centred, solved

MOST = 0.97
"""The largest autocorrelation that is allowed for: of 32 batches it leaves half a one in effect, 32(1 − r)/(1 + r)."""

TINY = np.finfo(np.float64).tiny


class BatchMeans(LongRun):
    """The variance between 32 batches, inflated for their lag-1 autocorrelation, with the quantile of t₃₁.

    Batches are consecutive stretches of the record. If they are long beside its memory, their means are independent,
    and with B of them Var = s²/B, with t of B − 1 degrees of freedom, is exact for normal means (Schmeiser 1982, who
    also found that more than about 30 batches gain nothing). If they are not, what is left of the dependence is nearly
    all between neighbours, and looks like an autoregression: the mean of B numbers of one with coefficient r has
    (1 + r)/(1 − r) times the variance. The sample's own r̂ is too small by (1 + 3r)/B on average (Kendall 1954; Marriott
    and Pope 1954, the mean being estimated), which is put right to first order::

        r̃ = clip(r̂ + (1 + 3r̂)/B, 0, .97)        Var = (s²/B)(1 + r̃)/(1 − r̃)

    There is no lag to choose, and the record is not read again: 32 numbers a coordinate are kept in every result.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference import BatchMeans
    >>> means = np.random.default_rng(0).standard_normal((32, 1))
    >>> variance, quantile, _ = BatchMeans().spread(means)
    >>> variance.round(3), round(float(quantile(0.95)), 2)
    (array([0.034]), 2.04)
    """

    pieces: ClassVar[int] = 32

    def spread(self, values: Vector, variance: Vector | None = None) -> Spread:
        count = len(values)
        return Spread(
            mean_and_variance(values)[1] if variance is None else variance,
            lambda level: np.asarray(stdtrit(count - 1, (1 + level) / 2)),
            lambda ratio: np.asarray(2 * stdtr(count - 1, -np.abs(ratio))),
        )

    def covariance(self, values: Vector) -> Vector:
        """The covariances of the batches, each coordinate inflated as in `spread`."""
        count, parts = len(values), centred(values)
        roots = np.sqrt(inflation(autocorrelation(values)[2], count))
        return np.asarray(roots[:, None] * (parts.T @ parts) * roots / (count - 1) / count)

    def wald(self, values: Vector, off: Vector) -> WaldTest:
        """Hotelling's test: F = (B − q)/((B − 1)q) T² has F(q, B − q) for q restrictions and independent batches.

        Autocorrelation is allowed for by one inflation, that of the mean autocorrelation in all directions,
        tr(Γ₀⁻¹Γ₁)/q, which does not depend on how the restrictions are written. For q = 1 this is the t test.
        """
        count, q = len(values), len(off)
        if q > count / 2:
            raise InputError(
                f"{q} restrictions at once are too many for {count} batches, which know at most {count // 2}: test "
                "fewer of them, or give by=mr.inference.NeweyWest()"
            )
        parts = centred(values)
        within = parts.T @ parts
        scale = np.sqrt(np.diag(within))
        scale = np.where(scale > 0, scale, 1.0)
        lagged = (parts[1:] / scale).T @ (parts[:-1] / scale)
        shared = np.trace(np.linalg.lstsq(within / scale[:, None] / scale, lagged, rcond=None)[0]) / q
        covariance = within / (count - 1) / count * inflation(np.array([shared]), count)
        statistic = float(off @ solved(covariance, off)) * (count - q) / ((count - 1) * q)
        return WaldTest(statistic, (float(q), float(count - q)), float(fdtrc(q, count - q, statistic)))


def mean_and_variance(values: Vector) -> tuple[Vector, Vector]:
    """The mean of every column, and the variance of that, see `BatchMeans`."""
    count, (mean, squares, found) = len(values), autocorrelation(values)
    return mean, np.asarray(squares * (inflation(found, count) / ((count - 1) * count)))


def autocorrelation(values: Vector) -> tuple[Vector, Vector, Vector]:
    """The mean of every column, the sum of squares about it, and the lag-1 autocorrelation, 0 of a constant one."""
    parts = values - (mean := np.add.reduce(values) / float(len(values)))
    squares = np.add.reduce(parts * parts)
    lagged = np.add.reduce(parts[1:] * parts[:-1])  # 0 of a constant
    return mean, squares, lagged / np.maximum(squares, TINY)


def inflation(found: Vector, count: int) -> Vector:
    """(1 + r̃)/(1 − r̃) for the autocorrelation r̂ that was found in so many numbers."""
    left = np.minimum(np.maximum((1 - 1 / count) - found * (1 + 3 / count), 1 - MOST), 1.0)  # 1 − r̃
    return np.asarray(2.0 / left - 1.0)
