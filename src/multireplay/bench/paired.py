"""Errors of all instances of a figure, compared instance by instance: what is so, what is not, what cannot be told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.bench.table import mean_and_error

YES, UNTOLD, NO = 1, 0, -1
"""Outcomes of a test; of several that all have to be so, the outcome is the least."""
SURE = 2.0
"""Standard errors from which on a difference counts."""
FAR_OFF = 1e6
"""Error of a run that diverged."""


class MeanError(float):
    """A mean over instances that knows its standard error; the format "m" writes both."""

    error: float

    @classmethod
    def of(cls, values: Vector) -> MeanError:
        mean, error = mean_and_error(values)
        found = cls(mean)
        found.error = error
        return found

    def __format__(self, spec: str) -> str:
        if spec != "m":
            return float(self).__format__(spec)
        return f"{float(self):.2e} ± {self.error:.0e}" if math.isfinite(self.error) else f"{float(self):.2e}"


def told(differences: Vector) -> Any:
    """YES where the mean over instances is two standard errors above 0, NO where as far below, otherwise UNTOLD."""
    count = len(differences)
    if count < 2:
        return np.full(differences.shape[1:], UNTOLD)
    mean, spread = differences.mean(axis=0), SURE * differences.std(axis=0, ddof=1) / np.sqrt(count)
    return np.where(mean > spread, YES, np.where(mean < -spread, NO, UNTOLD))


def told_apart(more: Vector, less: Vector) -> int:
    """Whether the mean of `more` is above that of `less`, over instances that are not the same."""
    if min(len(more), len(less)) < 2:
        return UNTOLD
    gap = more.mean() - less.mean()
    spread = SURE * math.hypot(*(mean_and_error(values)[1] for values in (more, less)))
    return YES if gap > spread else NO if gap < -spread else UNTOLD


class Paired:
    """The curves of one figure in one norm, by panel and method: rows are instances, columns iterations.

    `arrays` are what the instances reported, one after the other: by "panel/method" their iterations, squared errors
    and weighted squared errors; by "exact/name" the two errors of an exact fit. `norm` is 1 or 2 by which is asked for.
    """

    def __init__(self, arrays: Mapping[str, Vector], norm: int) -> None:
        self.arrays, self.norm = arrays, norm

    @property
    def count(self) -> int:
        return len(next(iter(self.arrays.values())))

    def errors(self, panel: str, method: str) -> Vector:
        return np.asarray(np.minimum(np.nan_to_num(self._of(panel, method)[:, self.norm], nan=FAR_OFF), FAR_OFF))

    def iterations(self, panel: str, method: str) -> Positions:
        return np.asarray(self._of(panel, method)[0, 0], dtype=np.int64)

    def _of(self, panel: str, method: str) -> Vector:
        return self.arrays[f"{panel}/{method}"]

    def ends(self, panel: str, method: str) -> Vector:
        """Errors when all samples are used up."""
        return self.errors(panel, method)[:, -1]

    def end(self, panel: str, method: str) -> MeanError:
        return MeanError.of(self.ends(panel, method))

    def exact(self, name: str) -> MeanError:
        """Error of an exact fit."""
        return MeanError.of(self.arrays[f"exact/{name}"][:, self.norm - 1])

    def both(self, panel: str, method: str, rival: str) -> tuple[Vector, Vector]:
        """Errors of two methods after the same iterations, those of the first up to the last of the second.

        Between its points a curve is a straight line in the logarithms.
        """
        mine, theirs = self.iterations(panel, method), self.iterations(panel, rival)
        common = mine <= theirs[-1]
        rows = [np.interp(np.log(mine[common]), np.log(theirs), np.log(row)) for row in self.errors(panel, rival)]
        return self.errors(panel, method)[:, common], np.exp(rows)

    def ends_below(self, panel: str, method: str, rival: str, factor: float = 1.0) -> int:
        """Whether a method's last error is below so many times the rival's last."""
        return int(told(factor * self.ends(panel, rival) - self.ends(panel, method)))

    def stays_within(self, panel: str, method: str, rival: str, factor: float) -> int:
        """Whether a method's error is never above so many times the rival's after the same iterations."""
        mine, theirs = self.both(panel, method, rival)
        return int(told(factor * theirs - mine).min())

    def highest_ratio(self, panel: str, method: str, rival: str) -> float:
        """The largest ratio of the two mean errors after the same iterations."""
        mine, theirs = self.both(panel, method, rival)
        return float((mine.mean(axis=0) / theirs.mean(axis=0)).max())

    def mostly_below(self, panel: str, method: str, rival: str, least: float, factor: float = 1.0) -> tuple[int, float]:
        """Whether at a share of at least `least` of a method's points its error is below so many times the rival's.

        NO where the points at which it may be so are fewer. Comes with the share at which the mean is below.
        """
        mine, theirs = self.both(panel, method, rival)
        found, share = told(factor * theirs - mine), float((factor * theirs.mean(axis=0) > mine.mean(axis=0)).mean())
        if (found == YES).mean() >= least:
            return YES, share
        return (UNTOLD if (found != NO).mean() >= least else NO), share
