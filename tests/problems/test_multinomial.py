"""Several classes with one likelihood: against scikit-learn, statsmodels, differences, and each other's routes."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

import multireplay as mr
from multireplay.errors import ConvergenceWarning

ROWS, CLASSES = 1500, 4


def record(rows=ROWS, classes=CLASSES, seed=0, weighted=False):
    """Rows with a column of ones, classes by a multinomial model, and its coefficients."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([rng.standard_normal((rows, 2)) * [1.0, 30.0], np.ones(rows)])
    W = rng.standard_normal((classes, 3)) * [1.0, 0.03, 0.5]
    y = (A @ W.T + rng.gumbel(size=(rows, classes))).argmax(axis=1)
    weights = {"weights": rng.uniform(0.1, 2.0, rows)} if weighted else {}
    return mr.Buffer(features=A, targets=y, **weights), W - W.mean(axis=0)


def mean_loss(problem, x, buffer):
    """Of the definition, with the ridge on what is penalized."""
    W = problem.coefficients(x)
    losses = -log_softmax(buffer["features"] @ W.T, axis=1)[np.arange(len(buffer)), buffer["targets"].astype(int)]
    weights = buffer.columns.get("weights", 1.0)
    held = W[:, : W.shape[1] - problem.penalty.unpenalized]
    return np.mean(weights * losses) + problem.penalty.ridge / 2 * np.sum(held**2)


@pytest.mark.parametrize("weighted", [True, False])
def test_everything_is_of_one_loss(weighted):
    buffer, _ = record(rows=60, weighted=weighted)
    problem = mr.Multinomial(CLASSES, ridge=0.3, unpenalized=1)
    columns, x = problem.columns(buffer), np.random.default_rng(1).standard_normal(9) * ([1, 0.03, 1] * 3)
    samples, ridge = problem.samples(columns), problem.penalty_diagonal(9) * x
    slope = approx_fprime(x, lambda z: mean_loss(problem, z, buffer), 1e-7)
    mean = problem.mean_operator(x, columns)
    assert mean == pytest.approx(slope, abs=1e-4)
    each = np.array([problem.operator(x, samples, row) for row in range(60)])
    assert each.mean(axis=0) == pytest.approx(mean)
    total, gradient = problem.descent(x, columns)
    assert total / 60 == pytest.approx(mean_loss(problem, x, buffer) - ridge @ x / 2)
    assert problem.loss(x, columns) == pytest.approx(total / 60)
    assert gradient / 60 + ridge == pytest.approx(mean)
    numeric = approx_fprime(x, lambda z: problem.mean_operator(z, columns), 1e-6)
    assert problem.jacobian(x, columns) == pytest.approx(numeric, rel=1e-4, abs=1e-3)
    directions = np.random.default_rng(2).standard_normal((9, 2))
    assert problem.operator_along(x, directions, columns) == pytest.approx((each - ridge) @ directions)
    squares, energies = problem.energies(x, columns, np.array([0, 25]), np.array([1, 8]))
    assert squares == pytest.approx(np.square(each - ridge).sum(axis=0)[[1, 8]])
    heavy = np.square(buffer["features"]) * (buffer["weights"][:, None] if weighted else 1.0)
    assert energies[0] == pytest.approx(heavy[:25].sum(axis=0)[[1, 2]])


def test_in_a_basis_the_matrices_are_those_of_x():
    buffer, _ = record(rows=80, weighted=True)
    problem = mr.Multinomial(CLASSES)
    columns, rng = problem.columns(buffer), np.random.default_rng(3)
    basis, z = rng.standard_normal((9, 5)), rng.standard_normal(5) * 0.1
    inside, rows = problem.in_basis(columns, basis)
    assert inside.jacobian_sum(z, rows) == pytest.approx(basis.T @ problem.jacobian_sum(basis @ z, columns) @ basis)
    assert inside.second_moments(rows) == pytest.approx(basis.T @ problem.second_moments(columns) @ basis)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_fit_is_that_of_scikit_learn(weighted):
    buffer, _ = record(weighted=weighted, seed=4)
    A, y, weights = buffer["features"], buffer["targets"], buffer["weights"] if weighted else np.ones(ROWS)
    problem = mr.Multinomial(CLASSES, ridge=0.01, unpenalized=1)
    other = LogisticRegression(C=1 / (ROWS * 0.01), solver="newton-cholesky", tol=1e-10).fit(A[:, :2], y, weights)
    wanted = np.column_stack([other.coef_, other.intercept_ - other.intercept_.mean()])
    result = mr.solve(problem, buffer)
    assert result.converged
    assert problem.coefficients(result.x) == pytest.approx(wanted, abs=1e-7)
    assert problem.coefficients(problem.fit_exactly(buffer)) == pytest.approx(wanted, abs=1e-7)
    assert np.linalg.norm(result.x) == pytest.approx(np.linalg.norm(problem.coefficients(result.x)))


@pytest.mark.parametrize("update", [mr.Exact(), mr.Newton(), mr.VarianceReduced()])
def test_all_ways_lead_to_it(update):
    A = np.random.default_rng(5).standard_normal((ROWS, 2))
    y = (A @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]] + np.random.default_rng(6).gumbel(size=(ROWS, 3))).argmax(axis=1)
    problem, buffer = mr.Multinomial(3), mr.Buffer(features=A, targets=y)
    result = mr.solve(problem, buffer, update=update)
    assert result.converged
    away = (result.x - problem.fit_exactly(buffer)) / result.standard_error
    assert np.abs(away).max() < 0.15


