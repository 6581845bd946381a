"""Many short chains from the same start, and all epochs of a plan in one pass: loops over whole chains, compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine import kernels
from multireplay.engine.kernels import step_once, steps_ahead
from multireplay.engine.packs import zeros
from multireplay.engine.run import EpochRun
from multireplay.engine.steppers import CompiledStepper, is_built_in, run_kernel


def _advance_chains(  # type: ignore[no-untyped-def]
    samples, spec, positions, steps, weights, limit, start, x, total, lasts, totals, out, taken
):
    """Whole chains of len(steps) steps, each from `start`; their last iterates and weighted sums are added up."""
    length = steps.shape[0]
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
                totals[j] += total[j]
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
    """The chains of one epoch, which the compiled loop runs as wholes, one after the other.

    Attributes
    ----------
    lasts, totals : ndarray
        What changes: sums over the chains that have come to their end, of last iterates and of weighted sums.
    ended : int
        The number of those chains.
    x : ndarray
        Where the chain is that was run last.
    """

    def __init__(self, run: EpochRun) -> None:
        planned, stepper, dim = run.planned, run.stepper, len(run.x0)
        assert isinstance(stepper, CompiledStepper)
        length = planned.length
        self.spec, self.start, self.limit = stepper.projection, run.x0, run.limit
        self.steps, self.weights = run.sizes_from(0, length)
        self.whole = run.averaging.weight(length, length)
        self.lasts, self.totals = np.zeros(dim), np.zeros(dim)
        self.ended = 0
        self.x, self._total = zeros(dim, stepper.x.dtype), zeros(dim)
        self._scratch = np.zeros(dim), np.zeros(1, dtype=np.int64)

    def advance(self, samples: Any, positions: Positions) -> int:
        """Run the whole chains that these positions are; the number of steps taken."""
        kernel = advance_chains if is_built_in(samples) else advance_chains_users
        where = samples, self.spec, positions, self.steps, self.weights, self.limit, self.start
        taken = run_kernel(kernel, *where, self.x, self._total, self.lasts, self.totals, *self._scratch)
        self.ended += taken // len(self.steps)
        return taken

    def sums(self) -> tuple[Vector, Vector]:
        """The sums of the last iterates and of the averages of the chains that have come to their end."""
        return self.lasts, self.totals / self.whole
