"""Operators against literal ones, and exact fits against independent solvers."""

from __future__ import annotations

import pickle

import numba
import numpy as np
import pytest
import scipy.optimize
from own_operators import pull, rotation
from reference import LINKS, glm_operator, td_operator
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import multireplay as mr


@numba.njit
def cube_root_ish(z):
    return z + 0.5 * np.tanh(z)


def tanh_plus(z):
    return z + 0.5 * np.tanh(z)


def regression(link, rows=400, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, dim))
    mean = np.array([LINKS.get(link, tanh_plus)(float(z)) for z in A @ np.linspace(-0.5, 0.7, dim)])
    if link in ("logistic", "probit"):
        y = (rng.random(rows) < mean).astype(float)
    elif link == "exp":
        y = rng.poisson(mean).astype(float)
    else:
        y = mean + 0.3 * rng.standard_normal(rows)
    return mr.Buffer(features=A, targets=y)


@pytest.mark.parametrize("link", LINKS)
def test_glm_operator(link):
    buffer = regression(link)
    problem = mr.GLM(link)
    columns = problem.columns(buffer)
    samples = problem.samples(columns)
    x = np.array([0.3, -0.2, 0.1])
    literal = glm_operator(link)
    values = [literal(x, a, y) for a, y in zip(buffer["features"], buffer["targets"], strict=True)]
    assert np.allclose([problem.operator(x, samples, row) for row in range(5)], values[:5], rtol=1e-12)
    assert np.allclose(problem.mean_operator(x, columns), np.mean(values, axis=0), rtol=1e-10)


@pytest.mark.parametrize("link", [*LINKS, tanh_plus, cube_root_ish])
def test_exact_fit_is_a_root(link):
    buffer = regression(link)
    problem = mr.GLM(link)
    x = problem.fit_exactly(buffer)
    assert np.abs(problem.mean_operator(x, problem.columns(buffer))).max() < 1e-8
    root = scipy.optimize.root(lambda z: problem.mean_operator(z, problem.columns(buffer)), np.zeros(3), tol=1e-12)
    assert np.allclose(x, root.x, atol=1e-6)


@pytest.mark.parametrize("link", LINKS)
def test_the_operator_is_the_gradient_of_the_loss(link):
    buffer = regression(link)
    problem = mr.GLM(link)
    columns = problem.columns(buffer)
    for x in (np.array([0.3, -0.2, 0.1]), np.array([-3.0, 4.0, 2.0])):
        numeric = [
            (problem.loss(x + 1e-6 * e, columns) - problem.loss(x - 1e-6 * e, columns)) / 2e-6 for e in np.eye(3)
        ]
        assert np.allclose(numeric, problem.mean_operator(x, columns), rtol=1e-4, atol=1e-6)
    assert np.isfinite(problem.loss(np.array([30.0, -20.0, 5.0]), columns))
    assert mr.GLM(tanh_plus).loss(np.zeros(3), columns) is None


def test_exact_fit_is_least_squares_and_ridge():
    buffer = regression("identity")
    A, y = buffer["features"], buffer["targets"]
    assert np.allclose(mr.GLM().fit_exactly(buffer), np.linalg.lstsq(A, y)[0])
    ridge = np.linalg.solve(A.T @ A / len(A) + 0.3 * np.eye(3), A.T @ y / len(A))
    assert np.allclose(mr.GLM().fit_exactly(buffer, ridge=0.3), ridge)


def test_exact_fit_is_maximum_likelihood():
    buffer = regression("logistic")
    other = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(buffer["features"], buffer["targets"])
    assert np.allclose(mr.GLM("logistic").fit_exactly(buffer), other.coef_[0], atol=1e-5)
    ridge = LogisticRegression(C=1 / (0.1 * 400), fit_intercept=False, tol=1e-10)
    ridge.fit(buffer["features"], buffer["targets"])
    assert np.allclose(mr.GLM("logistic").fit_exactly(buffer, ridge=0.1), ridge.coef_[0], atol=1e-5)
    counts = regression("exp")
    poisson = PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-10, max_iter=1000)
    poisson.fit(counts["features"], counts["targets"])
    assert np.allclose(mr.GLM("exp").fit_exactly(counts), poisson.coef_, atol=1e-4)


