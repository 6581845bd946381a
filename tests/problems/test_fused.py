"""The compiled sum over dense rows is what two products of linear algebra are."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.engine.sums import OperatorSum
from multireplay.problems.fused import WIDE, difference_sum, regression_sum
from multireplay.problems.residual import LEAST_BYTES, can_be_fused

LINKS = ("identity", "logistic", "probit", "exp", "softplus", "leaky_relu")


def rows_of(count, dim, kind=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("link", LINKS)
def test_a_regression_is_summed_as_by_two_products(link, kind):
    problem, rows, rng = mr.GLM(link), rows_of(203, 17, kind), np.random.default_rng(1)
    targets, x = rng.random(203), 0.3 * rng.standard_normal(17)
    expected = (problem.link.function(rows.astype(np.float64) @ x) - targets) @ rows.astype(np.float64)
    found = regression_sum(rows, targets, x, problem.link.compiled)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("dim", [3, WIDE])
def test_rows_that_are_left_over_are_counted(count, dim):
    rows, x = rows_of(count, dim), np.linspace(0, 1, dim)
    np.testing.assert_allclose(regression_sum(rows, np.zeros(count), x, 0), (rows @ x) @ rows, rtol=1e-9)
    then, discounts = rows_of(count, dim, seed=1), np.linspace(0, 1, count)
    expected = (rows @ x - discounts * (then @ x) - 1) @ rows
    np.testing.assert_allclose(difference_sum(rows, then, discounts, np.ones(count), x), expected, rtol=1e-9)


@pytest.mark.parametrize("ended", [False, True])
def test_a_block_of_transitions_is_summed_alike_however_it_is_done(ended):
    path, rng = rows_of(18001, 16, seed=2), np.random.default_rng(3)
    columns = {"features": path[:-1], "next_features": path[1:], "rewards": rng.standard_normal(18000)}
    if ended:
        columns["terminated"] = rng.random(18000) < 0.1
    problem, x = mr.PolicyEvaluation(0.9), rng.standard_normal(16)
    assert can_be_fused(columns["features"], x)
    fused = OperatorSum(problem, x[None, :]).of(columns)[0][0]
    np.testing.assert_allclose(fused, problem.residuals_at(x, columns) @ columns["features"], rtol=1e-10, atol=1e-8)


def test_what_the_loop_is_not_for_is_left_to_linear_algebra():
    x, large = np.zeros(16), rows_of(LEAST_BYTES // 128, 16)
    assert can_be_fused(large, x)
    assert not can_be_fused(large[:-1], x)
    assert not can_be_fused(np.asfortranarray(large), x)
    assert not can_be_fused(large, x.astype(np.float32))
    assert not can_be_fused(large.astype(int), x)
    assert not can_be_fused(large.reshape(-1, 8), x[:8])


def test_weights_count_in_a_large_block():
    rows, rng = rows_of(18000, 16, seed=4), np.random.default_rng(5)
    columns = {"features": rows, "targets": rng.standard_normal(18000), "weights": rng.random(18000)}
    x = rng.standard_normal(16)
    expected = (columns["weights"] * (rows @ x - columns["targets"])) @ rows
    np.testing.assert_allclose(mr.GLM().operator_sums(x[None, :], columns)[0], expected, rtol=1e-10)


def test_a_link_of_the_users_own_is_called():
    rows, x = rows_of(18000, 16, seed=6), np.full(16, 0.1)
    problem = mr.GLM(lambda z: 2 * z, lipschitz=2.0)
    found = problem.operator_sums(x[None, :], {"features": rows, "targets": np.zeros(18000)})[0]
    np.testing.assert_allclose(found, 2 * (rows @ x) @ rows, rtol=1e-10)


def test_numbers_beyond_all_bounds_stay_so():
    rows = np.ones((4, 16))
    assert np.isinf(regression_sum(rows, np.zeros(4), np.full(16, 1e3), mr.GLM("exp").link.compiled)).all()
    assert np.isnan(regression_sum(rows, np.zeros(4), np.full(16, np.nan), 0)).all()
