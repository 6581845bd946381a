"""What a run of Newton corrections reads, in the form that pages draw replay schemes from."""

from __future__ import annotations

from dataclasses import dataclass

from multireplay._check import Positions
from multireplay.replay import Replay, Serial
from multireplay.replay.base import PlannedEpoch
from multireplay.replay.multiscale import scattered
from multireplay.result import Result


@dataclass(frozen=True)
class Corrected(Replay):
    """A coarse epoch of `rows` samples, then the record in order for every correction.

    Examples
    --------
    >>> [epoch.positions.tolist() for epoch in Corrected(rows=2, passes=1).plan(6)]
    [[2, 6], [1, 2, 3, 4, 5, 6]]
    """

    rows: int
    passes: int

    @classmethod
    def of(cls, result: Result) -> Corrected:
        """What this run read."""
        return cls(result.epochs[0].taken, len(result.epochs) - 1)

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        def coarse(first: int, count: int) -> Positions:
            return scattered(length, self.rows)[first : first + count] + 1

        k = self.rows.bit_length() - 1
        (whole,) = Serial().plan(length)
        passes = (PlannedEpoch(k + i, whole.gap, length, whole.block) for i in range(1, self.passes + 1))
        return (PlannedEpoch(k, length / self.rows, self.rows, coarse), *passes)
