"""Columns of other array libraries."""

from __future__ import annotations

import pickle

import array_api_strict
import numpy as np
import pytest
from arrays_of import device_array, strict_array, torch_array

import multireplay as mr
from multireplay.buffer import foreign as arrays
from multireplay.solving.resolve import over_batches as in_lanes


def test_tensors_are_kept_where_they_are():
    torch = pytest.importorskip("torch")
    F = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
    buffer = mr.Buffer(features=F[:-1], next_features=F[1:])
    assert buffer["features"].data_ptr() == F.data_ptr()
    assert buffer[1:]["next_features"].data_ptr() == F[2:].data_ptr()
    assert len(buffer) == 3
    assert repr(buffer).startswith("Buffer(3 rows: features (3, 3) torch.float64")
    assert torch.equal(pickle.loads(pickle.dumps(buffer))["features"], F[:-1])
    weight = torch.ones(3, 2, requires_grad=True)
    assert not mr.Buffer(features=weight * 2)["features"].requires_grad


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float64", "float64"), ("float32", "float32"), ("int32", "float64"), ("uint8", "float64"), ("bool", "bool"),
     ("float16", "float32"), ("bfloat16", "float32")],
)  # fmt: skip
def test_types(given, kept):
    torch = pytest.importorskip("torch")
    column = mr.Buffer(column=torch.ones(3, dtype=getattr(torch, given)))["column"]
    assert column.dtype == getattr(torch, kept)
    if not given.endswith("float16"):
        strict = array_api_strict.ones(3, dtype=getattr(array_api_strict, given))
        assert mr.Buffer(column=strict)["column"].dtype == getattr(array_api_strict, kept)


@pytest.mark.parametrize("library", [torch_array, strict_array, device_array])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": np.zeros(0)}, "the buffer is empty: column 'a' has no rows"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "same number of rows, but a has 2, b has 1"),
        ({"a": [1j]}, "column 'a' has dtype .*complex128; it needs real numbers"),
        ({"a": 3.0}, "column 'a' has 0 dimensions"),
        ({"a": np.zeros((2, 2, 2))}, "column 'a' has 3 dimensions"),
        ({"a": [1.0, np.nan]}, r"column 'a' holds nan at row 1 \(counting from 0\); all values must be finite"),
        ({"a": [[1.0, 2.0], [3.0, -np.inf]]}, "column 'a' holds -inf at row 1, feature 1"),
    ],
)
def test_errors(columns, message, library):
    with pytest.raises(mr.InputError, match=message):
        mr.Buffer(**{name: library(column) for name, column in columns.items()})


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_nan_deep_inside_is_found_and_large_finite_values_are_not(library):
    column = np.ones((300_000, 4))
    column[250_003, 2] = np.nan
    with pytest.raises(mr.InputError, match="holds nan at row 250003, feature 2"):
        mr.Buffer(features=library(column))
    assert len(mr.Buffer(features=library(np.full((1000, 4), 1e308)))) == 1000  # their sum overflows, they do not


@pytest.mark.parametrize("library", [torch_array, device_array])
def test_problems_check_such_columns_as_they_do_those_of_numpy(library):
    F = np.ones((4, 2))
    cases = [
        (mr.GLM("logistic"), {"features": F, "targets": [0.0, 1.0, 2.0, 0.0]}, "'targets' holds 2 at row 2"),
        (mr.GLM(), {"features": F[:, 0], "targets": np.ones(4)}, "'features' needs a row of numbers a sample"),
        (mr.GLM(), {"features": F}, "GLM needs the column targets"),
        (
            mr.PolicyEvaluation(0.5),
            {"features": F, "next_features": F[:, :1], "rewards": np.ones(4)},
            "2 features a row",
        ),
        (
            mr.PolicyEvaluation(0.5),
            {"features": F, "next_features": F, "rewards": np.ones(4), "terminated": np.full(4, 0.5)},
            "column 'terminated' holds 0.5 at row 0",
        ),
    ]
    for problem, columns, message in cases:
        buffer = mr.Buffer(**{name: library(column) for name, column in columns.items()})
        with pytest.raises(mr.InputError, match=message):
            mr.solve(problem, buffer, step=0.1, backend="batched")


