"""A chart that tells when a stream is no longer what it was, in units of the dependent standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import stdtrit

from multireplay._check import Vector

SCALES = 48
"""Stretches of 1, 2, 4, … rows."""
SHORTEST = 6
"""Stretches of 64 rows are the first to be looked at, …"""
KNOWN = 32
"""… and any only when as many before it have shown how they vary."""
CHANCE = 0.01
"""The chance of an alarm, ever, where nothing changes."""
ARRAYS = ("open", "squares", "fourths", "seen", "waiting")


class Chart:
    """Looks at what consecutive stretches of 64, 128, 256, … rows would each move the answer by.

    A stretch of rows moves it by ū = J⁻¹F̂ at the answer so far. How much ū varies between stretches of one length
    is seen directly, so that it is the standard error under dependence, whatever the dependence inside of them.
    A stretch that is further from 0 than those before it allow, in any coordinate, is an alarm. The chance of
    one is shared out over all looks there will ever be (Bonferroni): look i at stretches of 2^k rows gets a share of
    1/((k − 5)² i²). Tails are those of a t distribution with as much kurtosis as stretches have shown, so that
    rows whose products are far from normal are looked at in longer stretches.

    It is a control chart on batch means (Runger and Willemain 1995), at all dyadic lengths at once.
    """

    def __init__(self, dim: int) -> None:
        self.open = np.zeros((SCALES, dim))
        self.squares = np.zeros((SCALES, dim))
        self.fourths = np.zeros((SCALES, dim))
        self.seen = np.zeros(SCALES)
        self.waiting = np.zeros(SCALES)
        self.statistic, self.threshold = 0.0, math.inf
        """The largest |ū| of the last look in its standard errors, and where the alarm is."""

    def look(self, moved: Vector, rows: int) -> int:
        """Take in Σ J⁻¹F̃ of a block of 2^k rows; the rows of the longest stretch that gives an alarm, or 0."""
        scale, alarm = int(rows).bit_length() - 1, 0
        self.waiting[:scale] = 0.0
        while scale < SCALES:
            if scale >= SHORTEST and self._is_far(moved, scale):
                alarm = 1 << scale
            if not self.waiting[scale]:
                self.waiting[scale], self.open[scale] = 1.0, moved
                return alarm
            self.waiting[scale] = 0.0
            moved = moved + self.open[scale]
            scale += 1
        return alarm

    def _is_far(self, moved: Vector, scale: int) -> bool:
        """Whether this stretch is far from 0; if not, it is one of those that show how they vary."""
        seen, squares = int(self.seen[scale]), moved * moved
        if seen >= KNOWN:
            past = self.squares[scale]
            known = past > 0
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.where(known, squares * seen / past, 0.0)
                tails = np.where(known, self.fourths[scale] * seen / (past * past), 3.0)
            dim = len(moved)
            excess = max(float(tails.mean()) - 3.0, 0.0) + 2 * math.sqrt(24 / (seen * dim))
            freedom = min(seen - 1.0, 4 + 6 / excess)
            share = (6 / math.pi**2 / ((scale - SHORTEST + 1) * (seen - KNOWN + 1))) ** 2
            chance = CHANCE * share / (2 * dim)
            self.statistic = math.sqrt(float(ratios.max()))
            self.threshold = -float(stdtrit(freedom, chance))
            if self.statistic > self.threshold:
                return True
        self.seen[scale] += 1
        self.squares[scale] += squares
        self.fourths[scale] += squares * squares
        return False

    def state(self) -> dict[str, Any]:
        """All of it as arrays and numbers."""
        numbers = {"statistic": self.statistic, "threshold": min(self.threshold, 1e300)}
        return {name: getattr(self, name).copy() for name in ARRAYS} | numbers

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
        self.statistic, self.threshold = float(state["statistic"]), float(state["threshold"])
