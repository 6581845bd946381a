"""Dividing by a Jacobian of samples without working it out."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.buffer.record import MemoryRecord
from multireplay.updates import products
from multireplay.updates.products import EVEN, LESS, Products
from multireplay.updates.samples import Samples


def logistic(rows, dim, seed, correlation=0.0):
    """Independent features, but for the first two, and outcomes of a logistic model."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, dim), dtype=np.float32).astype(np.float64)
    A[:, 1] = correlation * A[:, 0] + np.sqrt(1 - correlation**2) * A[:, 1]
    x = rng.standard_normal(dim) / np.sqrt(dim)
    return A, (rng.random(rows) < 1 / (1 + np.exp(-A @ x))).astype(float), x


def samples_of(A, y, **problem):
    record = MemoryRecord(mr.GLM("logistic", **problem), {"features": A, "targets": y})
    return Samples.spread(record, len(A), np.float32)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_products_divide_as_the_matrix_does(ridge):
    A, y, x = logistic(3000, 80, seed=1)
    found = Products(samples_of(A, y, ridge=ridge), x)
    matrix = found.whole.astype(np.float64)
    V = np.random.default_rng(2).standard_normal((80, 3))
    np.testing.assert_allclose(found.times(V.astype(np.float32)), matrix @ V, rtol=1e-3, atol=1e-4)
    wrong = found.divide(V) - np.linalg.solve(matrix, V)
    energy, left = ((v * (matrix @ v)).sum(axis=0) for v in (np.linalg.solve(matrix, V), wrong))
    assert (left <= LESS**2 * energy).all()
    values = np.linalg.eigvalsh(matrix)
    assert found.condition == pytest.approx(values[0] / values[-1], rel=0.1)
    assert found.mean == pytest.approx(values.mean(), rel=0.2)


@pytest.mark.parametrize(("correlation", "even"), [(0.0, True), (0.95, False)])
def test_one_pair_of_features_among_many_is_seen(correlation, even):
    A, y, x = logistic(8 * 1100, 1100, seed=3, correlation=correlation)
    assert (Products(samples_of(A, y), x).condition > EVEN) is even


def test_answers_and_standard_errors_are_those_of_the_matrix(monkeypatch):
    A, y, _ = logistic(20_000, 96, seed=4)
    buffer = mr.Buffer(features=A, targets=y)
    exact = mr.GLM("logistic").fit_exactly(buffer)
    with_matrix = mr.solve(mr.GLM("logistic"), buffer, update=mr.Newton())
    monkeypatch.setattr(products, "WIDER", 64)
    result = mr.solve(mr.GLM("logistic"), buffer, update=mr.Newton())
    assert not np.array_equal(result.x, with_matrix.x)  # another way
    assert result.converged
    assert np.abs((result.x - exact) / result.standard_error).max() < 0.1
    np.testing.assert_allclose(result.standard_error, with_matrix.standard_error, rtol=0.02)
