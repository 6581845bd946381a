"""What the default once got wrong without a word, and data of kinds that were never tried."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

import multireplay as mr


def off(problem, buffer, **options):
    """How far the default is from the exact fit, in standard errors there, having said that it finished."""
    result = mr.solve(problem, buffer, holdout=None, **options)
    assert result.converged, str(result.status)
    assert result.status.code == "finished"
    exact = mr.solve(problem, buffer, update=mr.Exact(), holdout=None)
    assert exact.converged
    return float(np.nanmax(np.abs(result.x - exact.x) / exact.standard_error))


def logistic(A, coefficients, rng):
    y = (rng.random(len(A)) < expit(A @ coefficients)).astype(float)
    return mr.GLM("logistic"), mr.Buffer(features=A, targets=y)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 9])
def test_rare_events(seed):
    """One in a thousand rows: once up to 29 standard errors off."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(400_000), rng.standard_normal((400_000, 4))])
    problem, buffer = logistic(A, [-6.9, 0.5, -0.5, 0.3, 0.0], rng)
    result, exact = (mr.solve(problem, buffer, update=update) for update in (None, mr.Exact()))
    assert result.converged
    assert result.status.code == "finished"
    assert exact.converged
    assert (np.abs(result.x - exact.x) < 0.1 * exact.standard_error).all()
    assert np.allclose(result.standard_error, exact.standard_error, rtol=0.3)


@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_a_rare_feature(link):
    """A binary one, in 1 of 5000 rows: once 6.9 standard errors off."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(100_000), rng.standard_normal((100_000, 2)), rng.random(100_000) < 1 / 5000])
    scores = A @ [-1.0, 0.3, -0.3, 1.0]
    y = {
        "identity": lambda: scores + rng.standard_normal(100_000),
        "logistic": lambda: (rng.random(100_000) < expit(scores)).astype(float),
        "exp": lambda: rng.poisson(np.exp(scores)).astype(float),
    }[link]()
    problem, buffer = mr.GLM(link), mr.Buffer(features=A, targets=y)
    assert off(problem, buffer) < 0.1
    assert np.allclose(mr.solve(problem, buffer).x, problem.fit_exactly(buffer), atol=0.02)


@cache
def cliff(rows=20_000, seed=0):
    """A walk along a row of cells that costs 1 a step, with the far end terminal."""
    rng = np.random.default_rng(seed)
    states, following, ended, state = [], [], [], 0
    for _ in range(rows):
        after = max(0, state + (1 if rng.random() < 0.55 else -1))
        states.append(state)
        following.append(after)
        ended.append(after == 11)
        state = 0 if after == 11 else after
    return mr.Buffer(states=states, next_states=following, rewards=np.full(rows, -1.0), terminated=np.array(ended))


@pytest.mark.parametrize("gamma", [0.9, 0.999, 1.0])
@pytest.mark.parametrize("cells", [12, 40])
def test_one_hot_states_far_from_the_end(gamma, cells):
    """Once +45060 for a state worth −8891: values are between −1/(1 − γ) and 0, and LSTD's on the states visited."""
    buffer = cliff()
    problem = mr.PolicyEvaluation(gamma, table=np.eye(cells))
    result = mr.solve(problem, buffer)
    P, visits = np.zeros((11, 11)), np.bincount(buffer["states"], minlength=11)
    for s, t, end in zip(buffer["states"], buffer["next_states"], buffer["terminated"], strict=True):
        if not end:
            P[s, t] += 1
    values = np.linalg.solve(np.eye(11) - gamma * P / visits[:, None], -np.ones(11))
    assert result.converged
    assert np.allclose(result.x[:11], values, rtol=1e-8)
    assert (result.x[11:] == 0).all()
    assert result.free == tuple((cell,) for cell in range(11, cells))


