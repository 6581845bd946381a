"""Exact fits in any units, refused only where there is none; of sparse and indexed records as of the dense ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from scipy import optimize
from scipy.stats import norm
from sparse_records import regression, transitions

import multireplay as mr
from multireplay import sets
from multireplay.problems import exact, residual
from multireplay.problems.exact import extragradient

UNITS = np.array([1.0, 1e6, 1e-6])


def data(link, rows=2000):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, 3))
    z = A @ [0.5, -0.7, 0.2]
    y = (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(float) if link == "logistic" else z + rng.standard_normal(rows)
    return A, y


def fit(link, A, y, ridge=0.0):
    return mr.GLM(link).fit_exactly(mr.Buffer(features=A, targets=y), ridge=ridge)


@pytest.mark.parametrize(
    ("features", "targets"), [(1e-6, 1e-6), (1e-10, 1.0), (1e10, 1e-20), (1.0, 1e-300), (1e150, 1)]
)
def test_least_squares_in_any_units(features, targets):
    A, y = data("identity")
    assert np.allclose(fit("identity", A * features, y * targets) * (features / targets), fit("identity", A, y), 1e-12)


@pytest.mark.parametrize("units", [1e-10, 1e10, UNITS])
def test_logistic_in_any_units(units):
    A, y = data("logistic")
    assert np.allclose(fit("logistic", A * units, y) * units, fit("logistic", A, y), rtol=1e-10)


def test_ridge_is_a_penalty_on_x_in_its_own_units():
    A, y = data("identity")
    A = A * UNITS
    found = fit("identity", A, y, ridge=0.1)
    assert np.allclose(found, np.linalg.solve(A.T @ A / len(A) + 0.1 * np.eye(3), A.T @ y / len(A)), rtol=1e-9)
    for wrong in (-1.0, np.nan, np.inf, "a"):
        with pytest.raises(mr.InputError, match="ridge must be a number of at least 0"):
            fit("identity", A, y, ridge=wrong)


@pytest.mark.parametrize("mean", [1e-30, 1e-7, 1e-3, 1e15])
def test_a_poisson_mean_of_any_size(mean):
    found = fit("exp", np.ones((50, 1)), np.full(50, mean))
    assert found[0] == pytest.approx(np.log(mean), rel=1e-10)


@pytest.mark.parametrize("p", [1e-20, 1e-9, 0.5, 1 - 1e-9])
def test_a_probability_close_to_0_or_1(p):
    assert fit("logistic", np.ones((50, 1)), np.full(50, p))[0] == pytest.approx(np.log(p / (1 - p)), rel=1e-7)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("case", ["ones", "zeros", "separable", "in other units", "one column", "wide margin"])
def test_what_runs_off_to_infinity_is_refused(link, case):
    A, y = data("logistic")
    features, targets = {
        "ones": (np.ones((50, 1)), np.ones(50)),
        "zeros": (np.ones((50, 1)), np.zeros(50)),
        "separable": (A, A[:, 0] > 0),
        "in other units": (A * UNITS, A[:, 1] > 0),
        "one column": (np.c_[A, A[:, 0] > 2], (A[:, 0] > 2) | (y > 0)),
        "wide margin": (5 * np.sign(A[:, :1]) + 0.01 * A[:, :1], A[:, 0] > 0),
    }[case]
    with pytest.raises(mr.InputError, match="may be separable"):
        fit(link, features, targets)
    assert np.isfinite(fit(link, features, targets, ridge=1e-3)).all()


def test_probit_is_the_root_of_its_equation_and_not_maximum_likelihood():
    """Which has weights f'/(f(1 − f)): with targets of a probit model the two are close, and not the same."""
    rng = np.random.default_rng(31)
    A = np.column_stack([rng.standard_normal((2000, 2)), np.ones(2000)])
    y = (A @ [1.5, -1.0, 0.5] + rng.standard_normal(2000) > 0).astype(float)
    buffer = mr.Buffer(features=A, targets=y)
    equation = optimize.root(lambda x: A.T @ (norm.cdf(A @ x) - y) / 2000, np.zeros(3), tol=1e-12)
    result, likeliest = mr.solve(mr.GLM("probit"), buffer), sm.Probit(y, A).fit(disp=False, tol=1e-12)
    assert result.x == pytest.approx(equation.x, abs=1e-7)
    assert mr.GLM("probit").fit_exactly(buffer) == pytest.approx(equation.x, abs=1e-7)
    away = np.abs(result.x - likeliest.params) / likeliest.bse
    assert 0.01 < away.max() < 2.0


def test_counts_of_zero_have_no_fit():
    with pytest.raises(mr.InputError, match="no exact fit was found"):
        fit("exp", np.ones((50, 1)), np.zeros(50))


