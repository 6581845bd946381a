"""What regression and policy evaluation share: sums over blocks of rows, whatever the features are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_records import regression, transitions

import multireplay as mr

RIDGED = {"ridge": 0.3, "unpenalized": 1}


def weighted():
    pair = regression("identity", rows=200, dim=6)
    _, buffer = pair["dense"]
    weights = np.random.default_rng(1).random(200)
    return mr.GLM(**RIDGED), mr.Buffer(**buffer.columns, weights=weights)


def ended():
    _, buffer = transitions(rows=200, dim=6)["dense"]
    columns = {**buffer.columns, "terminated": np.arange(200) % 7 == 0}
    return mr.PolicyEvaluation(0.9, **RIDGED), mr.Buffer(**columns)


def every_linear_problem():
    yield from regression("identity", rows=200, dim=6).values()
    yield from transitions(rows=200, dim=6).values()
    yield weighted()
    yield ended()


LINEAR = list(every_linear_problem())


def part(columns, start, stop):
    return {name: column[start:stop] for name, column in columns.items()}


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_moments_are_the_linear_operator(problem, buffer):
    columns = problem.columns(buffer)
    dim = problem.dim(columns)
    matrix, vector = problem.moments(columns)
    points = np.random.default_rng(0).standard_normal((3, dim))
    slope = matrix / len(buffer) + np.diag(problem.penalty_diagonal(dim))
    expected = points @ slope.T - vector / len(buffer)
    assert np.allclose(problem.mean_operators(points, columns), expected, rtol=1e-12, atol=1e-13)
    assert np.allclose(problem.jacobian(points[0], columns), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_moments_of_blocks_add_up(problem, buffer):
    columns = problem.columns(buffer)
    parts = [problem.moments(part(columns, start, stop)) for start, stop in ((0, 1), (1, 90), (90, 200))]
    matrix, vector = problem.moments(columns)
    assert np.allclose(sum(one for one, _ in parts), matrix, rtol=1e-12, atol=1e-12)
    assert np.allclose(sum(one for _, one in parts), vector, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("problem", "buffer"), LINEAR)
def test_an_exact_fit_solves_the_system_of_the_moments(problem, buffer):
    columns = problem.columns(buffer)
    matrix, vector = problem.moments(columns)
    x = problem.fit_exactly(buffer, ridge=0.2)
    left = (matrix / len(buffer) + np.diag(0.2 + problem.penalty_diagonal(len(x)))) @ x - vector / len(buffer)
    assert np.abs(left).max() < 1e-12


def test_what_is_not_linear_has_no_moments():
    rows = np.ones((4, 2))
    regressions = mr.Buffer(features=rows, targets=np.ones(4))
    for problem in (mr.GLM("logistic"), mr.GLM("exp"), mr.GLM(lambda z: z)):
        assert problem.moments(problem.columns(regressions)) is None
    own = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    assert own.moments(own.columns(mr.Buffer(samples=rows))) is None
    assert own.penalty_diagonal(2).tolist() == [0, 0]


def test_the_matrix_of_very_many_sparse_features_stays_sparse():
    features = sp.random_array((50, 2500), density=0.01, rng=np.random.default_rng(0), format="csr")
    for problem, columns in (
        (mr.GLM(), {"features": features, "targets": np.ones(50)}),
        (mr.PolicyEvaluation(0.5), {"features": features, "next_features": features, "rewards": np.ones(50)}),
    ):
        matrix, vector = problem.moments(problem.columns(mr.Buffer(**columns)))
        assert sp.issparse(matrix)
        assert np.allclose(vector, features.sum(axis=0))
