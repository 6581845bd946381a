"""Many short chains on sparse rows, each from the same start, in time proportional to their nonzeros."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload

from multireplay._check import Positions, Vector
from multireplay.engine import kernels
from multireplay.engine.kernels import fetch, move_along, residual, score
from multireplay.engine.prefetch import AHEAD
from multireplay.engine.run import EpochRun
from multireplay.engine.sparse import fetch_ahead
from multireplay.engine.steppers import is_built_in, run_kernel
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
    samples, positions, steps, remaining, limit, start, x, moves, lasts, totals, taken
):
    """Whole chains of len(steps) steps, each from `start`, which x is on entry and again after every chain.

    A step x ← x − m a moves the chain's last iterate by −m a, and its weighted sum by that times the weights that are
    still to come, ``remaining``. So both sums over the chains are kept as differences to the start.
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
                move_along(totals, samples, i, moves[s] * remaining[s])
                restore(x, start, samples, i)
    taken[0] = last


advance_chains = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_chains)
advance_chains_users = numba.njit(**kernels.OPTIONS)(_advance_chains)


class SparseChains:
    """The chains of one epoch; as `Chains`, on the whole space, but that the sums are differences to the start."""

    def __init__(self, run: EpochRun) -> None:
        length, self.start, self.limit = run.planned.length, run.x0, run.limit
        self.steps, weights = run.sizes_from(0, length)
        self.remaining, self.whole = np.cumsum(weights[::-1])[::-1].copy(), weights.sum()
        self.x, self._moves = run.x0.copy(), np.zeros(length)
        self.lasts, self.totals = np.zeros(len(run.x0)), np.zeros(len(run.x0))
        self.ended = 0
        self._taken = np.zeros(1, dtype=np.int64)

    def advance(self, samples: Any, positions: Positions) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""
        kernel = advance_chains if is_built_in(samples) else advance_chains_users
        where = samples, positions, self.steps, self.remaining, self.limit, self.start, self.x, self._moves
        taken = run_kernel(kernel, *where, self.lasts, self.totals, self._taken)
        self.ended += taken // len(self.steps)
        return taken

    def sums(self) -> tuple[Vector, Vector]:
        """The sums of the last iterates and of the averages of the chains that have come to their end."""
        return self.ended * self.start + self.lasts, self.ended * self.start + self.totals / self.whole
