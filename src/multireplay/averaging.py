"""Which iterates of an epoch are averaged, and whether the answer is that average or the last iterate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.errors import InputError


@dataclass(frozen=True)
class Averaging:
    """The last `fraction` of an epoch's iterates is averaged; `answers` says whether that is the answer.

    With `rising`, iterate t of T has weight t/T instead of 1.
    """

    fraction: float
    answers: bool
    rising: bool = False

    def skipped(self, length: int) -> int:
        """Steps of an epoch of that length whose iterates are left out of the average."""
        return length - max(1, math.ceil(self.fraction * length - 1e-9))

    def weights(self, length: int, first: int, count: int) -> NDArray[np.float64]:
        """Weights of the iterates after steps first + 1, …, first + count."""
        t = np.arange(first + 1, first + count + 1, dtype=np.float64)
        return t / length if self.rising else np.asarray(t > self.skipped(length), dtype=np.float64)

    def weight(self, length: int, taken: int) -> float:
        """All weights of the first `taken` iterates together."""
        return taken * (taken + 1) / (2 * length) if self.rising else float(max(0, taken - self.skipped(length)))

    def __str__(self) -> str:
        if not self.answers:
            return "the last iterate"
        if self.rising:
            return "the average with weights growing with the step"
        if self.fraction == 1:
            return "the average of all iterates"
        return f"the average of the last {self.fraction:.4g} of the iterates"


def as_averaging(average: Any) -> Averaging:
    """ "none" (answer with the last iterate), "full", "weighted", or a tail fraction in (0, 1]."""
    named = {
        "none": Averaging(fraction=1.0, answers=False),
        "full": Averaging(fraction=1.0, answers=True),
        "weighted": Averaging(fraction=1.0, answers=True, rising=True),
    }
    if isinstance(average, str) and average in named:
        return named[average]
    if isinstance(average, str | bool) or not isinstance(average, int | float | np.number) or not 0 < average <= 1:
        raise InputError(f"average must be 'none', 'full', 'weighted' or a fraction in (0, 1], not {average!r}")
    return Averaging(fraction=float(average), answers=True)
