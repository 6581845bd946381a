"""Rows of features, also those that are not one dense array: sparse ones, and rows of a table by their number.

`Rows` is any of a dense array of shape (B, d), a `SparseColumn`, or `IndexedRows`. All have a shape, slices of
rows, and products with a vector from either side; the functions here are what the problems need besides.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.buffer.columns import SparseColumn
from multireplay.problems.base import row_blocks

Rows: TypeAlias = Any


class IndexedRows:
    """The rows ``table[index[0]]``, ``table[index[1]]``, … without a copy of any: a table has a row a state."""

    ndim = 2

    def __init__(self, table: Rows, index: NDArray[np.integer[Any]]) -> None:
        self.table = table
        self.index = index

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.table.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.table.dtype  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice | NDArray[Any]) -> IndexedRows:
        return IndexedRows(self.table, self.index[rows])

    @property
    def gathered(self) -> Rows:
        """A copy of the rows."""
        return self.table[self.index]

    @property
    def crowded(self) -> bool:
        """Whether there are more rows than states, so that it pays to work on the table."""
        return len(self.index) >= int(self.table.shape[0])

    def __matmul__(self, other: NDArray[Any]) -> Vector:
        if self.crowded:
            return np.asarray((self.table @ other)[self.index])
        return np.asarray(self.gathered @ other)

    @property
    def T(self) -> _Transposed:
        """For products with the rows' transpose."""
        return _Transposed(self)


class _Transposed:
    def __init__(self, rows: IndexedRows) -> None:
        self.rows = rows

    def __matmul__(self, weights: Vector) -> Vector:
        table, index = self.rows.table, self.rows.index
        if self.rows.crowded:
            return np.asarray(table.T @ np.bincount(index, weights, minlength=table.shape[0]))
        return np.asarray(self.rows.gathered.T @ weights)


def take(rows: Rows, where: NDArray[Any] | slice) -> Rows:
    """Some of the rows as a dense or sparse float64 matrix."""
    taken = rows[where].gathered if isinstance(rows, IndexedRows) else rows[where]
    return taken.astype(np.float64) if issparse(taken) else np.ascontiguousarray(taken, dtype=np.float64)


def distinct(rows: Rows) -> Rows:
    """Rows among which are all of these: for a table those that occur in it, so that a maximum is found sooner."""
    if not isinstance(rows, IndexedRows):
        return rows
    occurs = np.zeros(rows.table.shape[0], dtype=np.bool_)
    occurs[rows.index] = True
    return rows.table if occurs.all() else rows.table[np.flatnonzero(occurs)]


def squares(rows: Rows) -> Vector:
    """‖ψ_t‖² of dense or sparse rows, in float64 also where they are not."""
    if not issparse(rows):
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.asarray(np.bincount(of, rows.data.astype(np.float64) ** 2, minlength=rows.shape[0]), dtype=np.float64)


def square_lengths(features: Rows) -> Vector:
    """‖ψ_t‖² of every row, dense or not."""
    return np.concatenate([squares(take(block, slice(None))) for block in row_blocks(features)])


def largest_square(features: Rows, weights: Vector | None = None) -> float:
    """max w_t‖ψ_t‖² over the rows, in one pass, in float64 also where the features are not."""
    if weights is not None:
        return float((weights * square_lengths(features)).max())
    return max(float(squares(block).max()) for block in row_blocks(distinct(features)))


def column_sizes(rows: Any, often: int = 10) -> Vector:
    """Root mean square by column of dense rows; of sparse ones that of the nonzeros, 0 where they are not often."""
    if not issparse(rows):
        return np.asarray(np.sqrt(np.mean(np.square(rows, dtype=np.float64), axis=0)))
    width = rows.shape[1]
    counts = np.bincount(rows.indices, minlength=width)
    total = np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=width)
    return np.asarray(np.sqrt(np.where(counts >= often, total, 0.0) / np.maximum(counts, 1)))


def scaled_rows(rows: Any, weights: Vector) -> SparseColumn:
    """Sparse rows, each times a number."""
    of = np.repeat(weights, np.diff(rows.indptr))
    return SparseColumn((rows.data * of, rows.indices, rows.indptr), shape=rows.shape)


def scaled_columns(rows: Any, scale: Vector) -> SparseColumn:
    """Sparse rows, each coordinate times a number."""
    return SparseColumn((rows.data * scale[rows.indices], rows.indices, rows.indptr), shape=rows.shape)
