"""Range checks of the theory modules: a message names the argument, its value and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real

from multireplay.errors import InputError

LAST_EPOCH = 1000  # T_k = 2^k must be a finite float


def number(
    name: str,
    value: object,
    low: float = 0.0,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = True,
) -> float:
    """Return ``value`` as a float if it is a real number in the range from ``low`` to ``high``."""
    range_ = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a real number in {range_}; got {value!r}")
    try:
        x = float(value)
    except OverflowError:
        x = math.inf
    inside = (low < x if low_open else low <= x) and (x < high if high_open else x <= high)
    if not inside:  # also refuses nan
        raise InputError(f"{name} must lie in {range_}; got {value!r}")
    return x


def whole(name: str, value: object, low: int = 1, high: int | None = None) -> int:
    """Return ``value`` as an int if it is a whole number in the range from ``low`` to ``high``."""
    range_ = f"at least {low}" if high is None else f"from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number {range_}; got {value!r}")
    n = int(value)
    if n < low or (high is not None and n > high):
        raise InputError(f"{name} must be a whole number {range_}; got {value!r}")
    return n


def epoch(k: object) -> int:
    """Return the epoch number k, from 1."""
    return whole("k", k, 1, LAST_EPOCH)


def gap(k: object, B: object) -> float:
    """Return the replay gap τ_k = B/2^k of epoch k, which must be at least 1."""
    n = epoch(k)
    size = number("B", B, 1.0)
    if size < math.ldexp(1.0, n):
        raise InputError(f"B must be at least 2^k = {2**n} for epoch k = {n} to exist (gap B/2^k >= 1); got {B!r}")
    return math.ldexp(size, -n)
