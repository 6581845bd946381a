"""What every room needs of an argument: types of arrays, checks whose messages name the thing, the usual threads."""

from __future__ import annotations

import math
import os
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multireplay.errors import InputError

Vector: TypeAlias = NDArray[np.float64]
"""Numbers: a point, a table of them, or a matrix."""
Positions: TypeAlias = NDArray[np.int64]
"""Places in a record or a list."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Where Linux says what part of the processors a container has: microseconds, of so many."""


def whole_number(name: str, value: object, least: int) -> int:
    """`value` as an int of at least `least`, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def positive(name: str, value: object) -> float:
    """`value` as a finite positive number, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        also = ", a schedule from mr.steps such as mr.steps.Decaying(mu=0.1), or 'auto'" if name == "step" else ""
        raise InputError(f"{name} must be a positive number{also}, not {value!r}")
    return float(value)


def number_in(
    name: str,
    value: object,
    low: float = 0.0,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = True,
) -> float:
    """`value` as a float if it is a real number from `low` to `high`, or an error that names it."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an int beyond the floating-point range
        number = math.inf
    if (low < number if low_open else low <= number) and (number < high if high_open else number <= high):
        return number
    where = f"in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    if not low_open and high == math.inf:
        where = f"of at least {low:g}"
    raise InputError(f"{name} must be a number {where}, not {value!r}")


def one_a_row(name: str, shape: tuple[int, ...], rows: int, of: str = "X") -> None:
    """Raise unless an array of this shape has one value for each of so many rows."""
    if shape != (rows,):
        raise InputError(f"{name} has shape {shape}, but {of} has {rows} rows: it needs ({rows},)")


def as_vector(name: str, values: Any) -> Vector:
    """An array of real numbers, or an error that names it."""
    from multireplay.buffer.foreign import as_numpy, is_foreign  # which checks with this module

    try:
        return np.array(as_numpy(values) if is_foreign(values) else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers, not {values!r}") from None


@cache
def cores() -> int:
    """The cores that this process may use, as first seen: those it is bound to, no more than its container is given.

    joblib's ``cpu_count`` says the same, and takes 0.15 s and 6 MB to be imported.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, -(-int(quota) // int(period))))
