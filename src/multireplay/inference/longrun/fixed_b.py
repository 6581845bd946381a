"""Fixed-b: a lag that is a share of the record, and critical values that know of it."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from multireplay._check import Vector, number_in
from multireplay.errors import InputError
from multireplay.inference.longrun.base import LongRun, Spread, WaldTest, centred

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
CRITICAL = (
    (0.685, 0.855, 1.054, 1.305, 1.680, 2.010, 2.402, 2.674, 2.916, 3.457),
    (0.701, 0.875, 1.082, 1.344, 1.736, 2.092, 2.520, 2.816, 3.090, 3.715),
    (0.728, 0.911, 1.129, 1.409, 1.841, 2.236, 2.727, 3.069, 3.409, 4.173),
    (0.786, 0.988, 1.229, 1.552, 2.059, 2.534, 3.147, 3.607, 4.058, 5.112),
    (0.847, 1.069, 1.338, 1.701, 2.288, 2.854, 3.599, 4.153, 4.708, 5.968),
    (0.978, 1.240, 1.565, 2.010, 2.748, 3.471, 4.443, 5.174, 5.894, 7.583),
    (1.112, 1.418, 1.795, 2.312, 3.179, 4.025, 5.156, 6.014, 6.868, 8.781),
    (1.316, 1.679, 2.127, 2.740, 3.761, 4.767, 6.102, 7.116, 8.083, 10.388),
)
"""Quantiles of |W(1)|/√Q(b), a row for each b in `SHARES` and a column for each of `LEVELS`, with the Brownian motion
W, its bridge B and Q(b) = (2/b)(∫B(r)² dr − ∫B(r)B(r + b) dr) (Kiefer and Vogelsang 2005, Theorem 2 for Bartlett's
kernel): from 300,000 paths of 1000 normal steps, seed 20240615, each to about half a percent. Their polynomial for 95 %
in two-sided tests, 1.96 + 2.9694b + .4160b² − .5324b³, agrees to 2 %."""


class FixedB(LongRun):
    """Bartlett's kernel with a bandwidth of b times the record, and the critical values of just that.

    A long bandwidth makes the estimate of the variance itself random, and the ratio to it is not normal: Kiefer and
    Vogelsang (2005) have its law for every b. Intervals are longer than Newey and West's, and right under much stronger
    dependence. It takes one more pass over the record, for 4096 pieces.

    Parameters
    ----------
    b : float
        The bandwidth as a share of the record, in (0, 1]; b = 1 is `RandomScaling`.

    Examples
    --------
    >>> from multireplay.inference import FixedB
    >>> import numpy as np
    >>> values = np.random.default_rng(0).standard_normal((4096, 1))
    >>> [round(float(FixedB(b).spread(values).quantile(0.95)), 1) for b in (0.02, 0.1, 1.0)]
    [2.0, 2.2, 4.8]
    """

    def __init__(self, b: float = 0.1) -> None:
        self.b = number_in("b", b, 0, 1, low_open=True, high_open=False)

    def spread(self, values: Vector) -> Spread:
        return with_table(scaled(values, self.b).diagonal() / len(values), self.b)

    def covariance(self, values: Vector) -> Vector:
        return scaled(values, self.b) / len(values)

    def wald(self, values: Vector, off: Vector) -> WaldTest:
        if len(off) > 1:
            raise InputError(
                f"{self!r} has critical values for one restriction at a time, not for {len(off)}: leave by=... out"
            )
        variance, _, p_value = self.spread(values)
        ratio = off / np.sqrt(variance)
        return WaldTest(float(ratio[0] ** 2), (1.0, np.inf), float(p_value(ratio)[0]))


def scaled(values: Vector, b: float) -> Vector:
    """The long-run covariance with Bartlett's kernel and a bandwidth of b times the numbers, from partial sums.

    (2/(nM))(Σ_t S_t S_tᵀ − the symmetric part of Σ_t S_t S_{t+M}ᵀ), which takes as long for every M = bn.
    """
    count = len(values)
    sums, lag = np.cumsum(centred(values), axis=0), max(1, round(b * count))
    total = sums.T @ sums
    if lag < count:
        apart = sums[:-lag].T @ sums[lag:]
        total = total - (apart + apart.T) / 2
    return np.asarray(2 / (count * lag) * total)


def with_table(variance: Vector, b: float) -> Spread:
    """These variances with the critical values of fixed-b."""
    levels = np.array(LEVELS)
    gaussian = ndtri((1 + levels) / 2)
    rows = np.vstack([gaussian, CRITICAL])
    critical = np.array([np.interp(b, (0.0, *SHARES), column) for column in rows.T])

    def quantile(level: float) -> Vector:
        return _along(np.asarray(ndtri((1 + level) / 2)), gaussian, critical)

    def p_value(ratio: Vector) -> Vector:
        return np.asarray(2 * ndtr(-_along(np.abs(ratio), critical, gaussian)))

    return Spread(np.asarray(variance), quantile, p_value)


def _along(at: Vector, here: Vector, there: Vector) -> Vector:
    """Values `there` interpolated at points `here`, in proportion beyond the ends."""
    found = np.interp(at, here, there)
    found = np.where(at > here[-1], at * there[-1] / here[-1], found)
    return np.asarray(np.where(at < here[0], at * there[0] / here[0], found))
