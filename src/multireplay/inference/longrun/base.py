"""What an estimator of a long-run variance is: numbers in time order in, the variance of their mean out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtrc

from multireplay._check import Vector
from multireplay.errors import InputError

FINE = 4096
"""Pieces that estimators with lags of their own work on: enough to see the dependence, and few enough to be kept."""


class Spread(NamedTuple):
    """How far the mean of dependent numbers is from what it estimates, for each of k columns."""

    variance: Vector
    """Of each mean."""
    quantile: Callable[[float], Vector]
    """The two-sided critical value at a level such as .95, of each column or one for all: ± as many standard errors."""
    p_value: Callable[[Vector], Vector]
    """The chance of a ratio to the standard error at least that far from 0, if there is nothing but chance."""


class WaldTest(NamedTuple):
    """A test of several linear restrictions at once.

    Attributes
    ----------
    statistic : float
        The Wald statistic over its number of restrictions, which is F-distributed or nearly so.
    df : tuple of float
        Its degrees of freedom: restrictions, and what is left for the variance (infinite for a χ² test).
    p_value : float
        The chance of a statistic at least as large, if the restrictions hold.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> A = np.random.default_rng(0).standard_normal((4096, 2))
    >>> y = A @ [1.0, 0.0] + np.random.default_rng(1).standard_normal(4096)
    >>> result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
    >>> test = result.test(np.eye(2), [1.0, 0.0])
    >>> test.df, test.p_value > 0.05
    ((2.0, 30.0), True)
    """

    statistic: float
    df: tuple[float, float]
    p_value: float


class LongRun(ABC):
    """The variance of the mean of dependent numbers.

    An estimator of one's own is a class with `pieces`, `spread` and `covariance`. It gets the numbers of so many
    consecutive pieces of a record, a row each in time order, whose mean is the error of an estimate, and knows nothing
    of where they come from.
    """

    pieces: ClassVar[int] = FINE
    """Pieces of the record that it works on, fewer where there are fewer rows."""

    @abstractmethod
    def spread(self, values: Vector) -> Spread:
        """The variance of the mean of each column of `values`, of shape (pieces, k), and its critical values."""

    @abstractmethod
    def covariance(self, values: Vector) -> Vector:
        """The covariances of the means of all columns, of shape (k, k)."""

    def wald(self, values: Vector, off: Vector) -> WaldTest:
        """The test that means whose errors are `values` are 0, where they are `off`: χ², unless an estimator says."""
        count = len(off)
        statistic = float(off @ solved(self.covariance(values), off))
        return WaldTest(statistic / count, (float(count), np.inf), float(chdtrc(count, statistic)))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


def solved(matrix: Vector, vector: Vector) -> Vector:
    """The inverse of a covariance times a vector, or an error where restrictions are no different ones."""
    scale = np.sqrt(np.diag(matrix))
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise InputError("a restriction speaks of something that the record does not know, or that does not vary")
    scaled = matrix / scale[:, None] / scale
    if np.linalg.cond(scaled) > 1e12:
        raise InputError("some restrictions in R follow from the others: leave them out")
    return np.asarray(np.linalg.solve(scaled, vector / scale) / scale)


def centred(values: Vector) -> Vector:
    """The numbers without the mean of their column."""
    return np.asarray(values - np.add.reduce(values, axis=0) / len(values))
