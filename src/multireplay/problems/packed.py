"""Sparse and indexed samples as the loops read them: named tuples, because numba can hand these to compiled code.

What is not a field is for NumPy: all rows as a `matrix`, or one of them dense, by its number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import SparseColumn
from multireplay.problems.features import IndexedRows


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


def pack_table(rows: NDArray[Any] | SparseColumn) -> DenseTable | Nonzeros:
    """The rows of a table for the loops."""
    return nonzeros(rows) if isinstance(rows, SparseColumn) else DenseTable(rows)


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
