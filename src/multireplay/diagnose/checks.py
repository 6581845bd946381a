"""What may be diagnosed: named columns of real numbers, all finite, of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError

MIN_ROWS = 4
_CHUNK_VALUES = 2**21


class HasColumns(Protocol):
    """Anything with named columns, such as a :class:`multireplay.Buffer`."""

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]: ...


def named_columns(source: HasColumns | Mapping[str, ArrayLike] | ArrayLike) -> dict[str, ArrayLike]:
    """The columns of a buffer or of a mapping by name; a bare array becomes one column, ``series``."""
    columns = source if isinstance(source, Mapping) else getattr(source, "columns", None)
    if not hasattr(columns, "items"):  # a bare array, or a table whose ``columns`` are only labels
        return {"series": cast(ArrayLike, source)}
    return {str(name): values for name, values in cast(Mapping[str, ArrayLike], columns).items()}


def as_series(name: str, values: ArrayLike) -> NDArray[Any]:
    """One column as a finite real ``(rows, features)`` array, a view of the input wherever possible.

    Examples
    --------
    >>> as_series("rewards", [1.0, 2.0, 3.0, 4.0]).shape
    (4, 1)
    >>> as_series("rewards", [1.0, 2.0, float("nan"), 4.0])
    Traceback (most recent call last):
        ...
    multireplay.errors.InputError: Column 'rewards' is nan at row 2; every value must be finite.
    """
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Column {name!r} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"Column {name!r} holds {array.dtype}; only real numbers and booleans are measured.")
    if array.ndim not in (1, 2):
        raise InputError(f"Column {name!r} has {array.ndim} axes; it must have one (rows) or two (rows, features).")
    if array.shape[0] < MIN_ROWS:
        raise InputError(
            f"Column {name!r} has {array.shape[0]} rows; at least {MIN_ROWS} are needed to see how "
            "neighbours depend on each other."
        )
    if array.ndim == 2 and array.shape[1] == 0:
        raise InputError(f"Column {name!r} has no features: its shape is {array.shape}.")
    _check_finite(name, array)
    return array[:, None] if array.ndim == 1 else array


def _check_finite(name: str, array: NDArray[Any]) -> None:
    """Refuse NaN and infinity, naming the first row that has one; a block of rows at a time."""
    if array.dtype.kind != "f":
        return
    rows = max(1, _CHUNK_VALUES // (array.size // array.shape[0]))
    for start in range(0, array.shape[0], rows):
        finite = np.isfinite(array[start : start + rows])
        if not finite.all():
            where = np.argwhere(~finite)[0]
            row = start + int(where[0])
            place = f"{name!r}" if array.ndim == 1 else f"{name!r}, feature {int(where[1])},"
            value = array[(row, *where[1:])]
            raise InputError(f"Column {place} is {value} at row {row}; every value must be finite.")
