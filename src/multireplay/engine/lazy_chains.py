"""Many short chains on sparse rows, each from the same start, in time proportional to their nonzeros."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from multireplay.engine import kernels
from multireplay.engine.kernels import fetch, move_along, residual, score
from multireplay.engine.prefetch import AHEAD
from multireplay.engine.sparse import fetch_ahead
from multireplay.engine.steppers import is_built_in, run_kernel
from multireplay.problems.base import Vector
from multireplay.problems.packed import SparseRegressionSamples, SparseTransitionSamples


@numba.njit(cache=True, _nrt=False)
def restore_row(x, start, rows, i):  # type: ignore[no-untyped-def]
    """x ← start where row i is not zero."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        x[j] = start[j]


def restore(x: Any, start: Any, samples: Any, i: int) -> None:
    """x ← start where a step on sample i has moved it."""
    raise NotImplementedError


@overload(restore)
def _restore(x, start, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class in (SparseRegressionSamples, SparseTransitionSamples):
        return lambda x, start, samples, i: restore_row(x, start, samples.rows, i)
    return lambda x, start, samples, i: restore_row(x, start, samples.table, samples.states[i])


def _advance_chains(  # type: ignore[no-untyped-def]
    samples, positions, steps, remaining, limit, start, x, moves, lasts, averages, taken
):
    """Whole chains of len(steps) steps, each from `start`, which x is on entry and again after every chain.

    A step x ← x − m a moves the chain's last iterate by −m a, and its average by that times the share of all weights
    that is still to come, ``remaining``. So both sums over the chains are kept as differences to the start.
    """
    length = steps.shape[0]
    last = positions.shape[0]
    for t in range(last):
        if t + 2 * AHEAD < last:
            fetch_ahead(samples, positions[t + 2 * AHEAD] - 1)
        if t + AHEAD < last:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        within = t % length
        i = positions[t] - 1
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            return
        moves[within] = steps[within] * r
        move_along(x, samples, i, moves[within])
        if within == length - 1:
            for s in range(length):
                i = positions[t - within + s] - 1
                move_along(lasts, samples, i, moves[s])
                move_along(averages, samples, i, moves[s] * remaining[s])
                restore(x, start, samples, i)
    taken[0] = last


advance_chains = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_chains)
advance_chains_users = numba.njit(**kernels.OPTIONS)(_advance_chains)


class SparseChains:
    """The sums over the chains of one epoch; as `Chains`, on the whole space."""

    def __init__(self, start: Vector, steps: Vector, weights: Vector, limit: float) -> None:
        self.start, self.steps, self.limit = start, steps, limit
        self.remaining = np.cumsum(weights[::-1])[::-1] / weights.sum()
        self._x, self._moves = start.copy(), np.zeros(len(steps))
        self._lasts, self._averages = np.zeros(len(start)), np.zeros(len(start))
        self.counts = np.zeros(2, dtype=np.int64)
        """Steps taken in all calls but the last, and in the last."""

    @property
    def ended(self) -> int:
        """Chains that have come to their end."""
        return int(self.counts.sum()) // len(self.steps)

    @property
    def lasts(self) -> Vector:
        """The sum of the last iterates."""
        return self.ended * self.start + self._lasts

    @property
    def averages(self) -> Vector:
        """The sum of the averages."""
        return self.ended * self.start + self._averages

    def advance(self, samples: Any, positions: NDArray[np.int64]) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""
        self.counts[:] = self.counts.sum(), 0
        kernel = advance_chains if is_built_in(samples) else advance_chains_users
        where = samples, positions, self.steps, self.remaining, self.limit, self.start, self._x, self._moves
        return run_kernel(kernel, *where, self._lasts, self._averages, self.counts[1:])
