"""The estimator: against emcee, against closed forms, and against itself on transformed input."""

from __future__ import annotations

import logging
import tracemalloc

import numpy as np
import pytest
from emcee.autocorr import integrated_time
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from multireplay.diagnose import integrated_autocorrelation_time
from multireplay.diagnose.autocorrelation import autocorrelation, estimate
from multireplay.errors import InputError


def ar1(phi, rows, seed, features=None):
    """A stationary AR(1) series (or several), its start forgotten."""
    shape = (rows + 3000,) if features is None else (rows + 3000, features)
    noise = np.random.default_rng(seed).standard_normal(shape)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)[3000:]


def emcee_time(x, c=5):
    logging.getLogger("emcee.autocorr").setLevel(logging.ERROR)
    return integrated_time(x, c=c, quiet=True, has_walkers=False)


def hidden_chain(rows, seed, stay=0.95):
    """A sticky two-state chain: its indicator has autocorrelation (2 stay - 1)^t."""
    flips = np.random.default_rng(seed).random(rows) > stay
    return np.cumsum(flips) % 2


SERIES = {
    "ar 0.3": lambda s: ar1(0.3, 20_011, s),
    "ar 0.9": lambda s: ar1(0.9, 20_011, s),
    "ar 0.99, too short": lambda s: ar1(0.99, 3000, s),
    "two states": lambda s: hidden_chain(10_000, s),
    "moving average": lambda s: np.convolve(np.random.default_rng(s).exponential(size=10_000), np.ones(8)),
    "random walk": lambda s: np.cumsum(np.random.default_rng(s).standard_normal(5000)),
    "ramp": lambda s: np.arange(1000 + s),
    "slow sine": lambda s: np.sin(np.arange(10_000) / (20 + s)),
    "far from zero": lambda s: 1e6 + ar1(0.8, 8192, s),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SERIES)
def test_equals_emcee_where_neighbours_attract(name, seed):
    x = SERIES[name](seed)
    expected = emcee_time(x)[0]
    assert expected > 1
    assert integrated_autocorrelation_time(x) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("c", [3, 5, 8])
def test_equals_emcee_for_other_windows(c):
    x = ar1(0.9, 10_000, 1)
    assert integrated_autocorrelation_time(x, c=c) == pytest.approx(emcee_time(x, c)[0], rel=1e-9)


@pytest.mark.parametrize("phi", [-0.9, -0.5, -0.2, 0.0, 0.3, 0.6, 0.9, 0.95])
def test_closed_form_of_ar1(phi):
    """The mean over 24 series of 50000 rows is within 5 %, each single one within 35 % or 0.05."""
    tau = integrated_autocorrelation_time(ar1(phi, 50_000, 7, features=24))
    exact = (1 + phi) / (1 - phi)
    assert tau.mean() == pytest.approx(exact, rel=0.05, abs=0.01)
    np.testing.assert_allclose(tau, exact, rtol=0.35, atol=0.05)


def test_closed_form_of_a_moving_average():
    """Equal weights over q steps: rho_t = 1 - t/q, so tau = q."""
    x = np.lib.stride_tricks.sliding_window_view(np.random.default_rng(0).standard_normal(100_006), 7).mean(1)
    assert integrated_autocorrelation_time(x) == pytest.approx(7, rel=0.07)


def test_variance_of_the_mean_is_what_tau_says():
    x = ar1(0.8, 2000, 3, features=600)
    ratio = 2000 * x.mean(axis=0).var() / x.var()
    assert np.mean(integrated_autocorrelation_time(x)) == pytest.approx(ratio, rel=0.15)


def test_short_independent_series_do_not_claim_more_than_their_rows():
    x = np.random.default_rng(0).standard_normal((20, 500))
    assert integrated_autocorrelation_time(x).min() == 1.0


def test_exact_cancellation_is_not_believed():
    series = np.tile([1.0, -1.0], 3000)[:, None]
    tau, reliable = estimate(series, np.array([0]))
    assert tau == [1.0]
    assert not reliable[0]


def test_strongly_antithetic_series_stays_positive_where_the_plain_window_does_not():
    x = ar1(-0.9, 30_000, 0)
    assert emcee_time(x)[0] < 0.03
    assert integrated_autocorrelation_time(x) == pytest.approx(1 / 19, abs=0.03)


