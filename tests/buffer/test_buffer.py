from __future__ import annotations

import pickle

import numpy as np
import pytest

import multireplay as mr


def test_views_are_not_copied():
    F = np.random.default_rng(0).standard_normal((10, 3))
    buffer = mr.Buffer(features=F[:-1], next_features=F[1:])
    assert np.shares_memory(buffer["features"], F)
    assert np.shares_memory(buffer["next_features"], F)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(np.float64, np.float64), (np.float32, np.float32), (np.float16, np.float32), (np.int32, np.float64),
     (np.uint8, np.float64), (np.bool_, np.bool_), (">f8", np.float64),
     (np.longdouble, np.float64), (object, np.float64)],
)  # fmt: skip
def test_dtypes(given, kept):
    assert mr.Buffer(column=np.array([0, 1], dtype=given))["column"].dtype == kept


def test_mapping_and_pickle():
    buffer = mr.Buffer(a=[1, 2], b=[[1.0], [2.0]])
    assert list(buffer) == ["a", "b"]
    assert "a" in buffer
    assert "c" not in buffer
    copy = pickle.loads(pickle.dumps(buffer))
    assert np.array_equal(copy["b"], buffer["b"])
    with pytest.raises(TypeError):
        buffer.columns["a"] = np.zeros(2)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column"),
        ({"a": []}, "the buffer is empty: column 'a' has no rows"),
        ({"a": [1, 2], "b": [1]}, "same number of rows, but a has 2, b has 1"),
        ({"a": ["x"]}, "column 'a' has dtype <U1"),
        ({"a": [1j]}, "column 'a' has dtype complex128"),
        ({"a": 3.0}, "column 'a' has 0 dimensions"),
        ({"a": np.zeros((2, 2, 2))}, "column 'a' has 3 dimensions"),
        ({"a": [[1], [1, 2]]}, "column 'a' is not a regular array"),
        ({"a": np.array([1.0, "x"], dtype=object)}, r"column 'a' holds 'x' at row 1 \(counting from 0\), .* not a num"),
        ({"a": np.array([[1, 2], [True, 1j]], dtype=object)}, r"column 'a' holds 1j at row 1, feature 1"),
        ({"a": np.array([1.0, None], dtype=object)}, "column 'a' holds nan at row 1"),
        ({"a": np.array([10**400, 1], dtype=object)}, "column 'a' holds 1000.* at row 0"),
        ({"a": np.ma.masked_greater([1.0, 5.0, 6.0], 4.0)}, "'a' has masked entries, the first at row 1"),
        ({"a": [1.0, np.nan]}, "column 'a' holds nan at row 1"),
        ({"a": [[1.0, 2.0], [3.0, -np.inf]]}, "column 'a' holds -inf at row 1, feature 1"),
    ],
)
def test_errors(columns, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer(**columns)


def test_nan_deep_inside_is_found_and_large_finite_values_are_not():
    column = np.ones((300_000, 4))
    column[250_003, 2] = np.nan
    with pytest.raises(mr.InputError, match="holds nan at row 250003, feature 2"):
        mr.Buffer(features=column)
    assert len(mr.Buffer(features=np.full((1000, 4), 1e308))) == 1000  # their sum overflows, they do not


def test_unknown_column():
    with pytest.raises(mr.InputError, match="no column 'c' in this buffer; it has a, b"):
        mr.Buffer(a=[1], b=[2])["c"]
    with pytest.raises(mr.InputError, match=r"buffer\[3\] is neither a column nor a slice"):
        mr.Buffer(a=[1], b=[2])[3]


def test_objects_that_are_numbers():
    mixed = np.array([[1.5, True], [np.float32(2), 0]], dtype=object)  # as from a data frame with a column of booleans
    assert np.array_equal(mr.Buffer(features=mixed)["features"], [[1.5, 1.0], [2.0, 0.0]])
    assert np.array_equal(mr.Buffer(a=np.ma.array([1.0, 2.0]))["a"], [1.0, 2.0])


def test_columns_need_names():
    with pytest.raises(mr.InputError, match=r"columns need names: Buffer\(features=A, targets=y\)"):
        mr.Buffer(np.ones((3, 2)), np.ones(3))


@pytest.mark.parametrize("rows", [slice(10, 20), slice(None, None, 3), slice(-5, None), slice(None, None, -1)])
def test_slices_are_buffers_of_views(rows):
    F = np.random.default_rng(0).standard_normal((40, 3))
    y = np.arange(40.0)
    part = mr.Buffer(features=F, targets=y)[rows]
    assert isinstance(part, mr.Buffer)
    assert len(part) == len(y[rows])
    assert np.array_equal(part["targets"], y[rows])
    assert np.shares_memory(part["features"], F)
    copied = mr.Buffer(features=F[rows].copy(), targets=y[rows].copy())
    assert np.allclose(mr.solve(mr.GLM(), part).x, mr.solve(mr.GLM(), copied).x)
    assert len(pickle.loads(pickle.dumps(part))) == len(part)


def test_a_slice_without_rows():
    with pytest.raises(mr.InputError, match=r"no rows in slice\(40, 50, None\) of this buffer, which has 2"):
        mr.Buffer(a=[1, 2])[40:50]
