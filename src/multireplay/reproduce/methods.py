"""The methods that every figure compares, each with one name and one colour everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multireplay.replay import Dyadic, Multiscale, Replay, Serial, Shuffle, Skip, Uniform

POINTS = 40
"""Iterations at which the curves of single-epoch methods are recorded, evenly in the logarithm."""


@dataclass(frozen=True)
class Method:
    """A name, an order, and whether it is fed independent samples instead of the record.

    ``replay(instance)`` is the scheme for one instance: random orders differ between instances.
    """

    name: str
    replay: Callable[[int], Replay]
    independent: bool = False

    def iterations(self, length: int) -> NDArray[np.int64]:
        """Where its error is known: at the end of every epoch for MER, along the way for the others."""
        plan = self.replay(0).plan(length)
        if len(plan) > 1:
            return np.array([epoch.length for epoch in plan], dtype=np.int64)
        return np.unique(np.geomspace(1, plan[0].length, POINTS).round().astype(np.int64))


def skip(gap: int, name: str | None = None) -> Method:
    """Every gap-th sample."""
    return Method(name or f"skip {gap}", lambda instance: Skip(gap))


MER = Method("MER", lambda instance: Multiscale())
SERIAL = Method("serial", lambda instance: Serial())
DYADIC = Method("dyadic", lambda instance: Dyadic())
UNIFORM = Method("uniform", lambda instance: Uniform(instance))
SHUFFLE = Method("shuffle", lambda instance: Shuffle(instance))
INDEPENDENT = Method("i.i.d.", lambda instance: Serial(), independent=True)


def all_methods(*skips: Method) -> tuple[Method, ...]:
    """MER, what the paper compares it with, and what it leaves out."""
    return (MER, SERIAL, *skips, INDEPENDENT, UNIFORM, SHUFFLE, DYADIC)
