"""A fit that is not the minimum says so, in scikit-learn's own way, and names what the rows do not settle."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import multireplay as mr

QUIET = {"warn_autocorrelation": False}


def warned(fit):
    """What a fit warns of, and what it gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model = fit()
    return found, model


def blobs(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    label = np.arange(rows) % 3
    return rng.standard_normal((rows, 2)) + 12.0 * np.column_stack([label == 1, label == 2]), label


def test_separable_classes_warn_once_as_scikit_learn_does_where_the_user_called():
    X, label = blobs()
    found, model = warned(lambda: mr.MERClassifier(alpha=0.0, **QUIET).fit(X, label == 1))
    (warning,) = found
    assert warning.category is ConvergenceWarning
    assert Path(warning.filename) == Path(__file__)
    assert "does not exist" in str(warning.message)
    assert "alpha=..." in str(warning.message)
    assert "ridge" not in str(warning.message)
    assert not model.converged_
    assert not model.results_[0].status.ok
    assert (model.predict(X) == (label == 1)).all()


def test_of_several_classes_there_is_one_warning():
    X, label = blobs()
    found, model = warned(lambda: mr.MERClassifier(alpha=0.0, **QUIET).fit(X, label))
    (warning,) = found
    assert "the data are separable" in str(warning.message)
    assert not model.converged_


def test_the_default_penalty_makes_the_fit_exist():
    X, label = blobs()
    found, model = warned(lambda: mr.MERClassifier(**QUIET).fit(X, label))
    assert not found
    assert model.converged_


def test_steps_that_stop_short_warn_and_steps_that_were_asked_for_do_not():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(3000)
    found, model = warned(lambda: mr.MERRegressor(step=1e-4, **QUIET).fit(X, y))
    assert [warning.category for warning in found] == [ConvergenceWarning]
    assert not model.converged_
    found, model = warned(lambda: mr.MERRegressor(replay=mr.Dyadic(), **QUIET).fit(X, y))
    assert not found  # an experiment with an order: it ran, and is measured when asked
    assert model.results_[0].status.code == "ran"
    assert model.converged_ == (model.results_[0].distance <= 0.1)


def test_a_stream_that_has_only_begun_is_not_warned_of():
    """One class at first, so that there is no fit; what comes of it is an answer for the time being."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((8, 2))
    found, model = warned(lambda: mr.MERClassifier(alpha=0.0).partial_fit(X, np.ones(8), classes=[0, 1]))
    assert not found
    assert (model.predict(X) == 1).all()


def test_columns_that_are_free_go_by_their_names():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.integers(-4, 5, (500, 3)), columns=["north", "east", "up"]).astype(float)
    frame["both"] = frame.north + frame.east
    frame["broken"] = 0.0
    y = frame.up + rng.standard_normal(500)
    model = mr.MERRegressor(alpha=0.0, standardize=False, fit_intercept=False, **QUIET).fit(frame, y)
    assert set(model.free_) == {("north", "east", "both"), ("broken",)}
    status = str(model.results_[0].status)
    assert "'broken' is never active" in status
    assert "'north', 'east', 'both' are combinations of one another" in status
    assert "'broken'" in model.results_[0].notes[0]
    assert model.converged_
    plain = mr.MERRegressor(alpha=0.0, standardize=False, fit_intercept=False, **QUIET).fit(frame.to_numpy(), y)
    assert set(plain.free_) == {(0, 1, 3), (4,)}
    assert "x[4] is never active" in str(plain.results_[0].status)
    settled = mr.MERRegressor(alpha=0.0, **QUIET).fit(frame.assign(site=7.0), y)  # which is 0 when it is centred
    assert "'broken', 'site' are constant; 'north'" in str(settled.results_[0].status)
    table = settled.summary()
    assert [row["mark"] for row in table.rows if math.isinf(row["standard error"])] == [
        "the record says nothing of it"
    ] * 6
    assert all(math.isnan(row[entry]) for row in table.rows[3:5] for entry in ("t", "p", "effective"))
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(frame.to_numpy(), y, rcond=None)[0], atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_runs_have_the_names_of_the_columns(intercept):
    rng = np.random.default_rng(44)
    X, y = rng.standard_normal((300, 2)), rng.standard_normal(300)
    for frame, names in (
        (pd.DataFrame(X, columns=["north", "east"]), ("north", "east", "(intercept)")),
        (pd.DataFrame(X, columns=["north", "(intercept)"]), ("north", "(intercept)")),
        (X, ("x[0]", "x[1]", "x[2]")),
    ):
        wanted = names[: 2 + intercept] if len(names) == 3 or not intercept else ("x[0]", "x[1]", "x[2]")
        kinds = {"fit_intercept": intercept, **QUIET}
        assert mr.MERRegressor(**kinds).fit(frame, y).results_[0].run.names == wanted
        value = mr.MERValueRegressor(**kinds).fit(frame, y)
        assert value.results_[0].run.names == wanted
        several = mr.MERClassifier(**kinds).fit(frame, np.digitize(y, [-0.5, 0.5]))
        called = several.results_[0].run.names
        both = tuple(f"{name} (contrast {number})" for number in (1, 2) for name in wanted)
        assert called == (both if "north" in wanted else tuple(f"x[{i}]" for i in range(len(both))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_have_the_names_of_the_columns():
    frame = pd.DataFrame(np.random.default_rng(45).standard_normal((300, 2)), columns=["north", "east"])
    with pytest.raises(mr.InputError, match="feature 'east' has values of up to"):
        mr.MERRegressor(standardize=False, **QUIET).fit(frame * [1, 1e200], frame.north)


def test_a_constant_column_beside_the_intercept_is_free():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"load": rng.standard_normal(400), "one": np.ones(400)})
    y = frame.load + 3 + rng.standard_normal(400)
    apart = mr.MERRegressor(alpha=0.0, standardize=False, **QUIET).fit(frame, y)
    assert apart.free_ == (("one", "(intercept)"),)
    together = mr.MERRegressor(alpha=0.0, **QUIET).fit(frame, y)
    assert together.free_ == (("one",),)
    np.testing.assert_allclose(apart.predict(frame), together.predict(frame))
    assert mr.MERRegressor(**QUIET).fit(frame, y).free_ == ()


@pytest.mark.parametrize("rows", [4000, 120_000])
def test_rare_events_and_rare_features_come_to_the_minimum(rows):
    """On the few rows all at once, on the many by corrections."""
    rng = np.random.default_rng(rows)
    slow = lfilter([1.0], [1.0, -0.9], rng.standard_normal((rows, 3)), axis=0)
    X = np.column_stack([slow, rng.random(rows) < 200 / rows])
    y = rng.random(rows) < 1 / (1 + np.exp(-(X @ [0.2, -0.2, 0.1, 2.0] - 4)))
    model = mr.MERClassifier(alpha=0.0, **QUIET).fit(X, y)
    exact = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-9, max_iter=1000).fit(X, y)
    errors = model.results_[0].standard_error[:-1] / X.std(axis=0)
    assert model.converged_
    assert (np.abs(model.coef_ - exact.coef_) <= 0.1 * errors).all()


def test_powers_of_a_year_come_to_the_minimum():
    rng = np.random.default_rng(6)
    year = np.linspace(1900, 2020, 5000)
    X = np.column_stack([year, year**2])
    y = 0.01 * (year - 1950) ** 2 + rng.standard_normal(5000)
    for standardize in (True, False):
        model = mr.MERRegressor(alpha=0.0, standardize=standardize, **QUIET).fit(X, y)
        assert model.converged_
        assert np.std(y - model.predict(X)) == pytest.approx(1.0, abs=0.05)
    counts = rng.poisson(np.exp(0.02 * (year - 1950)))
    ours = mr.MERPoissonRegressor(alpha=0.0, **QUIET).fit(X, counts)
    centred = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = PoissonRegressor(alpha=0.0, solver="newton-cholesky", tol=1e-10, max_iter=1000).fit(centred, counts)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(centred), rtol=1e-5)