def test_a_root_at_the_start_and_features_that_repeat():
    A, y = data("logistic")
    assert np.array_equal(fit("logistic", np.r_[A, A], np.r_[y, 1 - y]), np.zeros(3))
    once, twice = fit("logistic", A, y), fit("logistic", np.c_[A, A[:, 0]], y)
    assert np.allclose(twice, [once[0] / 2, once[1], once[2], once[0] / 2])
    assert np.allclose(fit("identity", A * [1, 0, 1], y)[1], 0)


@pytest.mark.parametrize("units", [1e-6, 1.0, 1e6])
def test_a_constrained_fit_in_any_units(units):
    A, y = data("identity")
    ball = mr.GLM(constraint=mr.sets.Ball(0.3)).fit_exactly(mr.Buffer(features=A, targets=y))
    small = mr.GLM(constraint=mr.sets.Ball(0.3 / units)).fit_exactly(mr.Buffer(features=A * units, targets=y))
    assert np.allclose(small * units, ball, rtol=1e-8)
    tiny = mr.GLM(constraint=mr.sets.Ball(0.3 * units)).fit_exactly(mr.Buffer(features=A, targets=y * units))
    assert np.allclose(tiny / units, ball, rtol=1e-8)


def test_a_constrained_fit_without_data():
    simplex = mr.sets.Simplex()
    assert np.allclose(extragradient(lambda x: 0 * x, simplex, np.zeros(2), 0.0), 0.5)
    nothing = np.zeros((5, 2))
    problem = mr.PolicyEvaluation(0.5, constraint=simplex)
    buffer = mr.Buffer(features=nothing, next_features=nothing, rewards=np.ones(5), targets=np.ones(5))
    assert np.allclose(problem.fit_exactly(buffer), 0.5)
    assert np.allclose(mr.GLM(constraint=simplex).fit_exactly(buffer), 0.5)


LINKS = ["identity", "logistic", "exp", "softplus"]


@pytest.fixture(params=["dense algebra", "iteration"])
def way(request, monkeypatch):
    if request.param == "iteration":
        monkeypatch.setattr(residual, "DENSE", 3)


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
    monkeypatch.setattr(exact, "PATIENCE", 3)
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(rng.standard_normal((20, 20)))
    with pytest.raises(
        mr.InputError, match=r"20 sparse features are solved by iteration, and 3 steps did not do; .*ridge"
    ):
        exact.least_norm(matrix, rng.standard_normal(20))


def test_the_largest_singular_value():
    matrix = np.random.default_rng(0).standard_normal((30, 20))
    assert exact.spectral_norm(sp.csr_array(matrix)) == pytest.approx(np.linalg.norm(matrix, 2))


@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
@pytest.mark.parametrize("apart", [1e-5, 1e-7, 1e-10, 0.0])
def test_features_that_are_all_but_combinations_of_others(link, apart):
    """As `solve` finds it: from 1e-7 on these were once refused as separable."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 4))
    A = np.column_stack([A[:, :3], A[:, 0] + A[:, 1] + apart * A[:, 3], np.zeros(2000)])
    problem, buffer = mr.GLM(link), mr.Buffer(features=A, targets=rng.integers(0, 2, 2000).astype(float))
    result = mr.solve(problem, buffer)
    known = np.isfinite(result.standard_error)
    x = problem.fit_exactly(buffer)
    assert (np.abs(x - result.x)[known] < 1e-3 * result.standard_error[known]).all()
    assert np.allclose(x[~known], result.x[~known], atol=1e-8)


@pytest.mark.parametrize("apart", [1e-7, 0.0])
def test_policy_evaluation_with_such_features(apart):
    """A feature that is seen only as the next one has no part either."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2001, 3))
    A = np.column_stack([A[:, :2], A[:, 0] + apart * A[:, 2], np.zeros(2001)])
    following = A[1:] + np.eye(4)[3]
    buffer = mr.Buffer(features=A[:-1], next_features=following, rewards=rng.standard_normal(2000))
    problem = mr.PolicyEvaluation(0.9)
    x, result = problem.fit_exactly(buffer), mr.solve(problem, buffer)
    known = np.isfinite(result.standard_error)
    assert (np.abs(x - result.x)[known] < 1e-3 * result.standard_error[known]).all()
    assert np.allclose(x[~known], result.x[~known], atol=1e-8)
    assert x[3] == pytest.approx(0, abs=1e-12)
    nothing = mr.Buffer(features=np.zeros((5, 2)), next_features=np.zeros((5, 2)), rewards=np.ones(5))
    assert problem.fit_exactly(nothing).tolist() == [0.0, 0.0]
