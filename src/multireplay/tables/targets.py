"""The column to predict: classes, or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from multireplay.tables.kinds import texts
from multireplay.tables.recipe import as_chunked, as_numbers


def as_classes(column: Any, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """A column of classes, words, booleans or numbers (whole ones as integers), and where there is none."""
    column = as_chunked(column)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_boolean(kind) and not column.null_count:
        return column.to_numpy(), np.zeros(len(column), dtype=bool)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        cells = texts(column)
        empty = np.asarray(cells.is_null().to_numpy())
        return np.array(["" if cell is None else cell for cell in cells.to_pylist()]), empty
    values = as_numbers(column, name)
    empty = np.isnan(values)
    known = values[~empty]
    whole = bool((known == np.round(known)).all())
    return (np.where(empty, 0, values).astype(np.int64) if whole else values), empty
