"""Chains side by side: the phases of a gap read memory once, in order, on all cores.

Chain j of an epoch reads row p_t − o_j in its step t. In a window of one gap the rows of all chains lie side by side,
so that going through the record in order serves every chain in turn. Neighbouring steps belong to different chains,
and so the loop works out the score of the next one while it moves this one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from multireplay.engine import kernels
from multireplay.engine.kernels import descend, fetch, residual
from multireplay.engine.prefetch import AHEAD
from multireplay.problems.base import Vector
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.sets.projections import WHOLE, project

GROUP = 2**13
"""Bytes of iterates of a group of lanes, which is what a thread works on, at least. Fixed, so that the number of
threads does not change a bit of the answer."""
MOST_GROUPS = 8
MEMORY = 2**26
"""Bytes that the iterates of all chains of an epoch may take; beyond that they are run one after the other."""
SHORT_ROW = 1024
"""Bytes of a row beyond which the processor's own prefetching does better."""


def carry(x: Any, total: Any, move: float, weight: float, samples: Any, i: int, other: Any, following: int) -> float:
    """x ← x − move · features_i, total ← total + weight · x, and the score of another iterate on another row."""
    raise NotImplementedError


@overload(carry)
def _carry(x, total, move, weight, samples, i, other, following):  # type: ignore[no-untyped-def]
    if samples.instance_class is RegressionSamples:

        def regression(x, total, move, weight, samples, i, other, following):  # type: ignore[no-untyped-def]
            return sweep(x, total, move, weight, samples.features[i], other, samples.features[following])

        return regression

    if samples.instance_class is TransitionSamples:

        def transition(x, total, move, weight, samples, i, other, following):  # type: ignore[no-untyped-def]
            now = sweep(x, total, move, weight, samples.features[i], other, samples.features[following])
            then = kernels.dot(samples.next_features[following], other)
            return now - samples.discounts[following] * then

        return transition
    return None


@numba.njit(cache=True, fastmath=kernels.FAST, _nrt=False)
def sweep(x, total, move, weight, features, other, row):  # type: ignore[no-untyped-def]
    """One loop over the coordinates for all of it: memory is read while the arithmetic goes on."""
    value, move = x.dtype.type(0.0), x.dtype.type(move)
    for j in range(x.shape[0]):
        moved = x[j] - move * features[j]
        x[j] = moved
        total[j] += weight * moved
        value += row[j] * other[j]
    return value


def _advance_lanes_freely(  # type: ignore[no-untyped-def]
    samples, length, count, base, last, steps, weights, limit, offsets, low, high, xs, total, cursor, idle, ahead
):
    """Steps of lanes low, …, high − 1, at least two, on the rows up to `last`, on the whole space.

    ``cursor`` holds the step and lane that are next, and whether the run diverged. ``idle`` is an iterate that stays
    where it is: it stands for the lane before the first, so that every score comes out of the same loop.
    """
    t, j = cursor[0], cursor[1]
    end = (t * length) // count
    if t > count or cursor[2] or end - offsets[j] > last:
        return
    row = end - offsets[j] - base
    next_window = ((t + 1) * length) // count - offsets[high - 1] - base
    before, x, move, weight = row, idle, 0.0, 0.0
    while True:
        value = carry(x, total, move, weight, samples, before, xs[j], row)
        if ahead:
            later = row + AHEAD if j - low >= AHEAD else next_window + AHEAD - 1 - (j - low)
            if later <= last - base:
                fetch(samples, later)
        r = residual(value, samples, row)
        if not abs(r) <= limit:
            cursor[2] = 1
            break
        before, x, move, weight = row, xs[j], steps[t - 1] * r, weights[t - 1]
        if j > low:
            j -= 1
        else:
            t, j = t + 1, high - 1
            end = (t * length) // count
            next_window = ((t + 1) * length) // count - offsets[high - 1] - base
        row = end - offsets[j] - base
        if t > count or row + base > last:
            carry(x, total, move, weight, samples, before, idle, before)
            break
    cursor[0], cursor[1] = t, j


