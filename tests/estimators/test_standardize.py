"""Streaming standardization and its way back, and sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import multireplay as mr
from multireplay.estimators import standardize
from multireplay.estimators.base import stacked
from multireplay.estimators.standardize import measured


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(standardize, "ROWS", 7)


@pytest.fixture
def rows():
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1, 1e-3, 1e6, 1] + [0, 5, -1e8, 0]
    X[:, 3] = 42.0
    return X


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_give_the_moments_of_the_whole(rows, weighted):
    weights = np.arange(1.0, 51) if weighted else np.ones(50)
    found = measured(rows, weights if weighted else None, standardize=True, intercept=True)
    mean = np.average(rows, axis=0, weights=weights)
    deviation = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weights))
    assert np.allclose(found.mean, mean, rtol=1e-12)
    assert np.allclose(found.scale[:3], deviation[:3], rtol=1e-7)
    assert found.scale[3] == 1  # it does not vary
    design = found.design(rows)
    assert np.allclose(design, np.column_stack([(rows - mean) / [*deviation[:3], 1], np.ones(50)]), atol=1e-6)
    assert not np.shares_memory(design, rows)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_predictions_are_the_same_on_the_way_back(rows, intercept, kind):
    X = sparse.csr_array(rows) if kind == "sparse" else rows
    found = measured(X, None, standardize=True, intercept=intercept)
    x = np.array([1.0, -2.0, 0.5, 3.0, 7.0])[: 4 + intercept]
    coefficients, constant = found.undone(x)
    assert np.allclose(X @ coefficients + constant, found.design(X) @ x, rtol=1e-6)
    if kind == "sparse" or not intercept:
        assert not found.mean.any()


@pytest.mark.parametrize("count", [1, 2, 50])
def test_a_feature_that_does_not_vary_becomes_exactly_zero(count):
    rows = np.tile([0.1, 1e9 / 3, -7.0], (count, 1))
    weights = np.random.default_rng(0).random(count)
    found = measured(rows, weights, standardize=True, intercept=True)
    assert not found.design(rows)[:, :3].any()
    assert found.scale.tolist() == [1, 1, 1]


def test_rows_that_stay_as_they_are_are_not_copied(rows):
    found = measured(rows, None, standardize=False, intercept=False)
    assert found.design(rows) is rows
    assert found.undone(np.ones(4))[1] == 0


def test_single_precision_stays(rows):
    found = measured(rows.astype(np.float32), None, standardize=True, intercept=True)
    assert found.design(rows.astype(np.float32)).dtype == np.float32
    assert found.mean.dtype == found.scale.dtype == np.float64
    assert found.design(sparse.csr_array(rows.astype(np.float32))).dtype == np.float32


def test_a_sparse_matrix_that_would_be_too_large(monkeypatch):
    X = sparse.csr_array((2000, 99_999), dtype=np.float64)
    monkeypatch.setattr(standardize, "ROWS", 2000)
    with pytest.raises(mr.InputError, match=r"2000 rows and 100000 columns, and would need 1.5 GB .* only up to 1 GB"):
        mr.MERRegressor().fit(X, np.zeros(2000))
    monkeypatch.setattr(standardize, "LARGEST", 10)
    with pytest.raises(mr.InputError, match="partial_fit with blocks"):
        standardize.made_dense(sparse.csr_array(np.eye(3)))


def test_blocks_of_several_kinds_are_stacked():
    dense, thin = np.eye(3), sparse.csr_array(np.eye(3))
    assert sparse.issparse(stacked([thin, thin]))
    assert np.array_equal(stacked([dense, thin]), np.vstack([dense, dense]))
    assert stacked([np.arange(2), np.arange(3)]).tolist() == [0, 1, 0, 1, 2]
