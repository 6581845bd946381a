"""What may be diagnosed: named columns of real numbers, all finite; sparse ones and states as they are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from multireplay.buffer.buffer import STATES, Buffer
from multireplay.buffer.columns import SparseColumn, as_sparse_column
from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError

MIN_ROWS = 4
_CHUNK_VALUES = 2**21


def named_columns(source: Buffer | Mapping[str, ArrayLike] | ArrayLike) -> dict[str, ArrayLike]:
    """The columns of a buffer or of a mapping by name; a bare array becomes one column, ``series``."""
    columns = source if isinstance(source, Mapping) else getattr(source, "columns", None)
    if not hasattr(columns, "items"):  # a bare array, or a table whose ``columns`` are only labels
        return {"series": cast(ArrayLike, source)}
    return {str(name): values for name, values in cast(Mapping[str, ArrayLike], columns).items()}


def as_series(name: str, values: ArrayLike) -> NDArray[Any]:
    """One column as a finite real ``(rows, features)`` array, a view of the input wherever possible."""
    try:
        array = as_numpy(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"Column {name!r} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"Column {name!r} holds {array.dtype}; only real numbers and booleans are measured.")
    if array.ndim not in (1, 2):
        raise InputError(f"Column {name!r} has {array.ndim} axes; it must have one (rows) or two (rows, features).")
    _check_shape(name, array.shape)
    _check_finite(name, array)
    return array[:, None] if array.ndim == 1 else array


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if shape[0] < MIN_ROWS:
        raise InputError(
            f"Column {name!r} has {shape[0]} rows; at least {MIN_ROWS} are needed to see how neighbours depend on "
            "each other."
        )
    if len(shape) == 2 and shape[1] == 0:
        raise InputError(f"Column {name!r} has no features: its shape is {shape}.")


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


def as_sparse_series(name: str, values: Any) -> SparseColumn | None:
    """A sparse column, checked; states as one indicator for each of them; None for any other column.

    The numbers of states are names: what depends on the past is which of them is visited.
    """
    if issparse(values):
        series = as_sparse_column(name, values)
    elif name in STATES and isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        series = _visits(name, values)
    else:
        return None
    _check_shape(name, series.shape)
    return series


def _visits(name: str, states: NDArray[Any]) -> SparseColumn:
    if len(states) and states.min() < 0:
        row = int(np.flatnonzero(states < 0)[0])
        raise InputError(f"Column {name!r} is {states[row]} at row {row}; states are counted from 0.")
    shape = len(states), int(states.max(initial=-1)) + 1
    return as_sparse_column(name, SparseColumn((np.ones(len(states)), states, np.arange(len(states) + 1)), shape=shape))