@pytest.mark.parametrize("period", [7, 24, 64, 168, 1024])
@pytest.mark.parametrize("link", ["identity", "logistic"])
@pytest.mark.parametrize("backend", ["auto", "batched"])
def test_periods_that_divide_the_record(period, link, backend):
    rng = np.random.default_rng(0)
    rows = 43_008  # 7 · 6 · 1024
    phase = np.arange(rows) % period
    A = np.column_stack([np.ones(rows), phase == 0, np.sin(2 * np.pi * phase / period), rng.standard_normal(rows)])
    scores = A @ [-0.5, 2.0, 1.0, -0.5]
    y = scores + rng.standard_normal(rows) if link == "identity" else (rng.random(rows) < expit(scores)) * 1.0
    assert off(mr.GLM(link), mr.Buffer(features=A, targets=y), backend=backend) < 0.15


@pytest.mark.parametrize("rows", [8191, 8192, 8193, 16_385, 32_767, 32_768, 32_769, 40_000])
def test_record_lengths_around_those_of_the_coarse_epoch(rows):
    rng = np.random.default_rng(rows)
    A = np.column_stack([np.ones(rows), rng.standard_normal((rows, 3))])
    assert off(*logistic(A, [-1.0, 0.5, 0.5, 0.0], rng)) < 0.1
    drift = A * np.linspace(0.1, 3, rows)[:, None]
    assert off(*logistic(drift, [-1.0, 0.5, 0.5, 0.0], rng)) < 0.1


