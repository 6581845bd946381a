"""What every room needs of an argument: the types of arrays, and checks whose messages name the thing."""

from __future__ import annotations

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


def as_vector(name: str, values: Any) -> Vector:
    """An array of real numbers, or an error that names it."""
    from multireplay.buffer.foreign import as_numpy, is_foreign  # which checks with this module

    try:
        return np.array(as_numpy(values) if is_foreign(values) else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of real numbers, not {values!r}") from None
