"""What is said of a fit beside its numbers: what does not exist, what is not monotone, what is free."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import multireplay as mr
from multireplay.updates.doubts import NAMED, free_note

NONE = "the fit does not exist"


def solved(problem, buffer, **options):
    """The result, and whether a `ConvergenceWarning` was given."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = mr.solve(problem, buffer, holdout=None, **options)
    return result, any(issubclass(warning.category, mr.ConvergenceWarning) for warning in given)


def separable(rows, seed=0):
    """A line between the classes."""
    A = np.random.default_rng(seed).standard_normal((rows, 3))
    return A, (A @ [1.0, -1.0, 0.5] > 0).astype(float)


def quasi_separable(rows, seed=0):
    """One feature is active in one class alone; the others overlap."""
    rng = np.random.default_rng(seed)
    A, y = rng.standard_normal((rows, 3)), (rng.random(rows) < 0.5).astype(float)
    A[:, 2] = (rng.random(rows) < 0.2) * (y == 1)
    return A, y


def no_counts(rows, seed=0):
    """Where one feature is active, there is never a count."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(rows), rng.standard_normal(rows), rng.random(rows) < 0.05])
    return A, rng.poisson(1.0, rows) * (1.0 - A[:, 2])


def one_class(rows, seed=0):
    return np.column_stack([np.ones(rows), np.random.default_rng(seed).standard_normal(rows)]), np.ones(rows)


CASES = {
    "separable": ("logistic", separable),
    "separable, probit": ("probit", separable),
    "quasi-separable": ("logistic", quasi_separable),
    "no counts": ("exp", no_counts),
    "one class": ("logistic", one_class),
}


@pytest.mark.parametrize("rows", [60, 3000, 50_000])
@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_does_not_exist_is_said_not_to(name, rows):
    link, data = CASES[name]
    A, y = data(rows)
    result, warned = solved(mr.GLM(link), mr.Buffer(features=A, targets=y))
    assert not result.status.ok
    assert not result.converged
    assert result.status.code == "not converged"
    assert NONE in str(result.status)
    assert "ridge=" in str(result.status)
    assert warned
    assert np.isfinite(result.x).all()


def by_threshold(rows, seed=0):
    """One column of three is above 5 in one class, and below in the other."""
    A = np.column_stack([np.random.default_rng(seed).normal([0.0, 5.0, 0.0], size=(rows, 3)), np.ones(rows)])
    return A, (A[:, 1] > 5).astype(float)


def by_two(rows, seed=0):
    """Two columns of four tell the classes apart, with a gap between."""
    A = np.random.default_rng(seed).standard_normal((2 * rows, 4))
    A = A[np.abs(A[:, 1] - A[:, 3]) > 0.5][:rows]
    return A, (A[:, 1] > A[:, 3]).astype(float)


WHICH = {
    "quasi-separable": ("logistic", quasi_separable, "separable by 'x2' alone,"),
    "no counts": ("exp", no_counts, "separable by 'x2' alone,"),
    "one class": ("logistic", one_class, "separable by 'x0' alone,"),
    "by a threshold": ("logistic", by_threshold, "separable by 'x1' alone,"),
    "by a threshold, probit": ("probit", by_threshold, "separable by 'x1' alone,"),
    "all together": ("logistic", separable, "separable, and"),
}


@pytest.mark.parametrize("rows", [80, 20_000])
@pytest.mark.parametrize("name", WHICH)
def test_the_columns_that_separate_are_named(name, rows):
    link, data, wanted = WHICH[name]
    A, y = data(rows)
    names = [f"x{place}" for place in range(A.shape[1])]
    result, _ = solved(mr.GLM(link), mr.Buffer(features=A, targets=y, names=names))
    assert wanted in str(result.status)


def test_two_columns_that_separate_are_named():
    A, y = by_two(3000)
    result, _ = solved(mr.GLM("logistic"), mr.Buffer(features=A, targets=y))
    assert "separable by x[1], x[3] together" in str(result.status) or "x[3], x[1] together" in str(result.status)


def test_the_estimator_names_the_column_that_separates():
    pd = pytest.importorskip("pandas")
    A, y = by_threshold(600)
    with pytest.warns(UserWarning, match="separable by 'wind' alone"):
        mr.MERClassifier(alpha=0).fit(pd.DataFrame(A[:, :3], columns=["heat", "wind", "rain"]), y)


@pytest.mark.parametrize("rows", [60, 3000, 50_000])
@pytest.mark.parametrize("name", CASES)
def test_a_ridge_makes_it_exist(name, rows):
    link, data = CASES[name]
    A, y = data(rows)
    problem, buffer = mr.GLM(link, ridge=0.01), mr.Buffer(features=A, targets=y)
    result, warned = solved(problem, buffer)
    assert result.converged
    assert not warned
    assert NONE not in str(result.status)
    assert (np.abs(result.x - problem.fit_exactly(buffer)) < 0.1 * result.standard_error + 1e-12).all()


@pytest.mark.parametrize("rows", [3000, 50_000])
@pytest.mark.parametrize("name", ["separable", "quasi-separable", "no counts"])
def test_on_a_bounded_set_it_exists(name, rows):
    link, data = CASES[name]
    A, y = data(rows)
    feasible = mr.sets.Box(-4.0, 4.0)
    result, warned = solved(mr.GLM(link), mr.Buffer(features=A, targets=y), constraint=feasible)
    assert result.converged
    assert not warned
    assert NONE not in str(result.status)
    assert np.isclose(np.abs(result.x).max(), 4.0)


@pytest.mark.parametrize("rows", [80, 3000, 20_000])
@pytest.mark.parametrize("feasible", [mr.sets.NonNegative(), mr.sets.Halfspace([-1.0, 0.0, -1.0], 1.0)], ids=repr)
def test_on_an_unbounded_set_it_may_not_exist(feasible, rows):
    """Once 100 passes and not a word: the classes are separated by a direction in which the set goes on for ever."""
    A = np.random.default_rng(rows + 5).standard_normal((rows, 3))
    result, warned = solved(
        mr.GLM("logistic"), mr.Buffer(features=A, targets=A @ [1.0, 2.0, 0.5] > 0), constraint=feasible
    )
    assert not result.status.ok
    assert NONE in str(result.status)
    assert warned


def test_where_the_set_ends_that_direction_it_exists():
    A, y = separable(3000, seed=11)
    for feasible in (mr.sets.NonNegative(), mr.sets.Ball(100.0), mr.sets.Halfspace([1.0, -1.0, 1.0], 1.0)):
        problem, buffer = mr.GLM("logistic", constraint=feasible), mr.Buffer(features=A, targets=y)
        result, _ = solved(problem, buffer)
        assert result.converged
        assert NONE not in str(result.status)
        assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", [100, 102, 109, 111])
def test_where_the_set_ends_it_beyond_all_rounding_that_is_said(seed):
    """Scores of 1000 and more on the boundary: once not converged, without a word."""
    A = np.random.default_rng(seed).standard_normal((60, 3))
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 1.0, 0.5] > 0)
    result, warned = solved(mr.GLM("logistic"), buffer, constraint=mr.sets.Box(-1e3, 1e3))
    assert result.converged or "the data are separable: the loss falls up to the boundary" in str(result.status)
    assert warned != result.converged


@pytest.mark.parametrize("ridge", [1e-8, 1e-4])
@pytest.mark.parametrize("rows", [60, 3000])
def test_a_ridge_on_all_columns_but_one(ridge, rows):
    """It exists unless the one that is left out separates the classes by itself; once it was said not to."""
    A, y = separable(rows, seed=21)
    problem = mr.GLM("logistic", ridge=ridge, unpenalized=1)
    buffer = mr.Buffer(features=np.c_[A, np.ones(rows)], targets=y)
    result, warned = solved(problem, buffer)
    assert result.converged
    assert not warned
    assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-4)
    for column in (np.ones(rows), A @ [1.0, -1.0, 0.5]):  # a column of ones, and one that does separate them
        targets = y if column.min() < 0 else np.ones(rows)
        result, warned = solved(problem, mr.Buffer(features=np.c_[A, column], targets=targets))
        assert not result.status.ok
        assert f"{NONE}: the columns that the penalty leaves out" in str(result.status)
        assert warned


@pytest.mark.parametrize("rows", [3000, 50_000])
def test_one_row_on_the_wrong_side_and_it_exists(rows):
    """Far-out scores alone are no doubt: all but one row are separated, widely."""
    rng = np.random.default_rng(0)
    y = (rng.random(rows) < 0.5).astype(float)
    A = np.column_stack([np.ones(rows), (2 * y - 1) * rng.uniform(1, 2, rows)])
    y[rows // 2] = 1 - y[rows // 2]
    problem, buffer = mr.GLM("logistic"), mr.Buffer(features=A, targets=y)
    result, _ = solved(problem, buffer)
    exact = problem.fit_exactly(buffer)
    assert NONE not in str(result.status)
    if result.status.ok:
        assert (np.abs(result.x - exact) < 0.15 * result.standard_error).all()


def test_an_outlier_does_not_make_the_classes_separable():
    """Beside its score all others are small; once the fit was said not to exist."""
    for seed in range(91, 97):
        rng = np.random.default_rng(seed)
        A = np.column_stack([np.ones(2000), rng.standard_normal((2000, 3))])
        y = (rng.random(2000) < 0.5).astype(float)
        A[rng.integers(2000, size=5)] = 3e7 * rng.standard_normal((5, 4))
        problem, buffer = mr.GLM("logistic"), mr.Buffer(features=A, targets=y)
        result, _ = solved(problem, buffer)
        assert NONE not in str(result.status)
        assert result.converged, seed


def test_ordinary_data_raise_no_doubt():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4000, 3))
    for link, y in (("logistic", rng.random(4000) < 0.5), ("exp", rng.poisson(1.0, 4000))):
        result, warned = solved(mr.GLM(link), mr.Buffer(features=A, targets=y.astype(float)))
        assert result.notes == ()
        assert not warned


def off_policy(rows=4000):
    """Two states, of which one leads to the other with twice its feature (Tsitsiklis and Van Roy), and noise."""
    rng = np.random.default_rng(0)
    A = np.column_stack([np.ones(rows), 0.1 * rng.standard_normal(rows)])
    return mr.Buffer(features=A, next_features=2 * A, rewards=rng.standard_normal(rows))


def test_a_problem_that_is_not_monotone_is_said_to_be_so():
    problem, buffer = mr.PolicyEvaluation(0.9), off_policy()
    result, _ = solved(problem, buffer)
    assert "not monotone" in str(result.status)
    assert np.allclose(result.x, problem.fit_exactly(buffer), rtol=1e-8)
    assert result.converged


def test_a_chain_of_its_own_is_not_called_so():
    """In a finite record A + Aᵀ may have an eigenvalue below 0 by chance: that is no word."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        A = np.cumsum(rng.standard_normal((2001, 3)), axis=0) / 30
        buffer = mr.Buffer(features=A[:-1], next_features=A[1:], rewards=rng.standard_normal(2000))
        assert "not monotone" not in str(mr.solve(mr.PolicyEvaluation(0.999), buffer).status)


