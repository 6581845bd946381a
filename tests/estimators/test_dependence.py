"""The warning for autocorrelated rows: there when it matters, absent when not, and its numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from estimators.worlds import make
from scipy.signal import lfilter

import multireplay as mr
from multireplay.estimators.dependence import Dependence, by_batch_means, slowest

KINDS = [mr.MERRegressor, mr.MERClassifier, mr.MERPoissonRegressor]


def target_of(kind, world):
    return {mr.MERRegressor: world.amounts, mr.MERClassifier: world.labels, mr.MERPoissonRegressor: world.counts}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_sticky_rows_are_warned_of_with_the_number(kind):
    world = make(rows=20_000, sticky=0.999, seed=2)
    with pytest.warns(mr.AutocorrelationWarning) as caught:
        model = kind(warn_autocorrelation=True).fit(world.X, target_of(kind, world))
    found, text = model.dependence_, str(caught[0].message)
    assert found.biased
    assert found.tau > 100
    assert found.in_order > 2 + found.dyadic
    assert f"autocorrelation time of {found.tau:.3g} rows" in text
    assert f"a bias of about {found.in_order:.2g} standard errors" in text
    assert f"off by {found.dyadic:.2g}" in text
    assert ("SGDClassifier(shuffle=False)" in text) == (kind is mr.MERClassifier)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sticky", [0.0, 0.3])
def test_nearly_independent_rows_are_not(kind, sticky):
    for rows in (100, 3000, 20_000):
        world = make(rows=rows, sticky=sticky, seed=rows)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = kind(warn_autocorrelation=True).fit(world.X, target_of(kind, world)).dependence_
        assert found is None if rows < 512 else (found.tau < 3 and found.in_order is None)


def test_nobody_is_warned_who_does_not_ask_and_a_warning_names_the_feature():
    world = make(rows=20_000, sticky=0.999, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mr.MERRegressor().fit(world.X, world.amounts).dependence_ is None
    frame = pd.DataFrame(world.X, columns=["wind", "heat", "rain"])
    frame["calm"] = np.random.default_rng(0).standard_normal(20_000)
    with pytest.warns(mr.AutocorrelationWarning, match="feature '(wind|heat|rain)' has"):
        mr.MERRegressor(warn_autocorrelation=True).fit(frame, world.amounts)


def test_the_number_is_what_a_pass_in_order_would_have_given():
    """The same by hand: a pass in order, the mean gradient where it ends, and its standard error from batch means."""
    world = make(rows=8192, sticky=0.999)
    with pytest.warns(mr.AutocorrelationWarning):
        found = mr.MERRegressor(warn_autocorrelation=True).fit(world.X, world.amounts).dependence_
    A = np.column_stack([(world.X - world.X.mean(axis=0)) / world.X.std(axis=0), np.ones(8192)])
    buffer = mr.Buffer(features=A, targets=world.amounts)
    problem = mr.GLM(ridge=1e-4, unpenalized=1)
    x0 = [0, 0, 0, world.amounts.mean()]
    sizes, errors = [], []
    for replay in (mr.Serial(), mr.Dyadic()):
        x = mr.solve(problem, buffer, replay=replay, x0=x0).x
        gradients = A * (A @ x - world.amounts)[:, None] + 1e-4 * np.append(x[:3], 0)
        batches = gradients.reshape(32, 256, 4).mean(axis=1)
        sizes.append(np.linalg.norm(gradients.mean(axis=0)))
        errors.append(np.sqrt(batches.var(axis=0, ddof=1).sum() / 32))
    assert found.rows == 8192
    assert found.in_order == pytest.approx(sizes[0] / errors[1], rel=1e-6)
    assert found.dyadic == pytest.approx(sizes[1] / errors[1], rel=1e-6)


def test_only_the_last_rows_of_a_long_record_are_looked_at():
    world = make(rows=40_000)
    found = mr.MERRegressor(warn_autocorrelation=True).fit(world.X, world.amounts).dependence_
    assert found.rows == 2**14


def test_autocorrelation_times_of_known_series():
    noise = np.random.default_rng(1).standard_normal((50_000, 4))
    series = np.column_stack([noise[:, 0], lfilter([1], [1, -0.9], noise[:, 1]), np.ones(50_000), noise[:, 2]])
    tau, column = slowest(series)
    assert column == 1
    assert tau == pytest.approx(19, rel=0.15)  # (1 + φ)/(1 − φ)
    rough = by_batch_means(series, (50_000,))
    assert rough[1] == pytest.approx(19, rel=0.3)
    assert rough[0] == pytest.approx(1, rel=0.3)
    assert rough[2] == 0
    assert slowest(np.ones((600, 2)))[0] == 1


def alternating(groups=400, rows=50, seed=3):
    """Series whose level is 1 or −1 by turns: batches of two of them seem to have no dependence at all."""
    level = np.repeat(np.where(np.arange(groups) % 2, 1.0, -1.0), rows)
    noise = np.random.default_rng(seed).standard_normal((2, groups * rows))
    x = level + 0.3 * noise[0]
    return x[:, None], x + noise[1], np.repeat(np.arange(groups), rows)


@pytest.mark.parametrize("turns", [False, True])
def test_nothing_is_measured_across_the_border_of_two_series(turns):
    """Once 1.0: borders were crossed, and levels cancelled."""
    X, y, groups = alternating(200)
    order = np.arange(len(y)).reshape(-1, 50).T.ravel() if turns else np.arange(len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.AutocorrelationWarning)
        found = mr.MERRegressor(warn_autocorrelation=True).fit(X[order], y[order], groups=groups[order]).dependence_
        joined = mr.MERRegressor(warn_autocorrelation=True).fit(X, y).dependence_
        value = (
            mr.MERValueRegressor(gamma=0.5, warn_autocorrelation=True)
            .fit(X[order], y[order], groups=groups[order])
            .dependence_
        )
    assert joined.tau < 2
    assert found.tau > 20
    assert value.tau > 20


def test_batches_lie_within_chains():
    series = np.arange(20.0)[:, None] % 7
    lengths = (9, 1, 4, 6)
    parts = [
        series[start + k : start + k + 4] for start, count in ((0, 2), (10, 1), (14, 1)) for k in range(0, 4 * count, 4)
    ]
    means, rows = np.array([part.mean() for part in parts]), np.concatenate(parts)
    assert by_batch_means(series, lengths) == pytest.approx(4 * means.var(ddof=1) / rows.var())
    assert by_batch_means(series, (1,) * 20) == 1


def test_sentences():
    assert "would have diverged (one pass" in Dependence(9.0, "feature 1", 999, np.inf, 0.5).sentence("SGD")
    assert "too little to matter" in Dependence(2.0, "feature 1", 999).sentence("SGD")
    assert not Dependence(2.0, "feature 1", 999).biased
    assert not Dependence(50.0, "feature 1", 999, in_order=1.9, dyadic=0.0).biased
    assert not Dependence(50.0, "feature 1", 999, in_order=5.0, dyadic=3.1).biased
    assert Dependence(50.0, "feature 1", 999, in_order=5.0, dyadic=2.9).biased
