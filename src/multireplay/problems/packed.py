"""Features that are not one dense array: sparse rows, and rows of a table by their number.

`Rows` is any of a dense array of shape (B, d), a `SparseColumn`, or `IndexedRows`. All have a shape, slices of
rows, and products with a vector from either side; the functions here are what the problems need besides.

Samples of them are packed as named tuples for the loops, because numba can hand these to compiled code. What is not
a field of those is for NumPy: all rows as a `matrix`, or one of them dense, by its number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import SparseColumn
from multireplay.problems.base import row_blocks

Rows: TypeAlias = Any
FEW_COLUMNS, FEW_LENGTHS = 8, 4
"""Sums of fewer columns than this are as fast by themselves as by products, and so are those of more lengths."""


class IndexedRows:
    """The rows ``table[index[0]]``, ``table[index[1]]``, … without a copy of any: a table has a row a state."""

    def __init__(self, table: Rows, index: NDArray[np.integer[Any]]) -> None:
        self.table = table
        self.index = index

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.table.shape[1]

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


class Nonzeros(NamedTuple):
    """Sparse rows: the nonzeros of row i are entries indptr[i] to indptr[i + 1] of `data`, at `indices`."""

    data: NDArray[Any]
    indices: NDArray[np.integer[Any]]
    indptr: NDArray[np.integer[Any]]
    width: int

    @property
    def matrix(self) -> SparseColumn:
        return SparseColumn((self.data, self.indices, self.indptr), shape=(len(self.indptr) - 1, self.width))

    def at(self, row: int) -> Vector:
        dense = np.zeros(self.width)
        entries = slice(self.indptr[row], self.indptr[row + 1])
        dense[self.indices[entries]] = self.data[entries]
        return dense


class DenseTable(NamedTuple):
    """Dense rows of a table. Not a bare array, because the rows are states and not samples."""

    rows: NDArray[Any]

    @property
    def matrix(self) -> NDArray[Any]:
        return self.rows

    def at(self, row: int) -> NDArray[Any]:
        return np.asarray(self.rows[row])


def nonzeros(rows: SparseColumn) -> Nonzeros:
    """Sparse rows for the loops; nothing is copied."""
    return Nonzeros(rows.data, rows.indices, rows.indptr, rows.shape[1])


class SparseRegressionSamples(NamedTuple):
    """Sparse covariates and a response a row, and the link as a code or a jitted function."""

    rows: Nonzeros
    targets: Vector
    link: Any

    @property
    def features(self) -> SparseColumn:
        return self.rows.matrix

    def row(self, i: int) -> Vector:
        return self.rows.at(i)


class SparseTransitionSamples(NamedTuple):
    """One transition between sparse features a row. The discount is γ, or 0 on a terminal row."""

    rows: Nonzeros
    next_rows: Nonzeros
    rewards: Vector
    discounts: Vector

    @property
    def features(self) -> SparseColumn:
        return self.rows.matrix

    @property
    def next_features(self) -> SparseColumn:
        return self.next_rows.matrix

    def row(self, i: int) -> Vector:
        return self.rows.at(i)

    def next_row(self, i: int) -> Vector:
        return self.next_rows.at(i)


class IndexedTransitionSamples(NamedTuple):
    """One transition between states a row, whose features are rows of a table, dense or sparse."""

    table: DenseTable | Nonzeros
    states: NDArray[np.int64]
    next_states: NDArray[np.int64]
    rewards: Vector
    discounts: Vector
    height: int
    """Rows of the table."""

    @property
    def features(self) -> IndexedRows:
        return IndexedRows(self.table.matrix, self.states)

    @property
    def next_features(self) -> IndexedRows:
        return IndexedRows(self.table.matrix, self.next_states)

    def row(self, i: int) -> NDArray[Any]:
        return self.table.at(int(self.states[i]))

    def next_row(self, i: int) -> NDArray[Any]:
        return self.table.at(int(self.next_states[i]))


def has_sparse_rows(samples: Any) -> bool:
    """Whether a step on these samples costs as much as a row has nonzeros."""
    source = samples.table if isinstance(samples, IndexedTransitionSamples) else getattr(samples, "rows", None)
    return isinstance(source, Nonzeros)


def stretch_totals(values: Vector, starts: Positions) -> Vector:
    """The sums of the rows from each of `starts` to the next: by products with ones where some are as long."""
    dim = values.shape[1]
    if dim < FEW_COLUMNS or len(together := alike(len(values), tuple(starts.tolist()))) > FEW_LENGTHS:
        return np.add.reduceat(values, starts, axis=0)
    found = np.empty((len(starts), dim))
    for which, turns, rows in together:
        found[which] = np.matmul(np.ones(rows.stop - rows.start), values.reshape(turns, -1, dim)[:, rows])
    return found


@lru_cache(maxsize=8)
def alike(count: int, starts: tuple[int, ...]) -> list[tuple[slice, int, slice]]:
    """Stretches whose lengths come again in turns: which are as long, the number of turns, and their rows in one."""
    even = starts == tuple(i * count // len(starts) for i in range(len(starts)))
    turns = int(np.gcd(count, len(starts))) if even else 1
    some, edges = len(starts) // turns, [*starts[: len(starts) // turns], count // turns]
    return [(slice(place, None, some), turns, slice(*edges[place : place + 2])) for place in range(some)]
