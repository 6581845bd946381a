"""Columns: what a record is made of. Dense ones are arrays, sparse ones scipy's CSR arrays whose slices are views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from multireplay.buffer.foreign import first_not_finite
from multireplay.buffer.names import Names, place_in_words
from multireplay.errors import InputError

Array: TypeAlias = NDArray[Any]
Columns: TypeAlias = Mapping[str, Array]
"""Columns of one length by name, dense or sparse."""


def row_count(columns: Columns) -> int:
    """The number of samples; a sparse column has no length."""
    return int(next(iter(columns.values())).shape[0])


def width_of(column: Any) -> int:
    """Numbers a row."""
    return int(column.shape[1]) if column.ndim == 2 else 1


def size_of(column: Any) -> int:
    """Bytes of a column, dense or sparse."""
    return int(column.data.nbytes + column.indices.nbytes if issparse(column) else column.nbytes)


class SparseColumn(csr_array):  # type: ignore[misc]
    """Sparse rows, a sample each: a scipy ``csr_array`` whose slices of rows are views."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(self.shape[0])
            if step == 1:
                return self._between(start, max(start, stop))
        return super().__getitem__(key)

    def _between(self, start: int, stop: int) -> SparseColumn:
        first, last = self.indptr[start], self.indptr[stop]
        entries = self.data[first:last], self.indices[first:last], self.indptr[start : stop + 1] - first
        return SparseColumn(entries, shape=(stop - start, self.shape[1]))


def as_sparse_column(name: str, values: Any, names: Names | None = None) -> SparseColumn:
    """Any scipy sparse matrix as a column: CSR, sorted, every place once, real numbers; copied only where it must be.

    Places are 32-bit wherever they fit, which is half the memory, and one compiled loop instead of two. They are the
    column's own: whoever changes the matrix later, perhaps while it is read, could send a loop anywhere.
    """
    if values.ndim != 2:
        raise InputError(f"sparse column {name!r} has {values.ndim} dimensions; it needs 2 (rows)")
    given = values.tocsr()
    places = np.int32 if max(given.nnz, *given.shape) <= np.iinfo(np.int32).max else np.int64
    indices, indptr = (part.astype(places) for part in (given.indices, given.indptr))
    kind = kept_type(given.dtype)
    if kind is None:
        raise InputError(f"sparse column {name!r} has dtype {given.dtype}; it needs real numbers")
    data = given.data.astype(kind if kind.kind == "f" else np.float64, copy=False)
    column = SparseColumn((data, indices, indptr), shape=given.shape)
    check_places(name, column)
    if not column.has_canonical_format:
        column = column.copy()
        column.sum_duplicates()
    place = first_not_finite(column.data)
    if place is not None:
        row = int(np.searchsorted(column.indptr, place[0], side="right")) - 1
        where = place_in_words((row, int(column.indices[place[0]])), names)
        raise InputError(f"column {name!r} holds {column.data[place[0]]} at {where}; all values must be finite")
    return column


def with_own_places(name: str, column: Any) -> SparseColumn:
    """A sparse column whose places of nonzeros are a copy, checked, that nobody else can change; numbers are shared."""
    places = column.indices.copy(), column.indptr.copy()
    own = SparseColumn((column.data, *places), shape=column.shape)
    check_places(name, own)
    return own


def check_places(name: str, column: Any) -> None:
    """Raise where the places of nonzeros are not in the matrix: loops read what they point to without looking."""
    try:
        column.check_format(full_check=True)
    except ValueError as error:
        raise InputError(f"sparse column {name!r} is damaged: {error}") from None


def kept_type(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type in which numbers of this type are kept, or None where they are not real numbers.

    Integers and booleans stay what they are (states, flags); half precision becomes single, long double becomes double.
    """
    if dtype.kind == "f":
        return np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    return dtype.newbyteorder("=") if dtype.kind in "iub" else None