def test_steps_run_in_python_and_go_the_right_way():
    buffer, _ = record(rows=400, seed=7)
    scaled = mr.Buffer(features=buffer["features"] / [1.0, 30.0, 1.0], targets=buffer["targets"])
    problem = mr.Multinomial(CLASSES)
    result = mr.solve(problem, scaled, replay=mr.Multiscale())
    columns = problem.columns(scaled)
    assert result.run.engine == "python"
    assert problem.loss(result.x, columns) < problem.loss(np.zeros(9), columns)
    with pytest.raises(mr.InputError, match="has no compiled loop"):
        mr.solve(problem, scaled, replay=mr.Serial(), backend="compiled")


def test_standard_errors_of_a_class_are_those_of_statsmodels():
    """On independent rows, for the difference of a class and the first, which is what statsmodels estimates."""
    buffer, _ = record(rows=20000, classes=3, seed=8)
    problem = mr.Multinomial(3)
    found = mr.solve(problem, buffer).uncertainty
    other = sm.MNLogit(buffer["targets"], buffer["features"]).fit(disp=False, tol=1e-12)
    for k in (1, 2):
        apart = found.mapped(problem.map_of(k, 3) - problem.map_of(0, 3), ["a", "b", "one"])
        assert apart.x == pytest.approx(other.params[:, k - 1], rel=1e-6, abs=1e-8)
        assert apart.standard_error == pytest.approx(other.bse[:, k - 1], rel=0.5)


def test_copies_of_rows_say_nothing_new():
    """Rows in pairs of copies: the standard errors are those of the rows, not smaller by √2."""
    buffer, _ = record(rows=8000, seed=9)
    twice = mr.Buffer(features=buffer["features"].repeat(2, axis=0), targets=buffer["targets"].repeat(2))
    alone, both = (mr.solve(mr.Multinomial(CLASSES), one).standard_error for one in (buffer, twice))
    assert both == pytest.approx(alone, rel=0.02)


def test_names_repr_and_pickle():
    buffer, _ = record(rows=200)
    named = mr.Buffer(features=buffer["features"], targets=buffer["targets"], names=["a", "b", "one"])
    result = mr.solve(mr.Multinomial(CLASSES, ridge=0.1), named)
    assert result.run.names[:4] == ("a (contrast 1)", "b (contrast 1)", "one (contrast 1)", "a (contrast 2)")
    assert repr(mr.Multinomial(CLASSES, ridge=0.1, unpenalized=1)) == "Multinomial(classes=4, ridge=0.1, unpenalized=1)"
    assert repr(pickle.loads(pickle.dumps(result.run.problem))) == repr(result.run.problem)
    assert "a (contrast 1)" in str(result.summary())
    with pytest.raises(mr.InputError, match="MERClassifier has predict_interval"):
        result.predict_interval(buffer["features"][:2])


def test_features_that_are_combinations_of_others():
    buffer, _ = record(rows=600, seed=10)
    A = np.column_stack([buffer["features"], buffer["features"] @ [1.0, 1.0, 0.0], np.zeros(600)])
    problem = mr.Multinomial(CLASSES)
    result = mr.solve(problem, mr.Buffer(features=A, targets=buffer["targets"]))
    assert result.free == ((0, 1, 3), (4,), (5, 6, 8), (9,), (10, 11, 13), (14,))
    scores = problem.class_scores(mr.solve(problem, buffer).x, buffer["features"])
    assert problem.class_scores(result.x, A) == pytest.approx(scores, abs=1e-6)


def test_classes_that_can_be_told_apart_have_no_fit_without_a_ridge():
    A = np.column_stack([np.random.default_rng(11).standard_normal((300, 2)), np.ones(300)])
    buffer = mr.Buffer(features=A, targets=np.digitize(A[:, 0], [-0.5, 0.5]))
    with pytest.warns(ConvergenceWarning, match="the data are separable"):
        result = mr.solve(mr.Multinomial(3), buffer)
    assert not result.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mr.solve(mr.Multinomial(3, ridge=1e-6, unpenalized=1), buffer).converged


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"targets": [0, 1, 3]}, "'targets' holds 3 at row 2 .* numbered from 0 to 2"),
        ({"targets": [0, 1, 0.5]}, "'targets' holds 0.5 at row 2 .* whole numbers"),
        ({"targets": [0, 1, 2], "weights": [1.0, -1.0, 1.0]}, "'weights' holds -1 at row 1"),
    ],
)
def test_mistakes(columns, message):
    with pytest.raises(mr.InputError, match=message):
        mr.solve(mr.Multinomial(3), mr.Buffer(features=np.eye(3), **columns))


def test_one_class_is_none():
    with pytest.raises(mr.InputError, match="classes"):
        mr.Multinomial(1)


def test_a_stream_learns_and_is_kept_in_a_file(tmp_path):
    buffer, _ = record(rows=900, classes=3, seed=12)
    A, y = buffer["features"] / [1.0, 30.0, 1.0], buffer["targets"]
    run = mr.Online(mr.Multinomial(3, ridge=0.01), capacity=64, repeat_last=True)
    run.observe(features=A[:500], targets=y[:500])
    run.save(tmp_path / "run")
    again = mr.Online.load(tmp_path / "run")
    for one in (run, again):
        one.observe(features=A[500:], targets=y[500:])
    assert np.array_equal(run.x, again.x)
    columns = run.problem.columns(mr.Buffer(features=A, targets=y))
    assert run.problem.loss(run.x, columns) < run.problem.loss(np.zeros(6), columns)
