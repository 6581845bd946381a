"""What every room needs of an argument: the types of arrays, and checks whose messages name the thing."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multireplay.errors import InputError

Vector: TypeAlias = NDArray[np.float64]
"""Numbers: a point, a table of them, or a matrix."""
Positions: TypeAlias = NDArray[np.int64]
"""Places in a record or a list."""


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


def as_vector(name: str, values: Any) -> Vector:
    """An array of real numbers, or an error that names it."""
    from multireplay.buffer.foreign import as_numpy, is_foreign  # which checks with this module

    try:
        return np.array(as_numpy(values) if is_foreign(values) else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers, not {values!r}") from None
