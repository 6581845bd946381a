"""Exact fits of sparse and indexed records against the dense ones, by dense algebra and by iteration."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sparse_records import regression, transitions

import multireplay as mr
from multireplay import sets
from multireplay.problems import sparse_exact

LINKS = ["identity", "logistic", "exp", "softplus"]


@pytest.fixture(params=["dense algebra", "iteration"])
def way(request, monkeypatch):
    if request.param == "iteration":
        monkeypatch.setattr(sparse_exact, "DENSE", 3)


def fits(pair, names, ridge):
    return [problem.fit_exactly(buffer, ridge=ridge) for problem, buffer in (pair[name] for name in names)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_regression(link, ridge):
    pair = regression(link, rows=300, dim=8)
    dense, sparse = fits(pair, ["dense", "sparse"], ridge)
    assert np.allclose(sparse, dense, rtol=1e-9, atol=1e-12)
    assert abs(sparse[4]) < 1e-15  # the empty column


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("name", ["sparse", "table", "sparse table"])
def test_policy_evaluation(name, ridge):
    pair = transitions(rows=500, dim=8, states=30)
    dense, other = fits(pair, ["dense", name], ridge)
    assert np.allclose(other, dense, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("feasible", [sets.Ball(0.3), sets.Simplex(), sets.Box(-0.1, 0.2)])
def test_on_a_set(feasible):
    for pair in (
        regression("logistic", rows=300, dim=8, constraint=feasible),
        transitions(rows=300, dim=8, constraint=feasible),
    ):
        dense, *others = fits(pair, list(pair), 0.0)
        for other in others:
            assert np.allclose(other, dense, rtol=1e-7, atol=1e-8)


@pytest.mark.usefixtures("way")
def test_separable_data_are_said_to_be():
    A = sp.csr_array(np.eye(8)[np.arange(64) % 8])
    y = (np.arange(64) % 8 < 4).astype(float)
    with pytest.raises(mr.InputError, match="no exact fit was found"):
        mr.GLM("logistic").fit_exactly(mr.Buffer(features=A, targets=y))
    assert np.isfinite(mr.GLM("logistic").fit_exactly(mr.Buffer(features=A, targets=y), ridge=0.1)).all()


@pytest.mark.usefixtures("way")
def test_units_do_not_matter():
    pair = regression("logistic", rows=300, dim=8)
    problem, buffer = pair["sparse"]
    units = 10.0 ** np.arange(-12, 12, 3)
    scaled = mr.Buffer(features=sp.csr_array(buffer["features"].toarray() * units), targets=buffer["targets"])
    assert np.allclose(problem.fit_exactly(scaled) * units, problem.fit_exactly(buffer), rtol=1e-8)


def test_thousands_of_states_by_iteration():
    """More states than are made dense; those never visited have value 0, the shortest solution."""
    rng = np.random.default_rng(0)
    s = np.cumsum(rng.integers(-3, 5, 40_001)) % 2500
    r = rng.standard_normal(40_000)
    problem = mr.PolicyEvaluation(0.9, table=sp.eye_array(3000, format="csr"))
    x = problem.fit_exactly(mr.Buffer(states=s[:-1], next_states=s[1:], rewards=r))
    assert not x[2500:].any()
    followed = r + 0.9 * x[s[1:]]
    backed_up = np.bincount(s[:-1], followed, 2500) / np.bincount(s[:-1], minlength=2500)
    assert np.allclose(x[:2500], backed_up, rtol=1e-9, atol=1e-9)


def test_a_system_that_iteration_cannot_solve_is_said(monkeypatch):
    monkeypatch.setattr(sparse_exact, "PATIENCE", 3)
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(rng.standard_normal((20, 20)))
    with pytest.raises(
        mr.InputError, match=r"20 sparse features are solved by iteration, and 3 steps did not do; .*ridge"
    ):
        sparse_exact.least_norm(matrix, rng.standard_normal(20))


def test_the_largest_singular_value():
    matrix = np.random.default_rng(0).standard_normal((30, 20))
    assert sparse_exact.spectral_norm(sp.csr_array(matrix)) == pytest.approx(np.linalg.norm(matrix, 2))