def test_sentences_name_what_is_free():
    assert free_note(()) == ()
    (one,) = free_note(((2,),))
    assert "x[2] is never active" in one
    (more,) = free_note(((0, 3), (1,), (2,)))
    assert "x[1], x[2] are never active" in more
    assert "x[0], x[3] are combinations of one another" in more
    (many,) = free_note(tuple((i,) for i in range(NAMED + 4)))
    assert "and 4 more are never active" in many
    (named,) = free_note(((0, 2), (1,)), ("temp", "hum", "Joe's"))
    assert "'hum' is never active; 'temp', \"Joe's\" are combinations of one another" in named


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_what_is_free_goes_by_the_names_of_the_buffer(link):
    rng = np.random.default_rng(41)
    A = rng.standard_normal((400, 2))
    buffer = mr.Buffer(features=np.c_[A, A[:, 0]], targets=rng.integers(2, size=400), names=["temp", "hum", "heat"])
    result = mr.solve(mr.GLM(link), buffer)
    assert "'temp', 'heat' are combinations of one another" in str(result.status)
    assert "x[" not in str(result.status)
    assert result.free == ((0, 2),)


def test_rows_of_no_weight_do_not_keep_the_classes_together():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 2))
    y, weights = (A[:, 0] > 0).astype(float), np.ones(3000)
    y[:100], weights[:100] = 1 - y[:100], 0.0
    result, _ = solved(mr.GLM("logistic"), mr.Buffer(features=A, targets=y, weights=weights))
    assert not result.status.ok
    assert NONE in str(result.status)
