"""Cells of Arrow columns as arrays: numbers, lists of numbers, texts and classes, and where there is nothing."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from multireplay.errors import InputError

Flags = NDArray[np.bool_]


def as_chunked(column: Any) -> Any:
    """A column of a table or of a batch, alike."""
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def inner_type(kind: Any) -> Any:
    """The type of the values of a column, which may be given by codes."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decoded(column: Any) -> Any:
    """A column with its values in place of codes."""
    return column.cast(inner_type(column.type)) if pa.types.is_dictionary(column.type) else column


def coded(column: Any) -> Any:
    """The different values of a column, and by codes which one each row has."""
    found = as_chunked(column).combine_chunks().dictionary_encode()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, or what counts as 0 and 1."""
    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def as_numbers(column: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers, not a number where there is nothing."""
    column = decoded(column)
    kind = column.type
    if is_text(kind):
        words = ((row, cell.as_py()) for row, cell in enumerate(column) if not _is_number(cell.as_py()))
        row, word = next(words, (0, None))
        shown = f"{reprlib.repr(word)} at row {row} (counting from 0), which is no number"
        raise InputError(f"column {name!r} holds {'numbers as text' if word is None else shown}")
    if not (is_number(kind) or pa.types.is_null(kind)):
        raise InputError(f"column {name!r} holds {kind} and not numbers")
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if not pa.types.is_floating(kind):
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(
        column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    )


def _is_number(cell: str | None) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def as_lists(column: Any, name: str) -> tuple[NDArray[np.float64], Flags]:
    """A column of lists of numbers as a matrix, and which rows have nothing in them; all others are of one length."""
    column = as_chunked(column)
    empty = np.asarray(column.is_null().to_numpy())
    flat = pc.list_flatten(column)
    lengths = pc.list_value_length(column.drop_null()).to_numpy()
    width = int(lengths[0]) if len(lengths) else 0
    if (lengths != width).any():
        raise InputError(f"column {name!r} holds lists of {width} and of {lengths[lengths != width][0]} numbers")
    values = np.full((len(column), width), np.nan)
    values[~empty] = as_numbers(flat, name).reshape(-1, width)
    return values, np.asarray(empty | np.isnan(values).any(axis=1))


def texts(column: Any) -> Any:
    """The cells of a column as texts, nothing where a cell is empty."""
    column = decoded(column)
    if pa.types.is_floating(column.type):  # 1.0 and 1 are one level
        values = column.to_numpy()
        found = [None if value != value else f"{value:.12g}" for value in values.tolist()]
        return pa.chunked_array([pa.array(found, pa.string())])
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def as_classes(column: Any, name: str) -> tuple[NDArray[Any], Flags]:
    """A column of classes, words, booleans or numbers (whole ones as integers), and where there is none."""
    column = as_chunked(column)
    kind = inner_type(column.type)
    if pa.types.is_boolean(kind) and not column.null_count:
        return column.to_numpy(), np.zeros(len(column), dtype=bool)
    if is_text(kind) or pa.types.is_boolean(kind):
        cells = texts(column)
        empty = np.asarray(cells.is_null().to_numpy())
        return np.array(["" if cell is None else cell for cell in cells.to_pylist()]), empty
    if pa.types.is_integer(kind) and not column.null_count:  # exactly, however large
        whole = column.cast(kind if pa.types.is_uint64(kind) else pa.int64())
        return whole.to_numpy(), np.zeros(len(column), dtype=bool)
    values = as_numbers(column, name)
    empty = np.isnan(values)
    known = values[~empty]
    exact = bool((known == np.round(known)).all())
    return (np.where(empty, 0, values).astype(np.int64) if exact else values), empty


def as_labels(column: Any, name: str, first: int = 0) -> NDArray[Any]:
    """The group of every row; a row without one is refused, counted on from `first`."""
    cells = texts(as_chunked(column))
    if cells.null_count:
        row = first + int(np.argmax(cells.is_null().to_numpy()))
        raise InputError(f"the group column {name!r} has nothing at row {row} (counting from 0)")
    return np.asarray(cells.to_numpy(), dtype=str)
