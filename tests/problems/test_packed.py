"""Dense, sparse and indexed rows behave alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from multireplay.buffer.columns import SparseColumn
from multireplay.problems import packed as module
from multireplay.problems.packed import IndexedRows
from multireplay.problems.residual import dense_products


def make(kind, rng, count, states=5, dim=4, dtype=np.float64):
    """Rows of that kind, and the same as a dense array; `index` is shared by all kinds of one generator."""
    table = np.where(rng.random((states, dim)) < 0.5, rng.standard_normal((states, dim)), 0.0).astype(dtype)
    index = rng.integers(0, states, count)
    dense = table[index]
    made = {
        "dense": lambda: dense,
        "sparse": lambda: SparseColumn(dense),
        "table": lambda: IndexedRows(table, index),
        "sparse table": lambda: IndexedRows(SparseColumn(table), index),
    }
    return made[kind](), dense


KINDS = ["dense", "sparse", "table", "sparse table"]


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**31), st.sampled_from(KINDS), st.sampled_from([1, 3, 5, 40]))
def test_products_are_those_of_the_dense_rows(seed, kind, count):
    rng = np.random.default_rng(seed)
    rows, dense = make(kind, rng, count)
    x, weights = rng.standard_normal(4), rng.standard_normal(count)
    assert rows.shape == dense.shape
    assert np.allclose(rows @ x, dense @ x)
    assert np.allclose(rows @ np.outer(x, [1, 2]), dense @ np.outer(x, [1, 2]))
    assert np.allclose(rows.T @ weights, dense.T @ weights)
    assert np.allclose(rows[1:] @ x, dense[1:] @ x)
    assert np.allclose(dense_products(rows, rows), dense.T @ dense)
    assert np.allclose(dense_products(rows, rows, weights), dense.T @ (weights[:, None] * dense))
    assert module.squares(module.distinct(rows)).max() == pytest.approx((dense**2).sum(axis=1).max())
    taken = module.take(rows, np.array([count - 1, 0]))
    assert np.array_equal(taken.toarray() if sp.issparse(taken) else taken, dense[[count - 1, 0]])


def test_products_of_two_columns_of_one_table():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((5, 3))
    s, weights = rng.integers(0, 5, 21), rng.random(20)
    expected = table[s[:-1]].T @ (weights[:, None] * table[s[1:]])
    for kind in (table, SparseColumn(table)):
        now, then = IndexedRows(kind, s[:-1]), IndexedRows(kind, s[1:])
        assert np.allclose(dense_products(now, then, weights), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_is_summed_in_double(kind):
    rows, dense = make(kind, np.random.default_rng(1), 5000, dtype=np.float32)
    exact = dense.astype(np.float64)
    assert np.allclose(dense_products(rows, rows), exact.T @ exact, rtol=1e-12)
    assert np.allclose(rows.T @ np.ones(5000), exact.sum(axis=0), rtol=1e-12)
    big = SparseColumn(np.full((1, 2), 1e20, dtype=np.float32))
    assert module.squares(big)[0] == pytest.approx(2e40, rel=1e-6)


def test_distinct_leaves_out_states_that_do_not_occur():
    table = np.diag([1.0, 2.0, 30.0])
    assert module.squares(module.distinct(IndexedRows(table, np.array([0, 1, 1])))).max() == 4
    assert module.distinct(IndexedRows(table, np.array([0, 1, 2]))) is table


def test_a_table_larger_than_the_record_is_not_read_whole():
    """A product with few rows of a long table must not cost a pass over the table."""

    class Watched(np.ndarray):
        def __matmul__(self, other):
            assert self.shape[0] <= 3
            return np.asarray(self) @ other

    table = np.ones((1000, 2)).view(Watched)
    assert (IndexedRows(table, np.array([5, 7, 9])) @ np.ones(2)).tolist() == [2.0, 2.0, 2.0]


def test_sizes_of_sparse_columns_are_those_of_their_nonzeros():
    A = np.zeros((100, 3))
    A[:50, 0], A[::10, 1], A[0, 2] = 2.0, 3.0, 1e6  # often, just often enough, once
    assert module.column_sizes(SparseColumn(A)).tolist() == [2.0, 3.0, 0.0]
    assert module.column_sizes(A)[0] == pytest.approx(np.sqrt(2.0))
