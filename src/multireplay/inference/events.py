"""How often the outcome was other than usual: a rare one is all that a record of many rows tells of."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import as_numpy
from multireplay.buffer.record import Record
from multireplay.engine.sums import BlockSum, Folding, Part, batch_bounds, fold
from multireplay.inference.longrun.batch_means import mean_and_variance
from multireplay.problems import Problem

OUTCOMES = ("targets", "rewards")
"""The columns that have what is fitted."""
ENOUGH = 100
"""An outcome that so many of the rows spread over a record have is not rare; others are looked for in all rows."""
LOOK = 64
"""Of those rows, about so many tell what is usual: nearly all of them have it where anything else is rare."""


def independent_events(record: Record, columns: Columns, threads: int = 1) -> float:
    """On how many independent occasions the outcome was a rare one, given rows spread over the record.

    Rare is what is not the usual value, as failures, alarms and prizes are, and of several classes the rarest. As with
    visits of a feature it is the square of the share over the variance of the share under dependence, and not more
    than rows. Infinite where nothing is rare, and where all outcomes are alike.
    """
    name = next((name for name in OUTCOMES if name in columns), None)
    if name is None:
        return np.inf
    spread = np.asarray(as_numpy(columns[name]))
    classes = getattr(record.problem, "classes", 0)
    if classes:
        found = np.bincount(spread.astype(np.intp), minlength=classes)
        rare, usual = np.flatnonzero(found < ENOUGH), False
    else:
        middle = np.sort(spread[:: len(spread) // LOOK + 1])
        rare, usual = middle[len(middle) // 2, None], True
        if np.count_nonzero(spread != rare) >= ENOUGH:
            return np.inf
    if not len(rare):
        return np.inf
    bounds = batch_bounds(record.length, record.dim)
    rows = np.diff(bounds)[:, None]
    counts = np.array([part[0] for part in fold(record, _Having(record.problem, name, rare), bounds, Folding(threads))])
    shares = (rows - counts if usual else counts) / rows
    seen = shares.sum(axis=0) > 0  # an outcome that never was is none
    mean, variance = mean_and_variance(shares[:, seen])
    total = (shares * rows)[:, seen].sum(axis=0)
    alike = np.divide(mean**2, variance, out=np.full(len(mean), np.inf), where=variance > 0)
    return float(np.minimum(alike, total).min(initial=np.inf))


class _Having(BlockSum):
    """How many rows have each of some outcomes."""

    def __init__(self, problem: Problem, name: str, values: Any) -> None:
        self.problem, self.name, self.values = problem, name, values

    def zero(self) -> Part:
        return (np.zeros(len(self.values)),)

    def of(self, block: Columns) -> Part:
        outcomes: Any = np.asarray(as_numpy(block[self.name]))
        return (np.array([np.count_nonzero(outcomes == value) for value in self.values], dtype=np.float64),)
