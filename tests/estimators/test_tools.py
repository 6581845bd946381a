"""The estimators among scikit-learn's other tools: pipelines, splits, searches, frames, pickles."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimators.worlds import ROWS, make
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import multireplay as mr

ALL = [mr.MERRegressor, mr.MERClassifier, mr.MERPoissonRegressor, mr.MERValueRegressor]
NAMES = ["wind", "heat", "rain"]


def target_of(kind, world):
    return (
        world.labels if kind is mr.MERClassifier else world.counts if kind is mr.MERPoissonRegressor else world.amounts
    )


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_frames(kind, frame):
    world = make(rows=300)
    X, y = frame(dict(zip(NAMES, world.X.T, strict=True))), target_of(kind, world)
    model = kind().fit(X, y)
    assert model.feature_names_in_.tolist() == NAMES
    plain = kind().fit(world.X, y)
    assert np.allclose(model.coef_, plain.coef_, rtol=1e-7)
    same = np.array_equal if kind is mr.MERClassifier else np.allclose
    assert same(model.predict(X), plain.predict(world.X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[NAMES[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(world.X)


def test_a_series_of_targets_and_weights():
    world = make(rows=300)
    frame, weights = pd.DataFrame(world.X, columns=NAMES), pd.Series(world.weights, index=range(7, 307))
    model = mr.MERClassifier().fit(frame, pd.Series(world.labels, index=range(7, 307)), sample_weight=weights)
    plain = mr.MERClassifier().fit(world.X, world.labels, world.weights)
    assert np.allclose(model.coef_, plain.coef_, rtol=1e-7)
    assert set(model.predict(frame)) == {"down", "up"}


def test_set_output_is_for_what_comes_before():
    """A predictor has no transform whose output could be set; the names that a transformer sets reach it."""
    world = make(rows=300)
    frame = pd.DataFrame(world.X, columns=NAMES)
    pipe = make_pipeline(StandardScaler(), mr.MERRegressor()).set_output(transform="pandas").fit(frame, world.amounts)
    assert pipe[-1].feature_names_in_.tolist() == NAMES
    assert not hasattr(mr.MERRegressor(), "set_output")
    assert isinstance(pipe.predict(frame), np.ndarray)


def test_a_scaler_before_is_what_standardize_does():
    world = make()
    outside = make_pipeline(StandardScaler(), mr.MERRegressor(standardize=False)).fit(world.X, world.amounts)
    inside = mr.MERRegressor().fit(world.X, world.amounts)
    assert np.allclose(outside.predict(world.X), inside.predict(world.X), rtol=1e-9)


def test_in_a_search_over_time():
    world = make(rows=1200, sticky=0.9)
    splits = TimeSeriesSplit(3, gap=20)
    pipe = make_pipeline(make_column_transformer((PolynomialFeatures(2), [0, 1, 2])), mr.MERRegressor())
    grid = {"merregressor__alpha": [1e-4, 0.1, 100.0], "merregressor__replay": [None, mr.Multiscale()]}
    search = GridSearchCV(pipe, grid, cv=splits).fit(world.X, world.amounts)
    assert search.best_params_["merregressor__alpha"] < 100
    assert search.best_score_ > 0.3
    assert cross_val_score(mr.MERClassifier(), world.X, world.labels, cv=splits, scoring="neg_log_loss").mean() > -0.67
    exact = cross_val_score(make_pipeline(StandardScaler(), Ridge(0.1)), world.X, world.amounts, cv=splits)
    mine = cross_val_score(mr.MERRegressor(), world.X, world.amounts, cv=splits)
    assert np.allclose(mine, exact, atol=0.01)


@pytest.mark.parametrize("kind", ALL)
def test_clone_and_pickle(kind):
    world = make(rows=300)
    model = kind(alpha=0.5, replay=mr.Multiscale(epochs=5), step=0.1, warn_autocorrelation=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    model.fit(world.X, target_of(kind, world))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(world.X), model.predict(world.X))
    assert str(again.results_[0].status) == str(model.results_[0].status)
    assert "alpha=0.5" in repr(model)


def test_kinds():
    assert is_classifier(mr.MERClassifier())
    assert all(is_regressor(kind()) for kind in (mr.MERRegressor, mr.MERPoissonRegressor, mr.MERValueRegressor))


@pytest.mark.parametrize("replay", [mr.Multiscale(), mr.Shuffle(0), mr.Serial()])
def test_another_order(replay):
    world = make()
    model = mr.MERRegressor(replay=replay, step=0.02).fit(world.X, world.amounts)
    A = np.column_stack([(world.X - world.X.mean(axis=0)) / world.X.std(axis=0), np.ones(ROWS)])
    problem = mr.GLM(ridge=1e-4, unpenalized=1)
    buffer = mr.Buffer(features=A, targets=world.amounts)
    x = mr.solve(problem, buffer, replay=replay, step=0.02, x0=[0, 0, 0, world.amounts.mean()]).x
    assert np.allclose(model.coef_, x[:3] / world.X.std(axis=0), rtol=1e-9)


def test_scikit_learn_is_imported_only_when_it_is_needed():
    code = "import sys, multireplay; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"MERRegressor", "estimators", "solve"} <= set(dir(mr))
    with pytest.raises(AttributeError, match="no attribute 'MERGuess'"):
        mr.MERGuess  # noqa: B018
