"""Observations scaled to [0, 1] by the range that was visited, or by the bounds that are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.rl.features.base import as_vectors
from multireplay.rl.spaces import Array, limits_of, sizes_of, width_of

TAIL = 0.001
"""Share of the observations beyond either bound: a few far ones must not squeeze the rest together."""

Bounds = tuple[Any, Any] | None


@dataclass(frozen=True, eq=False)
class Scaling:
    """s ↦ (s − low)/(high − low) by coordinate."""

    low: Vector
    high: Vector

    def unit(self, observations: Array) -> Vector:
        """Observations in units of the range; those beyond it are outside [0, 1]."""
        return np.asarray((as_vectors(observations) - self.low) / (self.high - self.low))

    def clipped(self, observations: Array) -> Vector:
        """Observations in units of the range, with what is outside moved to the border."""
        return np.clip(self.unit(observations), 0.0, 1.0)


def scaling_of(space: Any, observations: Array, bounds: Bounds) -> Scaling:
    """The scaling by the given bounds, by those of a discrete space, or by the range that was visited.

    Bounds of a `Box` are often far wider than what a policy visits (CartPole ends at half of them), and features that
    are never active help nobody; so the range is that of the observations, without the outer 0.1 % on each side. It is
    the one of the space where there are no observations.
    """
    low, high = limits_of(space)
    if bounds is not None:
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InputError(f"bounds must be (low, high), not {bounds!r}")
        width, given = width_of(space), [np.asarray(bound, dtype=np.float64).ravel() for bound in bounds]
        for name, bound in zip(("low", "high"), given, strict=True):
            if bound.size not in (1, width):
                raise InputError(f"bounds: {name} has {bound.size} numbers, but an observation has {width}")
        low, high = (np.array(np.broadcast_to(bound, (width,))) for bound in given)
    elif sizes_of(space) is None and len(observations):
        low, high = np.quantile(as_vectors(observations), [TAIL, 1 - TAIL], axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(f"{space} has no bounds; give observations to take them from, or bounds=(low, high)")
    if (low > high).any():
        raise InputError(f"bounds must be (low, high) with low below high, not ({low}, {high})")
    flat = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))  # a coordinate that never moves
    return Scaling(low, np.where(flat, low + 1.0, high))


def per_dimension(name: str, value: Any, width: int, least: int) -> tuple[int, ...]:
    """A whole number for every coordinate, from one for all or one for each."""
    numbers = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value,) * width
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
            raise InputError(f"{name} must be whole numbers of at least {least}, not {value!r}")
    if len(numbers) != width:
        raise InputError(f"{name}={value!r} is for {len(numbers)} numbers, but an observation has {width}")
    return tuple(int(number) for number in numbers)
