"""Many short chains from the same start, and all epochs of a plan in one pass: loops over whole chains, compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from multireplay.engine import kernels
from multireplay.engine.kernels import step_once, steps_ahead
from multireplay.engine.steppers import is_built_in, run_kernel
from multireplay.problems.base import Vector


def _advance_chains(  # type: ignore[no-untyped-def]
    samples, spec, positions, steps, weights, limit, start, x, total, lasts, averages, out, taken
):
    """Whole chains of len(steps) steps, each from `start`; their last iterates and averages are added up."""
    length = steps.shape[0]
    whole = weights.sum()
    ahead = steps_ahead(samples)
    for t in range(positions.shape[0]):
        taken[0] = t
        within = t % length
        if within == 0:
            for j in range(x.shape[0]):
                x[j] = start[j]
                total[j] = 0.0
        i, later = positions[t] - 1, positions[min(t + ahead, positions.shape[0] - 1)] - 1
        if not step_once(x, total, samples, i, steps[within], weights[within], limit, spec, out, later):
            return
        if within == length - 1:
            for j in range(x.shape[0]):
                lasts[j] += x[j]
                averages[j] += total[j] / whole
    taken[0] = positions.shape[0]


def _stream(  # type: ignore[no-untyped-def]
    samples, spec, length, scales, steps, skips, limit, base, first, last, xs, totals, counts, following, out, taken
):
    """Epochs of static multiscale replay in one pass over positions first, …, last (1-based), in order.

    Position p is a step of epoch k where p = ⌊t·B/2^k⌋ for the t whose turn it is: ``following``. Every epoch keeps its
    own iterate and sum, so that each takes the very steps it would take alone. ``base`` is the position of the first
    of these samples.
    """
    epochs = xs.shape[0]
    ahead = steps_ahead(samples)
    for p in range(first, last + 1):
        later = min(p + ahead, last) - base
        for k in range(epochs):
            if following[k] != p:
                continue
            taken[0] = k
            weight = 1.0 if counts[k] >= skips[k] else 0.0
            if not step_once(xs[k], totals[k], samples, p - base, steps[k], weight, limit, spec, out, later):
                following[k] = -1
                continue
            counts[k] += 1
            following[k] = ((counts[k] + 1) * length) >> scales[k]


advance_chains = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_chains)
advance_chains_users = numba.njit(**kernels.OPTIONS)(_advance_chains)
stream_epochs = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_stream)


class Chains:
    """The sums over the chains of one epoch."""

    def __init__(self, spec: Vector | None, start: Vector, steps: Vector, weights: Vector, limit: float, dtype: Any):
        dim = len(start)
        self.spec, self.start, self.steps, self.weights, self.limit = spec, start, steps, weights, limit
        self.lasts, self.averages = np.zeros(dim), np.zeros(dim)
        self._scratch = np.zeros(dim, dtype), np.zeros(dim)
        self.counts = np.zeros(2, dtype=np.int64)
        """Steps taken in all calls but the last, and in the last."""
        self._out = np.zeros(dim)

    def advance(self, samples: Any, positions: NDArray[np.int64]) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""
        length = len(self.steps)
        self.counts[:] = self.counts.sum() // length * length, 0  # in one go: an interruption cannot come between
        kernel = advance_chains if is_built_in(samples) else advance_chains_users
        where = samples, self.spec, positions, self.steps, self.weights, self.limit, self.start
        return run_kernel(kernel, *where, *self._scratch, self.lasts, self.averages, self._out, self.counts[1:])