KINDS = {
    "drifting": lambda A, rng: A + np.linspace(0, 3, len(A))[:, None],
    "late": lambda A, rng: A * (np.arange(len(A))[:, None] > len(A) * np.array([0.0, 0.5, 0.9])),
    "duplicates": lambda A, rng: np.repeat(A[: len(A) // 10], 10, axis=0),
    "integers": lambda A, rng: np.round(2 * A),
    "scales": lambda A, rng: A * [1e-8, 1.0, 1e8],
    "far from 0": lambda A, rng: np.column_stack([np.ones(len(A)), A[:, 1:] + 100]),
    "collinear but for 1e-3": lambda A, rng: np.column_stack([A[:, 0], A[:, 0] + 1e-3 * A[:, 1], A[:, 2]]),
    "float32": lambda A, rng: A.astype(np.float32),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
def test_data_of_many_kinds(kind, link):
    rng = np.random.default_rng(0)
    A = KINDS[kind](rng.standard_normal((40_000, 3)), rng)
    sizes = np.sqrt(np.mean(A.astype(float) ** 2, axis=0))
    scores = A @ ([0.5, -0.3, 0.2] / sizes)
    y = {
        "identity": lambda: scores + rng.standard_normal(40_000),
        "logistic": lambda: (rng.random(40_000) < expit(scores)).astype(float),
        "exp": lambda: rng.poisson(np.exp(scores)).astype(float),
    }[link]()
    assert off(mr.GLM(link), mr.Buffer(features=A, targets=y)) < 0.15


@pytest.mark.parametrize("link", ["logistic", "exp"])
def test_weights_some_of_them_0(link):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40_000, 3))
    weights = rng.exponential(size=40_000) * (rng.random(40_000) < 0.5)
    y = (rng.random(40_000) < expit(A[:, 0])).astype(float)
    problem, buffer = mr.GLM(link), mr.Buffer(features=A, targets=y, weights=weights)
    assert off(problem, buffer) < 0.1
    kept = weights > 0
    alone = mr.Buffer(features=A[kept], targets=y[kept], weights=weights[kept])
    assert np.allclose(mr.solve(problem, buffer, update=mr.Exact()).x, problem.fit_exactly(alone), atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_few_rows(rows):
    """As many rows as coordinates, or more: the solution of the system, or least squares."""
    for dim in range(1, rows + 1):
        rng = np.random.default_rng(dim)
        A, y = rng.standard_normal((rows, dim)), rng.standard_normal(rows)
        result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
        assert np.allclose(result.x, np.linalg.lstsq(A, y, rcond=None)[0], atol=1e-8)
        assert result.converged
        Y = A + 0.1 * rng.standard_normal((rows, dim))
        buffer = mr.Buffer(features=A, next_features=Y, rewards=y)
        problem = mr.PolicyEvaluation(0.5)
        result = mr.solve(problem, buffer)
        if result.status.ok:
            assert np.allclose(A.T @ (A - 0.5 * Y) @ result.x, A.T @ y, atol=1e-8)


@pytest.mark.parametrize("link", ["logistic", "exp"])
def test_a_few_rows_of_other_links(link):
    """Either the fit exists and is found, or it is said not to be."""
    for seed, rows in product(range(5), (1, 2, 3, 5, 8)):
        rng = np.random.default_rng(seed)
        A, y = rng.standard_normal((rows, 2)), rng.integers(0, 2, rows).astype(float)
        problem, buffer = mr.GLM(link), mr.Buffer(features=A, targets=y)
        result = mr.solve(problem, buffer)
        value = problem.mean_operator(result.x, problem.columns(buffer))
        assert np.isfinite(result.x).all()
        if result.status.ok:
            assert np.abs(value).max() < 1e-6
            assert np.abs(result.x).max() < 1e3


def test_an_operator_that_vanishes_on_the_way_to_infinity():
    """Logistic regression as an operator of one's own, on data with no fit: once 'Finished' at a score of 46."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(1000), np.arange(1000) % 150 == 0, rng.standard_normal(1000)])
    y = (rng.random(1000) < 0.4) * (A[:, 1] == 0)

    def operator(X, batch):
        return (expit((X * batch[:, :-1]).sum(axis=1)) - batch[:, -1])[:, None] * batch[:, :-1]

    problem = mr.VariationalInequality(operator, dim=3, batched=True)
    with pytest.warns(mr.ConvergenceWarning, match="there is no root"):
        result = mr.solve(problem, mr.Buffer(samples=np.column_stack([A, y])))
    assert not result.status.ok
    y[::300] = 1
    assert mr.solve(problem, mr.Buffer(samples=np.column_stack([A, y]))).converged


def test_counts_with_features_of_heavy_tails():
    """Rows spread over the record lead to where one of the others rules: once there was no answer."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(40_000), rng.standard_normal((40_000, 2))])
    A[1001, 2], scores = 500.0, A @ [0.0, 0.3, 0.5]
    problem, buffer = mr.GLM("exp"), mr.Buffer(features=A, targets=rng.poisson(np.exp(scores)).astype(float))
    assert off(problem, buffer) < 0.1
    assert abs(mr.solve(problem, buffer).x[2]) < 0.1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_choice_on_later_rows_that_explodes_elsewhere():
    """An outlier that the held-out block does not have: once garbage at a distance of 0."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((300, 20))
    A[10, 3] = 1e4
    buffer = mr.Buffer(features=A, targets=rng.poisson(1.0, 300).astype(float))
    result = mr.solve(mr.GLM("exp", constraint=mr.sets.Box(-0.1, 0.3)), buffer)
    x = np.zeros(20)
    x[3] = 0.06
    assert result.run.distance_at(x) == np.inf
    assert "Exact()" in {row["update"] for row in result.candidates.rows}


@pytest.mark.parametrize("seed", [11, 13, 31])
def test_an_outlier_between_what_is_learnt_from_and_the_held_out_block(seed):
    """The step that is best without it leads to a loss of up to 1e126 with it, once without a word."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((300, 20))
    scores = A @ (0.2 * rng.standard_normal(20))
    A[238, 3] = 1e3
    problem = mr.GLM("exp", constraint=mr.sets.Box(-0.3, 0.3))
    buffer = mr.Buffer(features=A, targets=rng.poisson(np.exp(scores)).astype(float))
    result = mr.solve(problem, buffer, replay=mr.Shuffle(0), holdout=0.2)
    loss, nothing = (problem.loss(x, problem.columns(buffer)) for x in (result.x, np.zeros(20)))
    assert loss < 1.5 * nothing
    assert mr.solve(problem, buffer).converged


def test_a_point_where_one_row_rules_is_far_from_the_fit():
    """What is left of the operator on a set was once measured against one that no set holds: a distance of 1e-126."""
    rng = np.random.default_rng(12)
    A = rng.standard_normal((300, 5))
    A[200, 3] = 1e3
    problem = mr.GLM("exp", constraint=mr.sets.Box(-0.3, 0.3))
    result = mr.solve(problem, mr.Buffer(features=A, targets=rng.poisson(1.0, 300).astype(float)))
    assert result.converged
    assert result.run.distance_at(np.full(5, 0.29)) > 0.5


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_a_tiny_ridge_on_separable_data(seed):
    """Successive corrections are measured in standard errors that differ by a factor of 1e16."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20_000, 12))
    A[:, :4] = rng.random((20_000, 4)) < [0.002, 0.001, 0.001, 0.005]
    y = 1.0 * (A @ (rng.standard_normal(12) / np.sqrt((A**2).mean(axis=0))) > 0)
    problem, buffer = mr.GLM("logistic", ridge=1e-8), mr.Buffer(features=A, targets=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mr.solve(problem, buffer)
    exact = problem.fit_exactly(buffer)
    assert not result.status.ok or np.abs(result.x - exact).max() < 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("seed", [61, 62, 63, 64])
def test_probabilities_on_a_set_with_columns_of_very_different_size(seed):
    """Once 100 passes, and the small columns not fitted: each model on the set was solved in units of the largest."""
    rng = np.random.default_rng(seed)
    Z, sizes = rng.standard_normal((4000, 5)), 10.0 ** rng.uniform(-9, 9, 5)
    y = (rng.random(4000) < expit(Z @ [0.5, -0.3, 0.2, 0.7, 0.0])).astype(float)
    for lower, upper in ((-1e12, 1e12), (-0.4 / sizes, 0.4 / sizes), (0.0, np.inf)):
        result = mr.solve(
            mr.GLM("logistic", constraint=mr.sets.Box(lower, upper)), mr.Buffer(features=Z * sizes, targets=y)
        )
        same = mr.GLM("logistic", constraint=mr.sets.Box(lower * sizes, upper * sizes))
        buffer = mr.Buffer(features=Z, targets=y)
        assert result.converged
        assert result.passes <= 12
        assert np.allclose(result.x * sizes, same.fit_exactly(buffer), atol=1e-6)
        assert np.allclose(result.standard_error * sizes, mr.solve(same, buffer).standard_error, equal_nan=True)


@pytest.mark.parametrize("seed", [71, 72, 73, 74, 75, 76])
@pytest.mark.parametrize("feasible", [None, mr.sets.Box(-1.0, 1.0)], ids=repr)
def test_gross_outliers_among_the_features(seed, feasible):
    """Rows that turn the loss round within a millionth of x: once up to 100 passes, and some not converged."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(20_000), rng.standard_normal((20_000, 3))])
    y = (rng.random(20_000) < expit(A @ [0.5, -0.3, 0.2, 0.7])).astype(float)
    A[rng.integers(20_000, size=5), rng.integers(1, 4, 5)] = 1e6 * rng.choice([-1, 1], 5)
    problem, buffer = mr.GLM("logistic", constraint=feasible), mr.Buffer(features=A, targets=y)
    result = mr.solve(problem, buffer)
    assert result.converged, str(result.status)
    assert result.passes <= 60
    value = problem.mean_operator(result.x, problem.columns(buffer))
    assert np.abs(value).max() < 1e-6 * 50  # of what one such row alone makes of it


def test_columns_of_very_different_size_on_a_set():
    """Once "Finished" at an objective of 8e-4 where 1e-17 is possible: the smallest column may move for nothing."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((2000, 4)) * 10.0 ** np.linspace(-9, 9, 4)
    buffer = mr.Buffer(features=A, targets=A.sum(axis=1))
    with pytest.warns(mr.ConvergenceWarning, match="Bring the columns to one size"):
        result = mr.solve(mr.GLM(), buffer, constraint=mr.sets.Ball(1.7))
    assert not result.status.ok
    for feasible in (mr.sets.Halfspace([1.0] * 4, 1.0), mr.sets.NonNegative(), mr.sets.Box(-1.0, 3.0)):
        fine = mr.solve(mr.GLM(), buffer, constraint=feasible)  # sets that can be brought to other units
        assert fine.status.ok
        assert np.mean((A @ fine.x - A.sum(axis=1)) ** 2) < 1e-12
    years = np.linspace(1990, 2020, 4000)
    A = np.column_stack([np.ones(4000), years, years**2])
    fine = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A @ [5.0, 1e-3, 1e-6]), constraint=mr.sets.NonNegative())
    assert fine.status.ok
