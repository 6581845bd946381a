"""How dependent the rows of a fit are, and what learning from them in order would have cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.diagnose.autocorrelation import estimate
from multireplay.diagnose.chains import Lengths
from multireplay.inference.residuals import measure
from multireplay.problems import Problem
from multireplay.replay import Dyadic, Serial
from multireplay.sets import WholeSpace
from multireplay.solve import solve

FEWEST = 512
"""Fewer rows are too few to tell dependence from chance."""
PART = 8
SHORTEST, LONGEST = 2**14, 2**17
"""The last eighth of the rows is looked at, but no fewer and no more than these."""
EXAMINED = 3
"""Columns whose autocorrelation time is worked out with all care: those that look slowest by batch means."""
SUSPECT = 3.0
"""Autocorrelation time by batch means from which that is done."""
SLOW = 5.0
"""Autocorrelation time from which a pass in order is tried."""
FAR = 2.0
"""Standard errors beyond those of the dyadic pass from which a pass in order is called biased."""


@dataclass(frozen=True)
class Dependence:
    """What was found in the last rows of a record.

    Attributes
    ----------
    tau : float
        Largest integrated autocorrelation time of a column, in rows; 1 for independent rows. Rough where it is below 3.
    column : str
        The column that has it.
    rows : int
        How many rows were looked at.
    in_order, dyadic : float or None
        Where a plain pass over those rows ends, in the record's order and in dyadic order, at the same step and with
        the same average: the length of the mean gradient there, in units of its standard error (from 32 batches in
        order, so with the dependence in it). A point as good as the exact fit has less than 1. None where `tau` is
        below 5, so that no pass was tried; infinite for a pass that diverged.
    """

    tau: float
    column: str
    rows: int
    in_order: float | None = None
    dyadic: float | None = None

    @property
    def biased(self) -> bool:
        """Whether learning in order would have been biased: off by 2 standard errors more than in dyadic order."""
        return self.in_order is not None and self.dyadic is not None and self.in_order - self.dyadic > FAR

    def sentence(self, rival: str) -> str:
        """The finding for a person, with the name of who would have learnt in order."""
        text = (
            f"The rows are autocorrelated: {self.column} has an integrated autocorrelation time of {self.tau:.3g} rows."
        )
        if self.in_order is None or self.dyadic is None:
            return f"{text} That is too little to matter."
        bias = f"had a bias of about {self.in_order:.2g} standard errors"
        cost = bias if math.isfinite(self.in_order) else "diverged"
        return (
            f"{text} Learning the last {self.rows} rows in order, as {rival} does, would have {cost} "
            f"(one pass at the step size of this fit); the same pass in dyadic order is off by {self.dyadic:.2g}. "
            "This fit is not affected."
        )


def slowest(series: NDArray[Any], lengths: Lengths = ()) -> tuple[float, int]:
    """The largest autocorrelation time among the columns, 1 if none varies, and which column has it.

    All columns are looked at by batch means, in one pass; only where those look slow, the slowest few by FFT. `lengths`
    are those of the chains that the rows are in, if these are several: nothing is measured across their borders.
    """
    rough = by_batch_means(series, lengths or (len(series),))
    candidates = np.argsort(rough)[::-1][:EXAMINED]
    worst = int(candidates[0])
    if rough[worst] < SUSPECT:
        return float(max(rough[worst], 1.0)), worst
    times, _ = estimate(series, candidates, lengths=lengths)
    best = int(np.nanargmax(times))
    return float(times[best]), int(candidates[best])


def by_batch_means(series: NDArray[Any], lengths: Lengths) -> Vector:
    """B·Var(mean of B rows)/Var(row), which is the autocorrelation time if that is well below B.

    B is about √rows, but no longer than the chains that half of the rows are in.
    """
    rows, width = series.shape
    sizes = np.array(lengths)
    size = max(2, min(round(math.sqrt(rows)), int(np.median(np.repeat(sizes, sizes)))))
    place = np.arange(rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    used = place < np.repeat(sizes // size * size, sizes)
    if used.sum() < 2 * size:
        return np.ones(width)
    whole = series[used].astype(np.float64, copy=False)
    spread = whole.var(axis=0)
    means = whole.reshape(-1, size, width).mean(axis=1)
    return np.asarray(np.divide(size * means.var(axis=0, ddof=1), spread, out=np.zeros(width), where=spread > 0))


def looked_at(rows: int) -> int:
    """How many of so many rows, the last, are looked at."""
    return min(rows, max(SHORTEST, min(rows // PART, LONGEST)))


def examine(
    problem: Problem, part: Buffer, names: list[str], target: str, options: Mapping[str, Any]
) -> Dependence | None:
    """What these, the last rows say; None if they are too few. It costs at most half a pass over a long record.

    `names` are those of the features (the buffer may have one more, of ones), `target` that of the column beside them.
    """
    count = len(part)
    if count < FEWEST:
        return None
    series = np.column_stack([part["features"][:, : len(names)], part[target]])
    tau, index = slowest(series, () if part.chains is None else part.chains.lengths)
    column = f"the {target}".removesuffix("s") if index == len(names) else names[index]
    if tau < SLOW:
        return Dependence(tau, column, count)
    columns = problem.columns(part)
    with warnings.catch_warnings(action="ignore"):
        ends = [solve(problem, part, replay=replay, **options) for replay in (Serial(), Dyadic())]
    found = [measure(problem, columns, WholeSpace(), end.x) for end in ends]
    error = found[1].error
    in_order, dyadic = (at.size / error if error else 0.0 for at in found)
    if not ends[0].status.ok:
        in_order = np.inf
    return Dependence(tau, column, count, in_order, dyadic)
