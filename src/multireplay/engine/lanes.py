"""Chains side by side: the phases of a gap read memory once, in order, on all cores.

Chain j of an epoch reads row p_t − o_j in its step t. In a window of one gap the rows of all chains lie side by side,
so that going through the record in order serves every chain in turn. Neighbouring steps belong to different chains,
and so the processor works on several of them at once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from multireplay.engine import kernels
from multireplay.engine.kernels import step_once, steps_ahead
from multireplay.engine.packs import apart
from multireplay.engine.team import Team
from multireplay.problems.base import Vector

GROUP = 2**12
"""Bytes of iterates of a group of lanes, which share a sum, at least. Fixed, and a thread gets whole groups, so that
the number of threads does not change a bit of the answer."""
MOST_GROUPS = 8
MEMORY = 2**26
"""Bytes that the iterates of all chains of an epoch may take; beyond that they are run one after the other."""


def _advance_lanes(  # type: ignore[no-untyped-def]
    samples, spec, length, base, first, last, steps, weights, limit, offsets, bounds, xs, totals, taken, stopped, out
):
    """Steps of the lanes bounds[0], …, bounds[-1] − 1 on the rows `first` to `last`, in order.

    Group g of them ends at bounds[g + 1]: its iterates xs[g] are added to totals[g, 0], ``taken[g]`` counts its steps,
    and ``stopped[g]`` says that one of its chains diverged. What is asked for ahead lies in the same window of one gap
    or, beyond a jump over the rows of other threads, in the next. Unsigned indices are not tested for being negative.
    """
    count, dim, low, top = steps.shape[0], out.shape[0], bounds[0], bounds[-1] - 1
    ahead = min(steps_ahead(samples), top - low + 1)
    for t in range(max(1, first * count // length), count + 1):
        end = (t * length) // count
        if end - offsets[top] > last:
            break
        jump = ((t + 1) * length) // count - end - (top - low + 1)
        step, weight = steps[t - 1], weights[t - 1]
        for group in range(totals.shape[0] - 1, -1, -1):
            if stopped[group]:
                continue
            lowest, done, total = bounds[group], 0, totals[group, 0]
            for j in range(bounds[group + 1] - 1, lowest - 1, -1):
                row = end - offsets[j]
                if row < first:
                    continue
                if row > last:
                    break
                later = min(last, row + ahead + (jump if j - low < ahead else 0)) - base
                x = xs[np.uintp(group), np.uintp(j - lowest), :dim]
                if not step_once(x, total, samples, np.uintp(row - base), step, weight, limit, spec, out, later):
                    stopped[group] = 1
                    break
                done += 1
            taken[group] += done


advance_lanes = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_lanes)


class Lanes:
    """The chains of one epoch under way.

    Parameters
    ----------
    spec : ndarray, optional
        The feasible set, None for the whole space.
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
        self, spec: Vector | None, start: Any, steps: Vector, weights: Vector, limit: float, length: int, chains: int
    ) -> None:
        self.spec, self.steps, self.weights, self.limit = spec, steps, weights, limit
        self.length, self.chains, self.count, self.dim = length, chains, len(steps), len(start)
        self.offsets = np.arange(chains, dtype=np.int64) * (length // self.count) // chains
        groups = max(1, min(MOST_GROUPS, chains, chains * len(start) * 8 // GROUP))
        groups = 2 ** (groups.bit_length() - 1)
        self.bounds = np.array([chains * group // groups for group in range(groups + 1)])
        most = -(-chains // groups)
        self._xs = apart(groups, most, len(start), start.dtype)
        self._xs[:, :, : len(start)] = start
        self._totals = apart(groups, 1, len(start), np.dtype(np.float64))
        self._taken, self._stopped = apart(2 * groups, 1, 1, np.dtype(np.int64))[:, 0, 0].reshape(2, groups)

    @property
    def xs(self) -> Vector:
        """The iterates."""
        sizes = np.diff(self.bounds)
        return np.concatenate([xs[:size, : self.dim] for xs, size in zip(self._xs, sizes, strict=True)])

    @property
    def taken(self) -> int:
        """Steps taken so far, by all chains together."""
        return int(self._taken.sum())

    @property
    def diverged(self) -> bool:
        """Whether a chain has."""
        return bool(self._stopped.any())

    def advance(self, samples: Any, base: int, first: int, last: int, team: Team) -> None:
        """Go through positions first, …, last; `base` is that of the first of these samples, all counted from 1."""
        groups = len(self._taken)
        parts = min(groups, team.size)
        cuts = [groups * part // parts for part in range(parts + 1)]
        team.share(lambda low, high: self._advance(low, high, samples, base, first, last), cuts)

    def _advance(self, low: int, high: int, samples: Any, base: int, first: int, last: int) -> None:
        """The same for the groups low, …, high − 1."""
        where = self.length, base, first, last, self.steps, self.weights, self.limit, self.offsets
        sums = self._totals[low:high], self._taken[low:high], self._stopped[low:high]
        lanes = self.bounds[low : high + 1], self._xs[low:high], *sums
        advance_lanes(samples, self.spec, *where, *lanes, np.zeros(self.dim))

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into."""
        return {"xs": self._xs, "totals": self._totals, "taken": self._taken, "stopped": self._stopped}

    def answers(self) -> tuple[Vector, Vector]:
        """Mean over the chains of their last iterates and of their averages."""
        last = self.xs.mean(axis=0, dtype=np.float64)
        whole = float(self.weights.sum()) * self.chains
        total = self._totals[:, 0, : self.dim].sum(axis=0)
        return last, np.asarray(total / whole) if whole > 0 else last.copy()
