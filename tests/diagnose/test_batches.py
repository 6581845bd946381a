"""Slow components hidden under faster noise: found by batch means, and only where there are any."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

from multireplay.diagnose import diagnose
from multireplay.diagnose.batches import autocorrelation_times

ROWS = 100_000


def ar1(phi, rows, rng, features=1):
    """Stationary AR(1) series of variance one, one a row."""
    noise = rng.standard_normal((features, rows)) * np.sqrt(1 - phi**2)
    start = phi * rng.standard_normal((features, 1))
    return lfilter([1.0], [1.0, -phi], noise, axis=1, zi=start)[0]


def centred(series):
    return series - series.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", [301, 302, 303])
def test_white_noise_over_a_tenth_of_a_slow_series_is_not_called_independent(seed):
    rng = np.random.default_rng(seed)
    x = ar1(0.0, ROWS, rng)[0] + 0.1 * ar1(0.999, ROWS, rng)[0]
    d = diagnose({"x": x, "white": rng.standard_normal(ROWS)})
    slow, white = d.columns
    true = (1 + 0.01 * 1999) / 1.01  # 20.8
    assert slow.tau_short < 1.3
    assert true / 3 < d.tau < 2 * true
    assert d.slowest is slow
    assert d.ess == ROWS / d.tau
    assert slow.batch >= 256
    assert white.batch is None
    assert "has a slow component: the sum over short lags says 1." in d.sentence
    assert f"batches of {slow.batch} rows say" in d.sentence
    assert "plain SGD" not in d.sentence
    assert "slow part" in str(d)
    assert d.to_dict()["columns"][0]["batch"] == slow.batch


def test_nearly_every_one_is_found_down_to_a_twentieth():
    rng = np.random.default_rng(311)
    x = ar1(0.0, ROWS, rng, 24) + 0.05 * ar1(0.999, ROWS, rng, 24)
    times = autocorrelation_times(centred(x), 0.001)
    assert sum(time.batch > 1 for time in times) >= 23
    assert np.mean([time.tau for time in times]) == pytest.approx((1 + 0.0025 * 1999) / 1.0025, rel=0.35)


def test_a_record_shorter_than_the_memory_of_its_slow_part_gives_a_lower_bound():
    rng = np.random.default_rng(312)
    x = ar1(0.0, 20_000, rng)[0] + 0.3 * np.linspace(-1, 1, 20_000)  # a drift
    d = diagnose(x)
    assert not d.reliable
    assert "say at least" in d.sentence
    assert "carry at most about" in d.sentence
    assert "lower bound, slow" in str(d)


@pytest.mark.parametrize(("phi", "seed"), [(0.0, 321), (0.5, 322), (0.9, 323), (0.99, 324), (0.999, 325), (-0.9, 326)])
@pytest.mark.parametrize("rows", [2000, 20_011])
def test_no_false_alarm(phi, seed, rows):
    """At this level 1 in 100 records of 20 series may have one; none of these has."""
    x = ar1(phi, rows, np.random.default_rng(seed), 20)
    assert all(time.batch == 1 for time in autocorrelation_times(centred(x), 0.01 / 20))


def test_rare_events_that_meet_by_chance_are_no_slow_component():
    """Of twenty ones in 50000 rows two are often neighbours in a batch of 64; they must meet more often than that."""
    rng = np.random.default_rng(331)
    rare = np.zeros((40, 50_000))
    for row in rare:
        row[rng.choice(50_000, 20, replace=False)] = 1.0
    assert all(time.batch == 1 for time in autocorrelation_times(centred(rare), 0.02 / 40))


def test_heavy_tails_are_no_slow_component():
    x = np.random.default_rng(332).standard_t(2.5, (20, 20_000))
    assert all(time.batch == 1 for time in autocorrelation_times(centred(x), 0.02 / 20))


@pytest.mark.parametrize("rows", [4, 5, 9, 63, 64, 65, 200])
def test_short_and_regular_records(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.arange(rows) % 2, np.arange(rows) == 2, np.arange(rows) % 8, np.arange(rows) ** 2):
            d = diagnose({"x": x, "constant": np.ones(rows)})
            assert np.isfinite(d.tau)
            assert d.columns[1].batch is None
