"""Which iterates of an epoch are averaged, and whether the answer is that average or the last iterate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from multireplay.errors import InputError


@dataclass(frozen=True)
class Averaging:
    """The last `fraction` of an epoch's iterates is averaged; `answers` says whether that is the answer."""

    fraction: float
    answers: bool

    def skipped(self, length: int) -> int:
        """Steps of an epoch of that length whose iterates are left out of the average."""
        return length - max(1, math.ceil(self.fraction * length - 1e-9))


def as_averaging(average: str | float) -> Averaging:
    """ "none" (answer with the last iterate), "full", or a tail fraction in (0, 1]."""
    if average == "none":
        return Averaging(fraction=1.0, answers=False)
    if average == "full":
        return Averaging(fraction=1.0, answers=True)
    if isinstance(average, str | bool) or not isinstance(average, int | float | np.number) or not 0 < average <= 1:
        raise InputError(f"average must be 'none', 'full' or a fraction in (0, 1], not {average!r}")
    return Averaging(fraction=float(average), answers=True)
