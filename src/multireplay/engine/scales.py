"""All epochs of static multiscale replay with one phase, in one pass over the record in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.engine.chains import stream_epochs
from multireplay.engine.run import EpochRun, finished
from multireplay.engine.steppers import run_kernel
from multireplay.result import Epoch


class Scales:
    """K epochs under way: fewer than 2B steps, K iterates in memory.

    Parameters
    ----------
    spec : ndarray, optional
        The feasible set, None for the whole space.
    runs : sequence of EpochRun
        The epochs before their first step.
    length : int
        Rows of the record, B.
    limit : float
        Size of a residual beyond which an epoch has diverged.
    dtype : dtype
        Precision that the iterates are kept in.
    """

    def __init__(self, spec: Vector | None, runs: Sequence[EpochRun], length: int, limit: float, dtype: Any) -> None:
        self.spec, self.runs, self.length, self.limit = spec, tuple(runs), length, limit
        start = runs[0].x0
        self.scales = np.array([run.planned.k for run in runs], dtype=np.int64)
        self.steps = np.array([run.first_step for run in runs])
        self.skips = np.array([run.skipped for run in runs], dtype=np.int64)
        self.xs, self.totals = np.tile(start.astype(dtype), (len(runs), 1)), np.zeros((len(runs), len(start)))
        self.counts = np.zeros(len(runs), dtype=np.int64)
        self.following = length >> self.scales
        self._scratch = np.zeros(len(start)), np.zeros(1, dtype=np.int64)

    @property
    def taken(self) -> int:
        """Steps taken so far, by all epochs together."""
        return int(self.counts.sum())

    def advance(self, samples: Any, base: int, first: int, last: int) -> None:
        """Go through positions first, …, last; `base` is the position of the first of these samples."""
        where = samples, self.spec, self.length, self.scales, self.steps, self.skips, self.limit, base, first, last
        run_kernel(stream_epochs, *where, self.xs, self.totals, self.counts, self.following, *self._scratch)

    def state(self) -> dict[str, Any]:
        """All that changes, as arrays that can be written into."""
        return {"xs": self.xs, "totals": self.totals, "counts": self.counts, "following": self.following}

    def epochs(self) -> list[Epoch]:
        """What the epochs found."""
        return [self._epoch(index, run) for index, run in enumerate(self.runs)]

    def _epoch(self, index: int, run: EpochRun) -> Epoch:
        taken = int(self.counts[index])
        averaged = taken - run.skipped
        last = self.xs[index].astype(np.float64)
        average = self.totals[index] / averaged if averaged > 0 else last.copy()
        stopped = taken < run.planned.length
        how = run.averaging, run.x0, last, average, taken, stopped, run.recorder
        return finished(run.planned, run.first_step, *how)
