"""Whether an order is in step with a period of the record, so that a chain comes to one part of the period alone.

Rows that a chain reads one after the other, a gap apart, are compared with rows between them: each with one at a place
that moves on by the golden ratio, which is in step with nothing. Both are from the same times, so that trends and
dependence are in both, and the mean of the differences is 0 up to chance, unless the gap and a period have a common
factor. A few hundred to a few thousand rows are looked at, at most an eighth of the record.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from multireplay._check import Positions, Vector
from multireplay.buffer.record import GOLDEN, Record
from multireplay.replay import PlannedEpoch

PAIRS, ON_DISK = 2**12, 2**9
"""Pairs of rows that are compared at most, in memory and on disk."""
FEWEST = 2**7
"""Pairs that say something about a chain."""
CHAINS, FINE = 2, 64
"""Chains of an epoch that are looked at, and the share of a nested order that is, beside its halves."""
BATCHES, WINDOWS = 32, 16
FALSE_ALARMS = 1e-3
"""Chance of a note on a record without a period."""
ROUNDING = 1e-9


def distance_in_step(record: Record, planned: PlannedEpoch, x: Vector) -> float:
    """How many standard errors F̂(x) on the rows of some chain is from that on the rows between; 0 if that is chance."""
    pairs = min(record.length // 16, ON_DISK if record.on_disk else PAIRS)
    stretches = stretches_of(planned, record.length)[: pairs // FEWEST]
    if not stretches:
        return 0.0
    rows = [_pairs(planned, steps, pairs // len(stretches)) for steps in stretches]
    columns = record.take(np.concatenate([part for both in rows for part in both]) - 1)
    points, farthest, first = np.array([x, np.zeros_like(x)]), 0.0, 0
    unlikely = -float(stdtrit(BATCHES - 1, FALSE_ALARMS / 2 / len(stretches) / len(x)))
    for one, _ in rows:
        edges = np.linspace(0, len(one), BATCHES + 1).astype(int)
        sums = []
        for start in (first, first + len(one)):
            parts = [slice(start + low, start + high) for low, high in pairwise(edges.tolist())]
            blocks = ({name: column[part] for name, column in columns.items()} for part in parts)
            sums.append(np.array([record.problem.operator_sums(points, block) for block in blocks]))
        first += 2 * len(one)
        means = (sums[0] - sums[1]) / np.diff(edges)[:, None, None]
        size = np.abs(sums[1]).mean(axis=0).max() / len(one) * BATCHES
        farthest = max(farthest, _largest(means[:, 0], ROUNDING * size))
    return farthest if farthest > unlikely else 0.0


def _largest(means: Vector, rounding: float) -> float:
    """The largest mean of these batches by coordinate, in its standard errors."""
    mean, error = np.abs(means.mean(axis=0)), means.std(axis=0, ddof=1) / np.sqrt(len(means))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(mean > rounding, mean / error, 0.0)))


def stretches_of(planned: PlannedEpoch, rows: int) -> list[range]:
    """Steps of an epoch after one another that would read one part of a period, if the epoch is in step with it."""
    length = planned.length
    if planned.nested:
        return [range(length // 2, length), range(length // 4, length // 2), range(length - length // FINE, length)]
    if planned.gap is None or planned.gap <= 1:
        return []
    if planned.chains == 1:
        return [range(max(0, length - round(rows / planned.gap)), length)]
    chosen = np.unique((np.modf(GOLDEN * np.arange(1, CHAINS + 1))[0] * planned.chains).astype(int))
    return [range(int(chain) * length, int(chain + 1) * length) for chain in chosen]


def _pairs(planned: PlannedEpoch, steps: range, count: int) -> tuple[Positions, Positions]:
    """Positions read in these steps, in order of time, and for each one between it and the one before it."""
    read = np.sort(_some(planned, steps, min(count, len(steps))))
    places = np.modf(GOLDEN * np.arange(1, len(read) + 1))[0]
    return read, np.asarray(read - (places * np.diff(read, prepend=0)).astype(np.int64))


def _some(planned: PlannedEpoch, steps: range, count: int) -> Positions:
    """Positions of about so many of these steps: any of a nested order, else some in a row here and there."""
    if planned.nested:
        chosen = np.unique((np.modf(GOLDEN * np.arange(1, count + 1))[0] * len(steps)).astype(np.int64))
        return np.asarray(planned.block(steps.start, len(steps))[chosen])
    size = -(-count // WINDOWS)
    starts = np.linspace(steps.start, steps.stop - size, WINDOWS).astype(int).tolist()
    return np.unique(np.concatenate([planned.block(start, size) for start in starts]))
