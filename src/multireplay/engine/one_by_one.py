"""Chains one after the other with any engine; they may go on from one call to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine.run import EpochRun


class OneByOne:
    """The chains of one epoch; as `Chains`, to the last bit, where the compiled loop can run them.

    Attributes
    ----------
    lasts, totals : ndarray
        What changes between two chains: sums over those that have come to their end, of last iterates and of weighted
        sums.
    ended : int
        The number of those chains.
    """

    def __init__(self, run: EpochRun) -> None:
        self.run = run
        run.recorder = None  # curves are of the mean over the chains
        self.ended = 0
        self.lasts, self.totals = np.zeros(len(run.x0)), np.zeros(len(run.x0))

    def advance(self, samples: Any, positions: Positions, shown: Positions) -> int:
        """Take one step for each position; the number of steps taken."""
        run, first = self.run, 0
        while first < len(positions):
            if run.taken in (0, run.planned.length):
                run.restart()
            before = run.taken
            part = slice(first, first + run.planned.length - before)
            fine = run.feed(samples, positions[part], shown[part])
            first += run.taken - before
            if not fine:
                break
            if run.taken == run.planned.length:
                self.ended += 1
                self.lasts += run.stepper.x
                self.totals += run.stepper.total
        return first

    def sums(self) -> tuple[Vector, Vector]:
        """The sums of the last iterates and of the averages of the chains that have come to their end."""
        return self.lasts, self.totals / self.run.averaging.weight(self.run.planned.length, self.run.planned.length)
