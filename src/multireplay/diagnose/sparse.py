"""Columns that are looked at by their most frequent features: sparse ones, and states by how often they are visited."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay.buffer.buffer import STATES
from multireplay.buffer.columns import SparseColumn, as_sparse_column
from multireplay.diagnose.checks import MIN_ROWS
from multireplay.errors import InputError


def as_sparse_series(name: str, values: Any) -> SparseColumn | None:
    """A sparse column, checked; states as one indicator for each of them; None for any other column.

    The numbers of states are names: what depends on the past is which of them is visited.

    Examples
    --------
    >>> as_sparse_series("states", np.array([2, 0, 2, 2])).toarray().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    """
    if issparse(values):
        series = as_sparse_column(name, values)
    elif name in STATES and isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        series = _visits(name, values)
    else:
        return None
    rows, width = series.shape
    if rows < MIN_ROWS:
        raise InputError(
            f"Column {name!r} has {rows} rows; at least {MIN_ROWS} are needed to see how neighbours depend on "
            "each other."
        )
    if width == 0:
        raise InputError(f"Column {name!r} has no features: its shape is {series.shape}.")
    return series


def _visits(name: str, states: NDArray[Any]) -> SparseColumn:
    if len(states) and states.min() < 0:
        row = int(np.flatnonzero(states < 0)[0])
        raise InputError(f"Column {name!r} is {states[row]} at row {row}; states are counted from 0.")
    shape = len(states), int(states.max(initial=-1)) + 1
    return as_sparse_column(name, SparseColumn((np.ones(len(states)), states, np.arange(len(states) + 1)), shape=shape))


def most_frequent(series: SparseColumn, count: int) -> NDArray[np.intp]:
    """The features with the most nonzeros, in rising order; among equals the first."""
    times = np.bincount(series.indices, minlength=series.shape[1])
    return np.sort(np.argsort(-times, kind="stable")[:count]).astype(np.intp)