def test_separable_data_have_no_maximum_likelihood():
    A = np.random.default_rng(0).standard_normal((50, 2))
    buffer = mr.Buffer(features=A, targets=(A[:, 0] > 0))
    with pytest.raises(mr.InputError, match="separable"):
        mr.GLM("logistic").fit_exactly(buffer)
    assert np.isfinite(mr.GLM("logistic").fit_exactly(buffer, ridge=1e-2)).all()


@pytest.mark.parametrize("link", ["identity", "logistic", "exp"])
@pytest.mark.parametrize("feasible", [mr.sets.Ball(0.4), mr.sets.Simplex(), mr.sets.Box(-0.1, 0.2)])
def test_constrained_exact_fit_solves_the_variational_inequality(link, feasible):
    buffer = regression(link)
    problem = mr.GLM(link, constraint=feasible)
    x = problem.fit_exactly(buffer)
    assert feasible.contains(x)
    value = problem.mean_operator(x, problem.columns(buffer))
    rng = np.random.default_rng(1)
    others = [feasible.projected(rng.standard_normal(3)) for _ in range(200)]
    assert min(value @ (other - x) for other in others) > -1e-6


def trajectory(rows=300, dim=4, seed=0, terminated=False):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((rows + 1, dim))
    for t in range(rows):
        F[t + 1] += 0.8 * F[t]
    columns = {"features": F[:-1], "next_features": F[1:], "rewards": rng.standard_normal(rows)}
    if terminated:
        columns["terminated"] = rng.random(rows) < 0.2
    return mr.Buffer(**columns)


@pytest.mark.parametrize("terminated", [False, True])
def test_policy_evaluation(terminated):
    buffer = trajectory(terminated=terminated)
    problem = mr.PolicyEvaluation(gamma=0.7)
    columns = problem.columns(buffer)
    samples = problem.samples(columns)
    x = np.array([0.3, -0.2, 0.1, 1.0])
    rows = list(zip(*(buffer[name] for name in buffer), strict=True))
    values = [td_operator(0.7)(x, *row) for row in rows]
    assert np.allclose([problem.operator(x, samples, row) for row in range(9)], values[:9], rtol=1e-12)
    assert np.allclose(problem.mean_operator(x, columns), np.mean(values, axis=0), rtol=1e-10)
    A = sum(np.outer(now, now - (0.0 if end else 0.7) * then) for now, then, _, *end_ in rows for end in [any(end_)])
    b = sum(now * reward for now, _, reward, *_ in rows)
    assert np.allclose(problem.fit_exactly(buffer), np.linalg.solve(A, b))


def test_constrained_lstd_solves_the_variational_inequality():
    buffer = trajectory()
    problem = mr.PolicyEvaluation(0.7, constraint=mr.sets.L1Ball(0.05))
    x = problem.fit_exactly(buffer)
    value = problem.mean_operator(x, problem.columns(buffer))
    corners = 0.05 * np.vstack([np.eye(4), -np.eye(4)])
    assert (corners - x).dot(value).min() > -1e-9


def test_own_operator_forms_agree():
    """Jitted and in place: tests/engine/test_cross.py."""
    rng = np.random.default_rng(0)
    buffer = mr.Buffer(samples=rng.standard_normal((40, 3)))

    def returning(x, sample):
        return x * (1 + sample[2] ** 2) - sample[:2]

    def in_place(x, sample, out):
        out[:] = x * (1 + sample[2] ** 2) - sample[:2]

    found = [
        mr.solve(mr.VariationalInequality(form, dim=2), buffer, step=0.05, update=mr.Plain()).x
        for form in (returning, in_place, numba.njit(returning))
    ]
    for other in found[1:]:
        assert np.allclose(other, found[0], rtol=1e-12)
    with pytest.raises(mr.InputError, match="no exact solution in closed form"):
        mr.VariationalInequality(returning, dim=2).fit_exactly(buffer)


def test_records_with_and_without_endings_share_what_is_compiled():
    columns = {"features": np.ones((5, 2)), "next_features": np.ones((5, 2)), "rewards": np.ones(5)}
    ended = np.array([False, True, False, False, True])
    plain, ending = (mr.PolicyEvaluation(0.7).samples(one) for one in (columns, {**columns, "terminated": ended}))
    assert numba.typeof(plain) == numba.typeof(ending)
    assert plain.discounts.tolist() == [0.7] * 5
    assert ending.discounts.tolist() == [0.7, 0.0, 0.7, 0.7, 0.0]