def _advance_lanes(  # type: ignore[no-untyped-def]
    samples, spec, length, count, base, last, steps, weights, limit, offsets, low, high, xs, total, cursor, out
):
    """The same on a feasible set."""
    t, j = cursor[0], cursor[1]
    while t <= count and not cursor[2]:
        position = (t * length) // count - offsets[j]
        if position > last:
            break
        if not descend(xs[j], samples, position - base, steps[t - 1], limit, out):
            cursor[2] = 1
            break
        project(xs[j], spec)
        weight = weights[t - 1]
        if weight > 0.0:
            for i in range(xs.shape[1]):
                total[i] += weight * xs[j, i]
        if j > low:
            j -= 1
        else:
            t, j = t + 1, high - 1
    cursor[0], cursor[1] = t, j


advance_lanes_freely = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_lanes_freely)
advance_lanes = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_lanes)


class Lanes:
    """The chains of one epoch under way.

    Parameters
    ----------
    spec : ndarray
        The feasible set.
    start : ndarray
        Where every chain begins, in the precision that the iterates are kept in.
    steps, weights : ndarray
        Step size and weight in the average of each step of a chain.
    limit : float
        Size of a residual beyond which a chain has diverged.
    length, chains : int
        Rows of the record, and number of chains.
    """

    def __init__(
        self, spec: Vector, start: Any, steps: Vector, weights: Vector, limit: float, length: int, chains: int
    ) -> None:
        self.spec, self.steps, self.weights, self.limit = spec, steps, weights, limit
        self.length, self.chains, self.count = length, chains, len(steps)
        self.xs = np.tile(start, (chains, 1))
        self.offsets = np.arange(chains, dtype=np.int64) * (length // self.count) // chains
        groups = max(1, min(MOST_GROUPS, chains // 2, chains * len(start) * 8 // GROUP))
        groups = 2 ** (groups.bit_length() - 1)
        self.bounds = [chains * group // groups for group in range(groups + 1)]
        self._totals = np.zeros((groups, len(start) + 16))  # apart, so that two threads do not share a cache line
        self._cursors = np.zeros((groups, 8), dtype=np.int64)
        self._cursors[:, 0] = 1
        self._cursors[:, 1] = np.array(self.bounds[1:]) - 1

    @property
    def totals(self) -> Vector:
        """Weighted sums of the iterates, by group."""
        return self._totals[:, : self.xs.shape[1]]

    @property
    def taken(self) -> int:
        """Steps taken so far, by all chains together."""
        low, high = np.array(self.bounds[:-1]), np.array(self.bounds[1:])
        return int(np.sum((self._cursors[:, 0] - 1) * (high - low) + high - 1 - self._cursors[:, 1]))

    @property
    def diverged(self) -> bool:
        """Whether a chain has."""
        return bool(self._cursors[:, 2].any())

    def advance(self, samples: Any, base: int, last: int, pool: ThreadPoolExecutor | None = None) -> None:
        """Go on up to position `last`; `base` is the position of the first of these samples, all counted from 1."""
        groups = range(len(self._cursors))
        if pool is None:
            for group in groups:
                self._advance(group, samples, base, last)
        else:
            list(pool.map(lambda group: self._advance(group, samples, base, last), groups))

    def _advance(self, group: int, samples: Any, base: int, last: int) -> None:
        where = self.length, self.count, base, last, self.steps, self.weights, self.limit, self.offsets
        lanes = self.bounds[group], self.bounds[group + 1], self.xs, self.totals[group], self._cursors[group]
        if self.spec[0] == WHOLE and samples.ridge is None:
            ahead = samples.features.itemsize * samples.features.shape[1] <= SHORT_ROW
            advance_lanes_freely(samples, *where, *lanes, np.zeros(self.xs.shape[1], dtype=self.xs.dtype), ahead)
        else:
            advance_lanes(samples, self.spec, *where, *lanes, np.zeros(self.xs.shape[1]))

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into."""
        return {"xs": self.xs, "totals": self._totals, "cursors": self._cursors}

    def answers(self) -> tuple[Vector, Vector]:
        """Mean over the chains of their last iterates and of their averages."""
        last = self.xs.mean(axis=0, dtype=np.float64)
        whole = float(self.weights.sum()) * self.chains
        return last, np.asarray(self.totals.sum(axis=0) / whole) if whole > 0 else last.copy()
