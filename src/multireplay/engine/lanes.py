"""Chains side by side: the phases of a gap read memory once, in order, on all cores.

Chain j of an epoch reads row p_t − o_j in its step t. In a window of one gap the rows of all chains lie side by side,
so that going through the record in order serves every chain in turn. Neighbouring steps belong to different chains,
and so the processor works on several of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np

from multireplay._check import Vector
from multireplay.engine import kernels
from multireplay.engine.kernels import step_once, steps_ahead
from multireplay.engine.packs import apart
from multireplay.engine.team import Team

GROUP = 2**12
"""Bytes of iterates of a group of lanes, which share a sum, at least. Fixed, and a thread gets whole groups, so that
the number of threads does not change a bit of the answer."""
MOST_GROUPS = 8
TAKEN, STOPPED, REACHED = 0, 1, 2  # marks of a group


def _advance_lanes(  # type: ignore[no-untyped-def]
    samples, spec, length, count, base, first, last, begin, steps, weights, limit, offsets, bounds, xs, totals, marks,
    out,
):  # fmt: skip
    """Steps of the lanes bounds[0], …, bounds[-1] − 1 on the rows `first` to `last` that they have not read, in order.

    They begin with step `begin`, counted from 1, whose size and weight are steps[0] and weights[0].
    Group g of them ends at bounds[g + 1]: its iterates xs[g] are added to totals[g, 0], and marks[g, 0] holds the
    number of its steps, whether one of its chains diverged, and the row that it has reached. Unsigned indices are not
    tested for being negative.
    """
    dim, low, top = out.shape[0], bounds[0], bounds[-1] - 1
    lanes, gap, chains = top - low + 1, length // count, offsets.shape[0]
    ahead = min(steps_ahead(samples), lanes)
    for t in range(begin, begin + steps.shape[0]):
        end, following = (t * length) // count, ((t + 1) * length) // count
        if end - offsets[top] > last:
            break
        step, weight = steps[t - begin], weights[t - begin]
        for group in range(totals.shape[0] - 1, -1, -1):
            lowest, total, mark = bounds[group], totals[group, 0], marks[group, 0]
            unread = max(first, mark[REACHED] + 1)
            if mark[STOPPED] or end < unread:
                continue
            latest = min(bounds[group + 1] - 1, ((end - unread + 1) * chains - 1) // gap)  # the lane of the first row
            done = 0
            for j in range(latest, lowest - 1, -1):
                row = end - offsets[j]
                if row > last:
                    break
                other = j - ahead
                later = min(last, end - offsets[other] if other >= low else following - offsets[other + lanes]) - base
                x = xs[np.uintp(group), np.uintp(j - lowest), :dim]
                if not step_once(x, total, samples, np.uintp(row - base), step, weight, limit, spec, out, later):
                    mark[STOPPED] = 1
                    break
                done += 1
            mark[TAKEN] += done
    for group in range(totals.shape[0]):
        marks[group, 0, REACHED] = max(marks[group, 0, REACHED], last)  # after an interruption it may be ahead


advance_lanes = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_lanes)


class Lanes:
    """The chains of one epoch under way.

    Parameters
    ----------
    spec : ndarray, optional
        The feasible set, None for the whole space.
    start : ndarray
        Where every chain begins, in the precision that the iterates are kept in.
    count : int
        Steps of a chain.
    sizes : callable
        ``sizes(first, count)``: sizes and weights in the average of steps first + 1, …, first + count of a chain.
    whole : float
        The sum of all these weights.
    limit : float
        Size of a residual beyond which a chain has diverged.
    length, chains : int
        Rows of the record, and number of chains.
    """

    def __init__(
        self,
        spec: Vector | None,
        start: Any,
        count: int,
        sizes: Callable[[int, int], tuple[Vector, Vector]],
        whole: float,
        limit: float,
        length: int,
        chains: int,
    ) -> None:
        self.spec, self.sizes, self.whole, self.limit = spec, sizes, whole, limit
        self.length, self.chains, self.count, self.dim = length, chains, count, len(start)
        self.offsets = np.arange(chains, dtype=np.int64) * (length // self.count) // chains
        groups = max(1, min(MOST_GROUPS, chains, chains * len(start) * 8 // GROUP))
        groups = 2 ** (groups.bit_length() - 1)
        self.bounds = np.array([chains * group // groups for group in range(groups + 1)])
        most = -(-chains // groups)
        self._xs = apart(groups, most, len(start), start.dtype)
        self._xs[:, :, : len(start)] = start
        self._totals = apart(groups, 1, len(start), np.dtype(np.float64))
        self._marks = apart(groups, 1, 3, np.dtype(np.int64))

    @property
    def taken(self) -> int:
        """Steps taken so far, by all chains together."""
        return int(self._marks[:, 0, TAKEN].sum())

    @property
    def diverged(self) -> bool:
        """Whether a chain has."""
        return bool(self._marks[:, 0, STOPPED].any())

    def advance(self, samples: Any, base: int, first: int, last: int, team: Team) -> None:
        """Go through positions first, …, last; `base` is that of the first of these samples, all counted from 1."""
        begin = max(1, first * self.count // self.length)
        end = min(self.count, (last + self.length // self.count) * self.count // self.length + 1)
        where = self.length, self.count, base, first, last, begin, *self.sizes(begin - 1, end - begin + 1)
        groups = len(self._marks)
        parts = min(groups, team.size)
        cuts = [groups * part // parts for part in range(parts + 1)]
        team.share(lambda low, high: self._advance(low, high, samples, *where), cuts)

    def _advance(self, low: int, high: int, samples: Any, *where: Any) -> None:
        """The same for the groups low, …, high − 1."""
        lanes = self.bounds[low : high + 1], self._xs[low:high], self._totals[low:high], self._marks[low:high]
        advance_lanes(samples, self.spec, *where, self.limit, self.offsets, *lanes, np.zeros(self.dim))

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept."""
        return sum(array.nbytes for array in self.state().values())

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into."""
        return {"xs": self._xs, "totals": self._totals, "marks": self._marks}

    def _groups(self) -> Iterator[tuple[Any, int]]:
        """The iterates of each group, with room to spare, and their number."""
        return zip(self._xs, np.diff(self.bounds), strict=True)

    def answers(self) -> tuple[Vector, Vector]:
        """Mean over the chains of their last iterates and of their averages."""
        lasts = [xs[:size, : self.dim].sum(axis=0, dtype=np.float64) for xs, size in self._groups()]
        last = np.sum(lasts, axis=0) / self.chains
        whole = self.whole * self.chains
        total = self._totals[:, 0, : self.dim].sum(axis=0)
        return last, np.asarray(total / whole) if whole > 0 else last.copy()