def test_problems_of_one_operator_share_what_is_compiled():
    columns = {"samples": np.zeros((3, 2))}
    one, other = (mr.VariationalInequality(pull, dim=2).samples(columns).operator for _ in range(2))
    assert one is other
    sent = pickle.loads(pickle.dumps(mr.VariationalInequality(pull, dim=2)))  # to a process of joblib
    assert sent.samples(columns).operator is one
    assert mr.VariationalInequality(rotation, dim=2).samples(columns).operator is rotation


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mr.PolicyEvaluation(1.01), r"gamma must be a number in \[0, 1\], not 1.01"),
        (lambda: mr.PolicyEvaluation(-0.1), "gamma must be"),
        (lambda: mr.PolicyEvaluation("a"), "gamma must be"),
        (lambda: mr.GLM("loggit"), "no link 'loggit'; the built-in ones are identity, logistic"),
        (
            lambda: mr.GLM("logit"),
            r"did you mean 'logistic' \(outcomes 0 and 1\)\? The built-in ones are identity, logi",
        ),
        (lambda: mr.GLM("Poisson"), r"no link 'Poisson'; did you mean 'exp' \(Poisson: counts\)\? The"),
        (lambda: mr.GLM("log"), "did you mean 'exp'"),
        (lambda: mr.GLM("linear"), r"did you mean 'identity' \(linear regression\)"),
        (lambda: mr.GLM("Logistic"), r"did you mean 'logistic' \(in small letters\)"),
        (lambda: mr.GLM(3), "link must be a name or a function"),
        (lambda: mr.VariationalInequality(3, dim=2), "operator must be a function"),
        (lambda: mr.VariationalInequality(lambda x: x, dim=2), "this one takes 1 arguments"),
        (lambda: mr.VariationalInequality(lambda x, s: x, dim=0), "dim must be a whole number of at least 1"),
    ],
)
def test_bad_problems(make, message):
    with pytest.raises(mr.InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("problem", "columns", "message"),
    [
        (mr.GLM(), {"feature": np.ones((3, 2)), "targets": np.ones(3)},
         r"GLM needs the column features; it reads features, targets\[, weights\], and the buffer has feature"),
        (mr.PolicyEvaluation(0.5), {"features": np.ones((3, 2))},
         r"needs the columns next_features, rewards; it reads features, next_features, rewards\[, terminated\]"),
        (mr.GLM(), {"features": np.ones(3), "targets": np.ones(3)}, r"shape is \(3,\); .*features\[:, None\]"),
        (mr.GLM(), {"features": np.ones((3, 0)), "targets": np.ones(3)}, "has no features"),
        (mr.GLM(), {"features": np.ones((3, 2)), "targets": np.ones((3, 1))},
         r"'targets' needs one number .* targets.ravel\(\)"),
        (mr.GLM("logistic"), {"features": np.ones((3, 2)), "targets": [0, 1, 2]}, "holds 2 at row 2 .* logistic link"),
        (mr.GLM("exp"), {"features": np.ones((3, 2)), "targets": [0, -1, 2]},
         r"holds -1 at row 1 \(counting from 0\); the exp link"),
        (mr.PolicyEvaluation(0.5),
         {"features": np.ones((3, 2)), "next_features": np.ones((3, 1)), "rewards": np.ones(3)},
         "features has 2 features a row and next_features 1"),
        (mr.PolicyEvaluation(0.5),
         {"features": np.ones((3, 2)), "next_features": np.ones((3, 2), dtype=np.float32), "rewards": np.ones(3)},
         "same dtype"),
        (mr.PolicyEvaluation(0.5),
         {"features": np.eye(3), "next_features": np.eye(3), "rewards": np.ones(3), "terminated": [0, 2, 1]},
         r"'terminated' holds 2 at row 1 \(counting from 0\); it needs booleans"),
    ],
)  # fmt: skip
def test_bad_columns(problem, columns, message):
    with pytest.raises(mr.InputError, match=message):
        mr.solve(problem, mr.Buffer(**columns), step=0.1)


@pytest.mark.parametrize("problem", [mr.GLM("probit"), mr.GLM(tanh_plus), mr.PolicyEvaluation(0.3, mr.sets.Ball(1.0))])
def test_pickle(problem):
    assert repr(pickle.loads(pickle.dumps(problem))) == repr(problem)
