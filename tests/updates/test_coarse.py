"""The coarse epoch: rows spread over the record, their fit and their Jacobian, against the same by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.updates.base import Unsuitable
from multireplay.updates.coarse import (
    COARSE,
    PER_COORDINATE,
    Slope,
    coarse_fit,
    coarse_rows,
    coarse_start,
)
from multireplay.updates.measure import slope_at
from multireplay.updates.rank import SlopeIn

SINGLE = 2e-5
"""What single precision leaves of a fit of well-conditioned rows."""


def spread(length, count):
    """One row in each of `count` equal stretches; the place in them moves on by the golden ratio."""
    golden = (5**0.5 - 1) / 2
    ends = [t * length // count for t in range(count + 1)]
    return np.array([ends[t] - 1 - int(t * golden % 1 * (ends[t] - ends[t - 1])) for t in range(1, count + 1)])


def correlated(rows, dim, rng):
    return lfilter([1.0], [1.0, -0.7], rng.standard_normal((rows, dim)), axis=0)


def instance(name, rows=20_000, dim=4, seed=0):
    rng = np.random.default_rng(seed)
    A = correlated(rows + 1, dim, rng)
    scores = A[:-1] @ rng.standard_normal(dim) / dim
    if name == "policy evaluation":
        rewards = scores + rng.standard_normal(rows)
        return mr.PolicyEvaluation(0.9), mr.Buffer(features=A[:-1], next_features=A[1:], rewards=rewards)
    y = {
        "identity": lambda: scores + rng.standard_normal(rows),
        "logistic": lambda: (rng.random(rows) < 1 / (1 + np.exp(-scores))).astype(float),
        "exp": lambda: rng.poisson(np.exp(scores)).astype(float),
    }[name]()
    return mr.GLM(name), mr.Buffer(features=A[:-1], targets=y)


NAMES = ["identity", "logistic", "exp", "policy evaluation"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_fit_of_rows_spread_over_the_record(name):
    problem, buffer = instance(name)
    record = as_record(problem, buffer)
    found = coarse_fit(record, np.zeros(4))
    part = mr.Buffer(**{key: column[spread(20_000, COARSE)] for key, column in buffer.columns.items()})
    exact = problem.fit_exactly(part)
    columns = problem.columns(part)
    noise = mr.solve(problem, part, update=mr.Exact()).standard_error
    assert found.rows == COARSE
    assert (np.abs(found.x - exact) < (SINGLE if problem.is_linear else 0.2) * noise + SINGLE).all()
    J = problem.jacobian(found.x, columns)
    assert np.allclose(found.slope.full, J, rtol=0.1 if not problem.is_linear else SINGLE, atol=0.02 * np.abs(J).max())
    assert found.slope.dependable


def test_how_many_rows():
    A = np.zeros((200_000, 3))
    for rows, dim, count in ((100, 3, 100), (200_000, 3, COARSE), (200_000, 2000, PER_COORDINATE[True] * 2000)):
        features = scipy.sparse.csr_array((rows, dim)) if dim > 3 else A[:rows]
        record = as_record(mr.GLM(), mr.Buffer(features=features, targets=np.zeros(rows)))
        assert coarse_rows(record) == count


@pytest.mark.parametrize("name", NAMES)
def test_the_halves_tell_how_much_of_an_error_may_survive(name):
    """Over records of one kind, ‖J⁻¹(J′ − J)‖ between the coarse Jacobian and that of all rows is about the rate."""
    rates, truth = [], []
    for seed in range(6):
        problem, buffer = instance(name, rows=40_000, seed=seed, dim=8)
        record = as_record(problem, buffer)
        found = coarse_fit(record, np.zeros(8))
        rates.append(found.rate)
        scale = found.slope.scale
        whole = scale[:, None] * problem.jacobian(found.x, problem.columns(buffer)) * scale
        truth.append(np.linalg.norm(np.linalg.solve(found.slope.factors.whole.astype(float), whole) - np.eye(8), 2))
    assert 0.3 < np.median(rates) / np.median(truth) < 3


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_a_slope_is_the_inverse(symmetric, precision):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 6))
    B = A if symmetric else A - 0.5 * rng.standard_normal((50, 6))
    J, scale = A.T @ B / 50, 10.0 ** rng.uniform(-3, 3, 6)
    matrix = J.astype(precision) if not symmetric else ((J + J.T) / 2).astype(precision)
    slope = Slope(matrix, scale)
    unscaled = matrix.astype(float) / scale[:, None] / scale
    values = rng.standard_normal((3, 6))
    expected = np.linalg.solve(unscaled, values.T).T
    assert np.allclose(slope.solve(values), expected, rtol=1e-3 if precision == np.float32 else 1e-9)
    assert np.allclose(slope.full, unscaled)
    assert np.allclose(slope.divide(values.T, transposed=True), np.linalg.solve(matrix.T, values.T), rtol=1e-3)
    assert slope.dependable
    assert slope.condition == pytest.approx(1 / np.linalg.cond(matrix, 1), rel=0.5)
    fewer = Slope(matrix, scale, rows=60)
    assert np.allclose(fewer.solve(values), slope.solve(values) * (1 - 6 / 60))


def test_a_singular_slope_is_not_dependable():
    for matrix in (np.ones((2, 2)), np.array([[1.0, 2.0], [0.5, 1.0]]), np.full((2, 2), np.inf), -np.eye(3)):
        with np.errstate(all="ignore"):
            assert not Slope(matrix, np.ones(len(matrix))).dependable or (matrix == -np.eye(3)).all()


def test_a_slope_on_some_directions_is_the_inverse_there():
    rng = np.random.default_rng(0)
    J = rng.standard_normal((5, 5)) + 4 * np.eye(5)
    B = rng.standard_normal((5, 3))
    slope = SlopeIn(B.T @ J @ B, B)
    values = rng.standard_normal((2, 5))
    expected = values @ B @ np.linalg.inv(B.T @ J @ B).T @ B.T
    assert np.allclose(slope.solve(values), expected)
    assert np.allclose(slope.images(values @ B), expected)
    assert np.allclose(slope.images(values @ B, inside=True) @ B.T, expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_slope_at_a_point_and_the_point_to_begin_at(name):
    problem, buffer = instance(name, rows=12_000)
    record = as_record(problem, buffer)
    exact = problem.fit_exactly(buffer)
    J = problem.jacobian(exact, problem.columns(buffer))
    assert np.allclose(slope_at(record, exact).full, J, rtol=0.1, atol=0.1 * np.abs(J).max())
    start = coarse_start(record, np.zeros(4))
    assert problem.is_linear or np.abs(start - exact).max() < 0.2 * np.abs(exact).max()


def test_what_the_rows_do_not_settle_is_refused():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20_000, 3))
    y = (rng.random(20_000) < 0.5).astype(float)
    late = A.copy()
    late[:, 1] = 0.0
    late[np.setdiff1d(np.arange(20_000), spread(20_000, COARSE))[0], 1] = 1.0
    for features, about in (
        (A[:, [0, 1, 0]], "combinations of others"),
        (late, "1 of 3 features are 0 in all of 8192"),
    ):
        for link in ("identity", "logistic"):
            record = as_record(mr.GLM(link), mr.Buffer(features=features, targets=y))
            with pytest.raises(Unsuitable, match=about):
                coarse_fit(record, np.zeros(3))
    with pytest.raises(Unsuitable, match="no coarse epoch"):
        coarse_fit(as_record(mr.GLM(), mr.Buffer(features=A[:1], targets=y[:1])), np.zeros(3))


def test_double_precision_where_single_is_not_enough():
    """Two columns are the same to three and a half digits, and seven of their second moments' digits are lost."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(20_000), rng.uniform(1999, 2001, 20_000)])
    y = A @ [1.0, 0.1] + rng.standard_normal(20_000)
    found = coarse_fit(as_record(mr.GLM(), mr.Buffer(features=A, targets=y)), np.zeros(2))
    assert found.slope.factors.kind == np.float64
    assert found.slope.dependable
    rows = spread(20_000, COARSE)
    assert np.allclose(found.x, np.linalg.lstsq(A[rows], y[rows], rcond=None)[0], rtol=1e-3)
