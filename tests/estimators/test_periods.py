"""Records with a period, which an order may be in step with."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from estimators.worlds import make

import multireplay as mr


@pytest.mark.parametrize("period", [2, 4, 16])
@pytest.mark.parametrize("rows", [256, 2048, 40_000])
def test_periods_of_a_power_of_two(period, rows):
    X = np.eye(period)[np.arange(rows + 1) % period][:, :-1]
    rewards = X @ np.arange(1.0, period)
    with warnings.catch_warnings():
        warnings.simplefilter("error", mr.DivergenceWarning)
        model = mr.MERValueRegressor(gamma=0.5, alpha=1e-6, warn_autocorrelation=False).fit(X, rewards)
    order = np.tile(np.append(np.arange(1.0, period), 0), 40)
    values = np.array([order[start : start + 60] @ 0.5 ** np.arange(60) for start in range(period)])
    assert np.abs(model.predict(X[:period]) - values).max() < 0.05 * np.ptp(values)


def test_an_order_that_was_asked_for_is_kept():
    X = np.eye(2)[np.arange(2049) % 2][:, :1]
    options = {"gamma": 0.5, "warn_autocorrelation": False}
    for passes in (None, 3):
        model = mr.MERValueRegressor(replay=mr.Dyadic(), passes=passes, **options).fit(X, X[:, 0])
        assert "in the order of Dyadic()" in str(model.results_[0].status)
        assert "shuffled" not in str(model.results_[0].status)


def test_where_features_leave_the_answer_open_a_period_does_no_harm():
    """Without a penalty, two features that are the same share what both are worth."""
    season = np.arange(2**12) % 2 == 0
    noise = np.random.default_rng(0).standard_normal(2**12)
    X = np.column_stack([season, season, noise])
    y = 2.0 * season - noise
    model = mr.MERRegressor(alpha=0.0, warn_autocorrelation=False).fit(X, y)
    assert model.free_ == ((0, 1),)
    assert model.coef_ == pytest.approx([1.0, 1.0, -1.0])
    assert np.abs(model.predict(X) - y).max() < 1e-6


def test_warnings_of_a_run_are_passed_on():
    world = make()
    with pytest.warns(mr.DivergenceWarning):
        mr.MERRegressor(step=100.0).fit(world.X, world.amounts)
    with pytest.warns(UserWarning, match="features differ in size"):
        mr.MERRegressor(standardize=False, replay=mr.Dyadic()).fit(world.X, world.amounts)
