"""Random scaling: no bandwidth at all."""

from __future__ import annotations

import numpy as np

from multireplay._check import Vector
from multireplay.inference.longrun.base import LongRun, Spread, WaldTest
from multireplay.inference.longrun.fixed_b import FixedB, scaled, with_table

WHOLE = FixedB(1.0)
ROOT = np.sqrt(3.0)
"""Bartlett's estimate with the bandwidth n is 2D, and variances are given as 6D."""


class RandomScaling(LongRun):
    """The mean over the root of the mean square of the partial sums, whose law needs no variance to be known.

    Kiefer, Vogelsang and Bunzel (2000) divide by D = n⁻² Σ_t S_t², with the partial sums S_t of the numbers less their
    mean; Lee, Liao, Seo and Shin (2022) do so for stochastic gradient descent. As n grows, √n·mean/√D has the law of
    W(1)/√∫B² whatever the dependence: 6.747 is its two-sided critical value for 95 % (Abadir and Paruolo 1997,
    Table 1). D is half of Bartlett's estimate with the bandwidth n, so that others come from the table of `FixedB` at
    b = 1.

    There is nothing to choose, and what is divided by is never too smooth. The price is long intervals: on independent
    data they are 1.4 times as long as those with a known variance, on average, and vary more from record to record.
    Variances are given as 6D, since E ∫B² = 1/6, so that standard errors are of the usual size; the critical value for
    95 % is then 6.747/√6 = 2.75. It takes one more pass over the record, for 4096 pieces.

    Under strong dependence they are as right as those of batch means whose autocorrelation is allowed for, see
    `BatchMeans`, and longer.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.inference import RandomScaling
    >>> values = np.random.default_rng(0).standard_normal((4096, 1))
    >>> variance, quantile, p_value = RandomScaling().spread(values)
    >>> round(float(quantile(0.95)), 2)
    2.75
    >>> bool(abs(values.mean()) < quantile(0.95) * np.sqrt(variance[0]))
    True
    >>> float(p_value(np.array([2.75]))[0].round(2))
    0.05
    """

    def spread(self, values: Vector) -> Spread:
        """6D and its critical values."""
        _, quantile, p_value = with_table(np.zeros(0), 1.0)
        return Spread(
            3 * scaled(values, 1.0).diagonal() / len(values),
            lambda level: quantile(level) / ROOT,
            lambda ratio: p_value(np.asarray(ratio) * ROOT),
        )

    def covariance(self, values: Vector) -> Vector:
        """6D of all columns; its law is not that of a variance that is known, and intervals are those of `spread`."""
        return 3 * scaled(values, 1.0) / len(values)

    def wald(self, values: Vector, off: Vector) -> WaldTest:
        """One restriction at a time, as in `FixedB` with b = 1: the statistic is in its units."""
        return WHOLE.wald(values, off)
