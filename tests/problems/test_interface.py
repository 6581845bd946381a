"""What the engine asks of a problem, and the mistakes of users that a problem catches."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import multireplay as mr
from multireplay.problems.base import as_constraint
from multireplay.sets import WholeSpace


def plain(x, sample):
    return x - sample


def identity(z):
    return z


def samples_of(problem, **columns):
    return problem.samples(problem.columns(mr.Buffer(**columns)))


def regression(problem, scale=1.0, dtype=np.float64, targets=(1.0, -4.0)):
    return samples_of(problem, features=np.array([[3.0, 4.0], [1.0, 0.0]]) * dtype(scale), targets=np.array(targets))


def test_lipschitz_constants_come_from_the_samples():
    assert mr.GLM().lipschitz(regression(mr.GLM())) == 25
    probabilities = mr.GLM("logistic")
    assert probabilities.lipschitz(regression(probabilities, targets=(0, 1))) == 25 / 4
    assert mr.GLM("exp").lipschitz(regression(mr.GLM("exp"), targets=(0, 7))) == 7 * 25
    assert mr.GLM(identity).lipschitz(regression(mr.GLM(identity))) is None
    assert mr.GLM(identity, lipschitz=2).lipschitz(regression(mr.GLM(identity))) == 50
    td = mr.PolicyEvaluation(0.5)
    assert td.lipschitz(samples_of(td, features=np.eye(2), next_features=np.eye(2), rewards=[1, 0])) == 1
    vi = mr.VariationalInequality(plain, dim=2, lipschitz=3.0)
    assert vi.lipschitz(samples_of(vi, samples=np.eye(2))) == 3


def test_lipschitz_of_single_precision_does_not_overflow():
    found = mr.GLM().lipschitz(regression(mr.GLM(), scale=1e20, dtype=np.float32))
    assert found == pytest.approx(25e40, rel=1e-6)


def test_users_code():
    assert mr.VariationalInequality(plain, dim=2).users_code
    assert mr.GLM(identity).users_code
    assert mr.GLM(numba.njit(identity)).users_code
    assert not mr.GLM("exp").users_code
    assert not mr.PolicyEvaluation(0.5).users_code


def test_limits_of_built_in_problems_follow_the_size_of_the_data():
    zero, x0 = np.zeros(2), np.array([1.0, 2.0])
    assert mr.GLM().limit(regression(mr.GLM()), zero) == 4e8
    assert mr.GLM().limit(regression(mr.GLM()), x0) == 1e8 * (4 + 11)
    assert mr.GLM().limit(regression(mr.GLM(), targets=(0, 0)), zero) == 1e100
    logistic = mr.GLM("logistic")
    assert logistic.limit(regression(logistic, targets=(0, 1)), zero) == 1e8
    td = mr.PolicyEvaluation(0.5)
    eye = np.eye(2)
    transitions = samples_of(td, features=3 * eye, next_features=eye, rewards=[1, -2], terminated=[False, True])
    assert td.limit(transitions, zero) == 2e8
    assert td.limit(transitions, x0) == 1e8 * (2 + 6)
    assert td.limit(samples_of(td, features=eye, next_features=eye, rewards=[0, 0]), zero) == 1e100


def test_a_limit_is_above_the_residual_at_the_start():
    for link in ("exp", "logistic", "softplus"):
        problem = mr.GLM(link)
        samples = regression(problem, targets=(1e-12, 0.0))
        assert problem.limit(samples, np.zeros(2)) > 1e6 * np.abs(problem.operator(np.zeros(2), samples, 0)).max()


def test_limits_of_users_code():
    vi = mr.VariationalInequality(plain, dim=2)
    assert vi.limit(samples_of(vi, samples=np.eye(2)), np.ones(2)) == 1e100
    assert mr.GLM(identity).limit(regression(mr.GLM(identity)), np.ones(2)) == 1e100


def beyond_x(x, sample):
    return np.array([x[0], x[2]])


def beyond_sample(x, sample, out):
    for j in range(2):
        out[j] = x[j] - sample[j + 1]


def beyond_out(x, sample, out):
    for j in range(3):
        out[j] = 0.0


def too_long(x, sample):
    return np.zeros(3)


def sets_too_much(x, sample, out):
    out[:] = np.zeros(3)


def nothing(x, sample):
    x + sample


def another_mistake(x, sample):
    if sample[0] > 0:
        raise ZeroDivisionError
    return x


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (beyond_x, "index 2 is out of bounds .* x and out have 2 entries, a sample has 2"),
        (beyond_sample, "reads or writes beyond its arrays: index 2"),
        (beyond_out, "reads or writes beyond"),
        (too_long, r"returned an array of shape \(3,\) instead of \(2,\)"),
        (sets_too_much, "arrays of different shapes"),
        (nothing, "returned nothing: does it lack a return, or an out argument?"),
    ],
)
def test_probe_finds_what_compiled_code_would_not_notice(operator, message):
    problem = mr.VariationalInequality(numba.njit(operator), dim=2)
    samples = samples_of(problem, samples=np.eye(2))
    with pytest.raises(mr.OperatorError, match=message):
        problem.probe(np.zeros(2), samples)


def test_probe_leaves_the_rest_to_the_run():
    def greedy(x, sample, out):
        x[:] = 7.0
        sample[:] = 7.0
        out[:] = 7.0

    rows, x0 = np.eye(2), np.zeros(2)
    for operator in (numba.njit(another_mistake), another_mistake, beyond_x):
        problem = mr.VariationalInequality(operator, dim=2)
        problem.probe(x0, samples_of(problem, samples=rows))
    problem = mr.VariationalInequality(numba.njit(greedy), dim=2)
    with pytest.raises(mr.OperatorError, match="the operator changed x in place"):
        problem.probe(x0, samples_of(problem, samples=rows))
    assert np.array_equal(rows, np.eye(2))
    assert not x0.any()
    mr.GLM().probe(x0, regression(mr.GLM()))


def test_a_plain_operator_that_returns_nothing():
    problem = mr.VariationalInequality(nothing, dim=2)
    with pytest.raises(mr.OperatorError, match="returned nothing"):
        problem.operator(np.zeros(2), samples_of(problem, samples=np.eye(2)), 0)


def test_an_operator_cannot_write_into_the_users_samples():
    def careless(x, sample):
        sample -= x
        return -sample

    rows = np.eye(2)
    problem = mr.VariationalInequality(careless, dim=2)
    with pytest.raises(mr.OperatorError, match="changed the sample in place, which is read-only"):
        problem.operator(np.ones(2), samples_of(problem, samples=rows), 0)
    assert np.array_equal(rows, np.eye(2))
    assert rows.flags.writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda constraint: mr.GLM("logistic", constraint),
        lambda constraint: mr.PolicyEvaluation(0.5, constraint),
        lambda constraint: mr.VariationalInequality(plain, 2, constraint),
        as_constraint,
    ],
)
def test_constraints_are_sets(make):
    with pytest.raises(mr.InputError, match=r"must be a set such as mr.sets.Ball\(1.0\), not 1.0"):
        make(1.0)
    with pytest.raises(mr.InputError, match="not the class Simplex; did you forget the parentheses"):
        make(mr.sets.Simplex)
    with pytest.raises(mr.InputError, match="must be a set"):
        make(0)
    make(mr.sets.Ball(1.0))


def test_no_constraint_is_the_whole_space():
    assert as_constraint(None) == WholeSpace()
    assert as_constraint(mr.sets.Ball(2.0)) == mr.sets.Ball(2.0)


@pytest.mark.parametrize("name", ["done", "dones", "terminal", "terminations", "terminted", "Terminated"])
def test_a_misspelt_optional_column_is_refused(name):
    columns = {"features": np.eye(2), "next_features": np.eye(2), "rewards": np.ones(2)}
    problem = mr.PolicyEvaluation(0.5)
    with pytest.raises(mr.InputError, match=f"does not read the column '{name}'; .* 'terminated'"):
        problem.columns(mr.Buffer(**columns, **{name: [False, True]}))
    found = problem.columns(mr.Buffer(**columns, **{name: [False, True], "terminated": [False, True]}))
    assert list(found) == [*columns, "terminated"]


def test_other_columns_may_stay():
    columns = {"features": np.eye(2), "next_features": np.eye(2), "rewards": np.ones(2)}
    others = {"targets": np.ones(2), "truncated": [False, True], "actions": [0, 1]}
    assert list(mr.PolicyEvaluation(0.5).columns(mr.Buffer(**columns, **others))) == list(columns)
    assert list(mr.GLM().columns(mr.Buffer(**columns, **others, done=[0, 1]))) == ["features", "targets"]


def test_rewards_of_one_column_get_a_hint():
    with pytest.raises(mr.InputError, match=r"use rewards.ravel\(\)"):
        mr.PolicyEvaluation(0.5).columns(
            mr.Buffer(features=np.eye(2), next_features=np.eye(2), rewards=np.ones((2, 1)))
        )


def test_repr_shows_the_constraint():
    assert repr(mr.VariationalInequality(plain, dim=2)) == "VariationalInequality(plain, dim=2)"
    constrained = mr.VariationalInequality(plain, dim=2, constraint=mr.sets.Ball(1.0))
    assert repr(constrained) == "VariationalInequality(plain, dim=2, constraint=Ball(radius=1.0))"


def test_moments_of_single_precision_do_not_overflow():
    buffer = mr.Buffer(
        features=np.full((3, 1), 1e20, dtype=np.float32),
        next_features=np.zeros((3, 1), dtype=np.float32),
        rewards=np.full(3, 1e30, dtype=np.float32),
    )
    assert mr.PolicyEvaluation(0.5).fit_exactly(buffer)[0] == pytest.approx(1e10, rel=1e-6)
