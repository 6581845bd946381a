"""Directions that a stream says nothing of: no interval for a coordinate, and one for what is known together."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.streaming.fitting import divided, free_directions


def rows_of(kind, rows=3000, seed=0):
    """Rows, and the columns that they do not settle."""
    rng = np.random.default_rng(seed)
    a, one, other = 20 + 5 * rng.standard_normal(rows), np.ones(rows), rng.standard_normal(rows)
    full = np.eye(3)[rng.integers(0, 3, rows)]
    made, lost = {
        "twins": (np.c_[one, a, a, other], [1, 2]),
        "Celsius and Fahrenheit": (np.c_[one, a, 32 + 1.8 * a, other], [0, 1, 2]),
        "two constants": (np.c_[one, 2 * one, a, other], [0, 1]),
        "all categories": (np.c_[full, one, other], [0, 1, 2, 3]),
        "never": (np.c_[one, a, 0 * a, other], [2]),
        "two pairs": (np.c_[a, other, 3 * other, one, a], [0, 1, 2, 4]),
        "nearly": (np.c_[one, a, a + 1e-4 * rng.standard_normal(rows), other], []),
    }[kind]
    return made, lost, a + rng.standard_normal(rows)


KINDS = ["twins", "Celsius and Fahrenheit", "two constants", "all categories", "never", "two pairs", "nearly"]


@pytest.mark.parametrize("link", ["identity", "logistic", "exp", "values"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_stream_does_not_settle_has_no_interval(kind, link):
    """Intervals of it were short, and not marked."""
    A, lost, y = rows_of(kind)
    problem, y = mr.GLM("identity" if link == "values" else link), {"exp": np.abs(y), "logistic": y > 20}.get(link, y)
    columns = {"features": A, "targets": y * 1.0}
    if link == "values":
        problem, columns = mr.PolicyEvaluation(0.5), {"features": A[:-1], "next_features": A[1:], "rewards": y[:-1]}
    stream = mr.Stream(problem)
    stream.observe_many(columns)
    found = stream.result()
    assert np.flatnonzero(np.isinf(found.standard_error)).tolist() == lost
    assert [row["mark"] == "the record says nothing of it" for row in found.summary().rows] == [
        i in lost for i in range(A.shape[1])
    ]
    spare = {"all categories": [3], "two pairs": [2, 4], "nearly": []}.get(kind, lost[-1:])
    columns = {name: np.delete(c, spare, 1) if c.ndim == 2 else c for name, c in columns.items()}
    other = mr.Stream(problem)
    other.observe_many(columns)
    wanted = other.result().interval(of=columns["features"][:5])
    assert np.allclose(found.interval(of=A[:5]), wanted, rtol=1e-5)


def test_an_estimator_says_so_in_the_units_of_its_features():
    A, _, y = rows_of("Celsius and Fahrenheit", rows=4000)
    model = mr.MERRegressor(alpha=0, capacity=512)
    for start in range(0, 4000, 500):
        model.partial_fit(A[start : start + 500, 1:], y[start : start + 500])
    assert np.isinf(model.coef_se_).tolist() == [True, True, False]
    fitted, low, high = model.predict_interval(A[:5, 1:])
    assert (low < fitted).all()
    assert (high < low + 1).all()


def test_what_closes_a_matrix_changes_no_other_answer():
    A = rows_of("two pairs")[0]
    matrix, right = A.T @ A, A.T @ np.arange(3000.0)
    free, closing = free_directions(matrix)
    assert free.shape == (2, 5)
    assert np.abs(matrix @ free.T).max() < 1e-9 * np.abs(matrix).max()
    assert np.allclose(A @ np.linalg.solve(matrix + closing, right), A @ divided(matrix, right))
    assert np.allclose(divided(matrix, right), np.linalg.lstsq(A, np.arange(3000.0), rcond=1e-8)[0])
    free, closing = free_directions(np.diag([1e-9, 1.0, 1e9]))
    assert free.shape == (0, 3)
    assert not closing.any()
