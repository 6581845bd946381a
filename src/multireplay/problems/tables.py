"""What is checked of transitions: features of one kind, or states that are rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.buffer import STATES, Buffer
from multireplay.buffer.columns import SparseColumn
from multireplay.errors import InputError
from multireplay.problems.features import Rows, is_sparse

INDEXED: Mapping[str, int] = {"states": 1, "next_states": 1, "rewards": 1}
"""The columns of transitions between rows of a table."""


def as_table(table: Any) -> NDArray[Any] | SparseColumn:
    """A table of features, a row a state, dense or sparse; checked like a column.

    Raises
    ------
    InputError
        If it is not two-dimensional, or holds anything but finite real numbers.
    """
    rows = Buffer(table=table)["table"]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"table needs a row of features a state (2 dimensions), but its shape is {rows.shape}")
    if is_sparse(rows):
        return rows
    return np.ascontiguousarray(rows, dtype=np.float64 if rows.dtype == np.bool_ else rows.dtype)


def check_states(columns: Mapping[str, NDArray[Any]], count: int) -> None:
    """Raise unless both columns of states are row numbers of a table with that many rows, naming the first bad row."""
    for name in STATES:
        states = columns[name]
        if states.dtype.kind not in "iu":
            raise InputError(
                f"column {name!r} holds {states.dtype} values; with a table it needs whole numbers, rows of the table "
                f"counted from 0: {name}.astype(int)"
            )
        if int(states.min()) < 0 or int(states.max()) >= count:
            bad = int(np.flatnonzero((states < 0) | (states >= count))[0])
            raise InputError(
                f"column {name!r} holds {states[bad]} at row {bad} (counting from 0), but the table has {count} rows: "
                f"states go from 0 to {count - 1}"
            )


def check_alike(features: Rows, next_features: Rows) -> None:
    """Raise unless both have the same width, dtype and kind."""
    if features.shape[1] != next_features.shape[1]:
        raise InputError(
            f"features has {features.shape[1]} features a row and next_features {next_features.shape[1]}; "
            "they need the same"
        )
    if features.dtype != next_features.dtype:
        raise InputError("features and next_features need the same dtype")
    if is_sparse(features) != is_sparse(next_features):
        raise InputError("features and next_features must both be dense or both be sparse")
