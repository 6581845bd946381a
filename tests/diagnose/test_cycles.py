"""Cycles: found, told by their period, and taken out of the autocorrelation time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.signal import lfilter

from multireplay.diagnose import diagnose
from multireplay.diagnose.cycles import remove_cycles

DAY = 24


def ar1(phi, rows, rng, features=1):
    """Stationary AR(1) series of variance one, one a row."""
    noise = rng.standard_normal((features, rows)) * np.sqrt(1 - phi**2)
    start = phi * rng.standard_normal((features, 1))
    return lfilter([1.0], [1.0, -phi], noise, axis=1, zi=start)[0]


def centred(series):
    return series - series.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", [401, 402, 403])
def test_a_daily_cycle_over_a_slow_series(seed):
    """The cycle has 3.56 times the variance of the AR(.98): rows x Var(mean)/Var(row) is 99/4.56 = 21.7."""
    rows = 100_000
    cycle = np.sqrt(2 * 3.56) * np.sin(2 * np.pi * np.arange(rows) / DAY + seed)
    d = diagnose({"load": cycle + ar1(0.98, rows, np.random.default_rng(seed))[0]})
    (column,) = d.columns
    assert d.tau == pytest.approx(21.7, rel=0.3)
    assert column.tau_rest == pytest.approx(99, rel=0.3)
    assert column.period == pytest.approx(DAY, rel=1e-4)
    assert column.cyclic_feature == 0
    assert column.batch is None
    assert "has a cycle of 24 rows and an autocorrelation time of" in d.sentence
    assert "without the cycle" in d.sentence
    assert "cycle of 24" in str(d)


@pytest.mark.parametrize("period", [24, 24.37, 2.9, 168, 365.25])
@pytest.mark.parametrize("rows", [10_000, 10_007])
def test_what_is_left_is_the_rest(period, rows):
    """A cycle of any shape, of ten times the variance of the rest."""
    rng = np.random.default_rng(411)
    rest = centred(ar1(0.8, rows, rng))
    turns = 2 * np.pi * np.arange(rows) / period
    x = centred(rest + 4 * np.cos(turns) + 2 * np.sin(2 * turns + 1) * (period > 4))
    (cycle,) = remove_cycles(x, 0.001)
    assert cycle.period == pytest.approx(period, rel=1e-3)
    assert np.mean((x - rest) ** 2) < 0.01
    assert 1 - cycle.share == pytest.approx(rest.var() / (rest.var() + 8 + 2 * (period > 4)), rel=0.1)


def test_a_cycle_of_another_shape_is_told_by_its_whole_turn():
    x = (np.arange(20_000) % DAY < 8) + 0.3 * ar1(0.9, 20_000, np.random.default_rng(412))[0]
    (column,) = diagnose(x).columns
    assert column.period == pytest.approx(DAY, rel=1e-4)
    assert column.tau_rest == pytest.approx(19, rel=0.35)


def test_a_cycle_hides_no_slow_component():
    rng = np.random.default_rng(413)
    rows = 100_000
    x = np.sin(2 * np.pi * np.arange(rows) / DAY) + rng.standard_normal(rows) + 0.1 * ar1(0.999, rows, rng)[0]
    d = diagnose(x)
    assert d.columns[0].batch is not None
    assert "a cycle of 24 rows, which averages out, and beside it a slow component: the sum" in d.sentence
    assert d.tau == pytest.approx(d.columns[0].tau_rest * 1.01 / 1.51, rel=0.02)


def test_a_cycle_in_another_column_than_the_slowest_is_told_too():
    rng = np.random.default_rng(414)
    y = rng.standard_normal((9000, 3))
    y[:, 1] += np.sin(2 * np.pi * np.arange(9000) / DAY)
    d = diagnose({"x": rng.standard_normal(9000), "y": y})
    assert d.tau < 1.5
    assert d.columns[1].cyclic_feature == 1
    assert "y[1] has a cycle of 24 rows" in d.sentence
    assert "plain SGD" not in d.sentence


@pytest.mark.parametrize("period", [24, 24.37])
def test_nothing_but_a_cycle_is_too_regular(period):
    d = diagnose(np.sin(2 * np.pi * np.arange(30_000) / period))
    assert not d.reliable
    assert (
        f"too regular, to tell the autocorrelation time of the slowest column (series) beside its cycle of {period:.3g}"
        in d.sentence
    )


@pytest.mark.parametrize(("phi", "seed"), [(0.0, 421), (0.5, 422), (0.9, 423), (0.99, 424), (0.999, 425), (-0.9, 426)])
@pytest.mark.parametrize("rows", [200, 2000, 20_011])
def test_no_false_alarm(phi, seed, rows):
    """At this level 1 in 100 records of 20 series may have one; none of these has."""
    x = centred(ar1(phi, rows, np.random.default_rng(seed), 20))
    before = x.copy()
    assert remove_cycles(x, 0.01 / 20) == [None] * 20
    assert np.array_equal(x, before)


def test_neither_trends_nor_random_walks_nor_steps_are_cycles():
    rng = np.random.default_rng(431)
    t = np.arange(5000.0)
    shapes = [t, t**2, np.exp(t / 500), t > 2000, rng.standard_normal(5000).cumsum(), t == 77, np.sin(t / 1000)]
    assert remove_cycles(centred(np.array(shapes, dtype=float)), 0.001) == [None] * len(shapes)


def test_sparse_columns_and_states():
    rng = np.random.default_rng(432)
    rows = 12_000
    turning = (np.arange(rows) % DAY == 3) * (1 + 0.5 * rng.standard_normal(rows))
    A = np.column_stack([(rng.random(rows) < 0.05) * 1.0, turning, np.zeros(rows)])
    dense, sparse = (diagnose({"features": array}) for array in (A, sp.csr_array(A)))
    assert sparse.columns[0].period == dense.columns[0].period == pytest.approx(DAY, rel=1e-4)
    assert str(sparse) == str(dense)
    states = np.where(np.arange(rows) % DAY == 0, 0, rng.integers(1, 4, rows))
    assert diagnose({"states": states}).columns[0].period == pytest.approx(DAY, rel=1e-4)