@pytest.mark.parametrize("library", [np.asarray, torch_array, device_array])
def test_features_of_booleans_are_zeros_and_ones(library):
    """They were told that they were no real numbers, and texts that booleans would do."""
    F, y = np.random.default_rng(0).random((50, 2)) > 0.5, np.arange(50.0)
    made = mr.Buffer(features=library(F), targets=library(y), terminated=library(F[:, 0]))
    assert (arrays.as_numpy(made["terminated"]).dtype, arrays.as_numpy(made["features"]).dtype) == (bool, float)
    np.testing.assert_allclose(mr.solve(mr.GLM(), made).x, mr.GLM().fit_exactly(mr.Buffer(features=F * 1.0, targets=y)))


def test_what_is_an_array_of_another_library():
    assert not any(map(arrays.is_foreign, [np.ones(2), np.float64(1.0), [1.0], 1.0, None]))
    assert arrays.is_foreign(torch_array([1.0]))
    assert arrays.on_cpu(np.ones(2))
    assert arrays.on_cpu(torch_array([1.0]))
    assert not arrays.on_cpu(device_array([1.0]))
    assert arrays.describe(torch_array([1.0])) == "torch on cpu"


def test_limits_and_lipschitz_constants_are_those_of_numpy():
    """They are worked out where the columns lie, by other means."""
    rng = np.random.default_rng(0)
    F, y = 3 * rng.standard_normal((500, 4)), rng.random(500)
    columns = {"features": F[:-1], "next_features": F[1:], "rewards": y[1:] - 0.5, "targets": y[1:]}
    ends = {"terminated": y[1:] > 0.7, "weights": 1 - y[1:]}
    penalized = mr.GLM("logistic", ridge=0.5, unpenalized=1), mr.PolicyEvaluation(0.9, ridge=2.0)
    for problem in (mr.GLM("exp"), mr.GLM("softplus"), mr.PolicyEvaluation(0.9), *penalized):
        for given in (columns, columns | ends):
            here = problem.samples(problem.columns(mr.Buffer(**given)))
            buffer = mr.Buffer(**{name: device_array(column) for name, column in given.items()})
            batched = in_lanes(problem, buffer, "auto")
            read = batched.columns(buffer)
            there = batched.samples(read)
            assert batched.lipschitz(there) == pytest.approx(problem.lipschitz(here), rel=1e-14)
            for x0 in (np.zeros(4), np.linspace(-1, 1, 4)):
                assert batched.limit(there, x0) == pytest.approx(problem.limit(here, x0), rel=1e-12)
                assert np.allclose(
                    batched.mean_operator(x0, read), problem.mean_operator(x0, problem.columns(mr.Buffer(**given))),
                    rtol=1e-10, atol=1e-13,
                )  # fmt: skip
                taken = batched.mean_operator(x0, {name: column[np.arange(9)] for name, column in read.items()})
                rows = problem.columns(mr.Buffer(**given)[:9])
                assert np.allclose(taken, problem.mean_operator(x0, rows), rtol=1e-10, atol=1e-13)
                loss = problem.loss(x0, problem.columns(mr.Buffer(**given)))
                assert batched.loss(x0, read) == (None if loss is None else pytest.approx(loss, rel=1e-12))
                assert np.allclose(batched.operator(x0, there, 7), problem.operator(x0, here, 7), rtol=1e-12)


@pytest.mark.parametrize("rows", [4096, 5000, 20_001])
def test_products_of_halves(rows, monkeypatch):
    torch = pytest.importorskip("torch")
    left, right = torch.randn(2, rows, 300, generator=torch.Generator().manual_seed(0))
    plain = arrays.crossed(left, left, right)
    assert torch.equal(plain[0], left.T @ left)
    assert torch.equal(plain[1], left.T @ right)
    monkeypatch.setattr(arrays, "multiplies_halves", lambda array: True)
    monkeypatch.setattr(arrays, "product_of_halves", lambda one, other: (one.float().mT @ other.float()).sum(0))
    for found, expected in zip(arrays.crossed(left, left, right), plain, strict=True):
        assert not torch.equal(found, expected)
        assert (found - expected).abs().max() <= 1e-4 * rows
    assert arrays.crossed(left.double(), right.double())[0].dtype == torch.float64


def test_libraries_without_products_of_halves():
    assert not arrays.multiplies_halves(torch_array(np.ones((2, 2))))
    assert not arrays.multiplies_halves(device_array(np.ones((2, 2))))