@pytest.mark.parametrize("rows", [20_000, 5000])
def test_reliable_from_fifty_times_tau(rows):
    x = ar1(0.98, rows, 5)[:, None]
    tau, reliable = estimate(x, np.array([0]))
    assert bool(reliable[0]) == (rows >= 50 * tau[0])


def test_constant_is_nan_in_every_dtype():
    for value in (0.1, 3.0e38, -7.3):
        assert np.isnan(integrated_autocorrelation_time(np.full(77, value, dtype=np.float32)))
        assert np.isnan(integrated_autocorrelation_time(np.full(77, value)))
    assert np.isnan(integrated_autocorrelation_time(np.ones(50, dtype=bool)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f8", np.int8, np.uint64])
def test_dtypes(dtype):
    x = np.round(10 * ar1(0.9, 4000, 2)).clip(-100, 100) + 100 * (np.dtype(dtype).kind == "u")
    expected = integrated_autocorrelation_time(x.astype(np.float64))
    assert integrated_autocorrelation_time(x.astype(dtype)) == pytest.approx(expected, rel=1e-9)


def test_booleans_are_zeros_and_ones():
    x = hidden_chain(20_000, 4)
    assert integrated_autocorrelation_time(x == 1) == integrated_autocorrelation_time(x.astype(float))
    assert integrated_autocorrelation_time(x == 1) == pytest.approx(19, rel=0.25)


def test_extreme_sizes_neither_overflow_nor_vanish():
    x = ar1(0.7, 3000, 1)
    x /= np.abs(x).max()
    expected = integrated_autocorrelation_time(x)
    for scale in (1e-290, 1e-30, 1e30, 1.7e308):
        assert integrated_autocorrelation_time(x * scale) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    phi=st.floats(-0.8, 0.95),
    rows=st.integers(100, 1200),
    power=st.integers(-20, 20),
    shift=st.integers(-1000, 1000),
    negative=st.booleans(),
)
def test_invariant_to_shift_scale_and_reversal(seed, phi, rows, power, shift, negative):
    # Scales and shifts that are exact in binary, since a window chosen by comparison may jump on rounding.
    x = np.round(ar1(phi, rows, seed) * 2**20) / 2**20
    expected = integrated_autocorrelation_time(x)
    assert integrated_autocorrelation_time((x + shift) * (-1 if negative else 1) * 2.0**power) == pytest.approx(
        expected, rel=1e-6
    )
    assert integrated_autocorrelation_time(x[::-1]) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), features=st.integers(1, 9), block=st.integers(1, 9))
def test_blocks_equal_one_series_at_a_time(seed, features, block):
    x = ar1(0.8, 600, seed, features=features)
    x[:, seed % features] = 3.0
    direct = [integrated_autocorrelation_time(column) for column in x.T]
    blocked, _ = estimate(x, np.arange(features), block_bytes=80 * 600 * block)
    np.testing.assert_allclose(blocked, direct, rtol=1e-9)
    np.testing.assert_allclose(integrated_autocorrelation_time(np.asfortranarray(x)), direct, rtol=1e-9)


def test_any_choice_and_order_of_features():
    x = ar1(0.8, 500, 0, features=12)
    every = integrated_autocorrelation_time(x)
    for chosen in ([0, 4, 8], [1, 2, 7], [11, 3], [5], [9, 6, 3]):
        np.testing.assert_allclose(estimate(x, np.array(chosen))[0], every[chosen], rtol=1e-12)
    np.testing.assert_allclose(integrated_autocorrelation_time(x[:, ::-1]), every[::-1], rtol=1e-12)


def test_memory_stays_bounded_and_the_input_is_untouched():
    x = np.random.default_rng(0).standard_normal((150_000, 24), dtype=np.float32)
    x.flags.writeable = False
    tracemalloc.start()
    tau = integrated_autocorrelation_time(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    assert np.all(np.abs(tau - 1) < 0.1)


def test_autocorrelation_function_by_definition():
    x = np.random.default_rng(3).standard_normal(57).cumsum()
    centred = x - x.mean()
    expected = [sum(centred[t] * centred[t + lag] for t in range(57 - lag)) / sum(centred**2) for lag in range(21)]
    assert autocorrelation(x, lags=20) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(autocorrelation(np.ones(10), lags=3)).all()


@pytest.mark.parametrize(("x", "lags", "word"), [(np.eye(5), 1, "one series"), (np.arange(5.0), 5, "lags 0 to 4")])
def test_autocorrelation_function_refuses(x, lags, word):
    with pytest.raises(InputError, match=word):
        autocorrelation(x, lags)
