"""Sparse columns and columns of states in a buffer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import multireplay as mr
from multireplay.buffer.columns import SparseColumn

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 4.0], [5.0, 0.0, 0.0]])


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array])
def test_any_sparse_format_becomes_a_column(make):
    column = mr.Buffer(features=make(DENSE))["features"]
    assert isinstance(column, sp.csr_array)
    assert np.array_equal(column.toarray(), DENSE)
    assert column.shape == (4, 3)
    assert column.has_canonical_format
    assert column.indices.dtype == column.indptr.dtype == np.int32


def test_the_numbers_of_a_csr_array_are_not_copied_and_their_places_are():
    """Loops and scipy go where the places say without looking: who changes the matrix must not change these."""
    given = sp.csr_array(DENSE)
    buffer = mr.Buffer(features=given, targets=np.arange(4.0))
    column = buffer["features"]
    assert np.shares_memory(column.data, given.data)
    assert not np.shares_memory(column.indices, given.indices)
    assert not np.shares_memory(column.indptr, given.indptr)
    before = mr.solve(mr.GLM(), buffer, replay=mr.Serial(), step=0.1).x
    given.indices[:], given.indptr[1:] = 2**30, 2**30
    assert np.array_equal(mr.solve(mr.GLM(), buffer, replay=mr.Serial(), step=0.1).x, before)


def test_a_run_has_places_of_its_own_that_nobody_can_write_over_meanwhile():
    buffer = mr.Buffer(features=sp.csr_array(DENSE), targets=np.arange(4.0))
    columns = mr.GLM().columns(buffer)
    buffer["features"].indices[:], buffer["features"].indptr[1:] = 2**30, 2**30
    assert np.shares_memory(columns["features"].data, buffer["features"].data)
    assert np.allclose(mr.GLM().mean_operator(np.zeros(3), columns), -np.arange(4.0) @ DENSE / 4)


@pytest.mark.parametrize("how", [{}, {"replay": mr.Serial(), "step": 0.1}, {"update": mr.Exact()}], ids=str)
@pytest.mark.parametrize("value", [2**30, -1, 3])
def test_places_that_were_written_over_are_refused_at_the_next_run(value, how):
    buffer = mr.Buffer(features=sp.csr_array(DENSE), targets=np.arange(4.0))
    buffer["features"].indices[1] = value
    with pytest.raises(mr.InputError, match="sparse column 'features' is damaged"):
        mr.solve(mr.GLM(), buffer, **how)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(np.float64, np.float64), (np.float32, np.float32), (np.int8, np.float64), (np.uint16, np.float64),
     (np.bool_, np.float64), (np.longdouble, np.float64)],
)  # fmt: skip
def test_dtypes(given, kept):
    assert mr.Buffer(features=sp.csr_array(DENSE.astype(given)))["features"].dtype == kept


def test_long_indices_become_short_ones():
    wide = sp.csr_array(DENSE)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    column = mr.Buffer(features=wide)["features"]
    assert column.indices.dtype == np.int32
    assert wide.indices.dtype == np.int64  # the user's own is left alone


def test_duplicates_are_added_and_the_users_matrix_is_left_alone():
    given = sp.csr_array(([1.0, 2.0, 5.0, -3.0], [2, 2, 1, 0], [0, 2, 4]), shape=(2, 3))
    column = mr.Buffer(features=given)["features"]
    assert column.toarray().tolist() == [[0.0, 0.0, 3.0], [-3.0, 5.0, 0.0]]
    assert column.indices.tolist() == [2, 0, 1]
    assert given.indices.tolist() == [2, 2, 1, 0]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.sampled_from([slice(1, 3), slice(None), slice(-2, None), slice(0, 0), slice(3, 1),
                                               slice(None, None, 2), slice(None, None, -1), slice(1, 99)]))  # fmt: skip
def test_slices_are_those_of_the_dense_array(seed, rows):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((7, 4)) < 0.4, rng.standard_normal((7, 4)), 0.0)
    part = SparseColumn(dense)[rows]
    assert isinstance(part, SparseColumn)
    assert np.array_equal(part.toarray(), dense[rows])
    assert np.allclose(part @ np.arange(4.0), dense[rows] @ np.arange(4.0))


def test_slices_of_a_buffer_are_views_and_pickle():
    buffer = mr.Buffer(features=sp.csr_array(DENSE), targets=np.arange(4.0))
    part = buffer[2:]
    assert np.shares_memory(part["features"].data, buffer["features"].data)
    copy = pickle.loads(pickle.dumps(part))
    assert np.array_equal(copy["features"].toarray(), DENSE[2:])
    assert repr(part) == "Buffer(2 rows: features (2, 3) float64 with 3 nonzeros, targets (2,) float64)"


def damaged(what):
    matrix = sp.csr_array(DENSE)
    if what == "beyond":
        matrix.indices[-1] = 7
    else:
        matrix.indptr[1] = 5
    return matrix


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (sp.csr_array([[1.0, 0.0], [0.0, np.nan]]), r"column 'features' holds nan at row 1, feature 1 \(counting from"),
        (sp.csr_array([[0.0, 0.0], [np.inf, 0.0]]), r"column 'features' holds inf at row 1, feature 0"),
        (sp.csr_array([[1j, 0]]), "sparse column 'features' has dtype complex128; it needs real numbers"),
        (sp.coo_array(np.array([1.0, 2.0])), "sparse column 'features' has 1 dimensions; it needs 2"),
        (damaged("beyond"), "sparse column 'features' is damaged"),
        (damaged("pointers"), "sparse column 'features' is damaged"),
        (sp.csr_array((0, 3)), "the buffer is empty: column 'features' has no rows"),
    ],
)
def test_errors(column, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer(features=column)


def test_large_finite_values_whose_sum_overflows():
    assert len(mr.Buffer(features=sp.csr_array(np.full((3, 2), 1.5e308)))) == 3


def test_lengths_must_agree():
    with pytest.raises(mr.InputError, match="same number of rows, but features has 4, targets has 3"):
        mr.Buffer(features=sp.csr_array(DENSE), targets=np.zeros(3))


def test_a_column_is_used_like_any_csr_array():
    column = mr.Buffer(features=sp.csr_array(DENSE))["features"]
    assert np.array_equal(sp.vstack([column, column[1:]]).toarray(), np.vstack([DENSE, DENSE[1:]]))
    assert np.array_equal((2 * column).toarray(), 2 * DENSE)
    assert np.array_equal(column[np.array([3, 0])].toarray(), DENSE[[3, 0]])
    assert np.array_equal(column[:, [2]].toarray(), DENSE[:, [2]])
    assert column[2, 1] == 3.0


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, ">i4"])
def test_states_stay_whole_numbers(dtype):
    given = np.array([0, 3, 1], dtype=dtype)
    buffer = mr.Buffer(states=given, next_states=[1, 2, 0], rewards=[1, 0, 2])
    assert buffer["states"].dtype == np.dtype(dtype).newbyteorder("=")
    assert buffer["states"].tolist() == [0, 3, 1]
    assert buffer["next_states"].dtype.kind == "i"
    assert buffer["rewards"].dtype == np.float64
    assert "states (3,) " in repr(buffer)
    assert pickle.loads(pickle.dumps(buffer))["states"].dtype.kind in "iu"


def test_other_columns_by_that_name_are_as_any():
    assert mr.Buffer(states=[[1, 2], [3, 4]])["states"].dtype == np.float64
    assert mr.Buffer(states=[0.5, 1.0])["states"].dtype == np.float64
