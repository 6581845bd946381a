"""Alarms: none where nothing changes, soon where something does, and an answer that follows."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import exact, fed, part, regression, same, sticky

import multireplay as mr
from multireplay.streaming.drift import Chart

ROWS = 6000


@pytest.mark.parametrize(("rho", "noise"), [(0.0, 0.0), (0.9, 0.0), (0.99, 0.0), (0.9, 0.9), (0.99, 0.99)])
def test_no_alarm_where_nothing_changes(rho, noise):
    """Of 10 streams one alarm would be one too many; benchmarks/stream_alarms.py counts them in hundreds."""
    for seed in range(10):
        rng = np.random.default_rng(1000 + seed)
        A = np.column_stack([sticky(rng, (ROWS, 2), rho), np.ones(ROWS)])
        y = A @ [1.0, -1.0, 0.5] + sticky(rng, (ROWS, 1), noise)[:, 0]
        stream = mr.Stream(mr.GLM())
        stream.observe_many(features=A, targets=y)
        assert not stream.drift.alarms


@pytest.mark.parametrize("world", ["sticky noise", "sticky everything", "a slow part under noise"])
def test_a_level_that_strays_as_noise_does_is_no_alarm(world):
    """Sticky noise is predicted by what was there a while ago: half of these streams had an alarm."""
    for seed in range(8):
        rng = np.random.default_rng(2000 + seed)
        rho, rows = (0.999 if world == "sticky everything" else 0.0), 12_000
        A = np.column_stack([sticky(rng, (rows, 2), rho), np.ones(rows)])
        slow = sticky(rng, (rows, 1), 0.999)[:, 0]
        noise = rng.standard_normal(rows) + 0.3 * slow if world == "a slow part under noise" else slow
        stream = fed(mr.Stream(mr.GLM()), {"features": A, "targets": A @ [1.0, -1.0, 0.5] + noise})
        assert not stream.drift.alarms


@pytest.mark.parametrize(("rho", "rows"), [(0.0, 10_000), (0.9, 80_000)])
def test_a_level_that_jumps_is_noticed(rho, rows):
    """The more noise remembers, the longer a stream has to be before."""
    rng = np.random.default_rng(5)
    A = np.column_stack([rng.standard_normal((rows + 5000, 2)), np.ones(rows + 5000)])
    y = A @ [1.0, -1.0, 0.5] + sticky(rng, (rows + 5000, 1), rho)[:, 0]
    y[rows:] += 3.0
    stream = fed(mr.Stream(mr.GLM()), {"features": A, "targets": y})
    assert len(stream.drift.alarms) == 1
    assert rows < stream.drift.alarms[0] < rows + 3000


@pytest.mark.parametrize("link", ["logistic", "exp", "identity"])
@pytest.mark.parametrize("rate", [0.0005, 0.002])
def test_rare_outcomes_are_no_change(link, rate):
    """Most stretches have none, and one with two of them is far from the others: up to 16 of 20 had an alarm."""
    for seed in range(4):
        rng = np.random.default_rng(3000 + seed)
        A = np.column_stack([np.ones(20_000), rng.standard_normal((20_000, 2))])
        columns = {"features": A, "targets": (rng.random(20_000) < rate).astype(float)}
        stream = fed(mr.Stream(mr.GLM(link)), columns)
        assert not stream.drift.alarms
        assert np.abs(stream.x - exact(mr.GLM(link), columns)).max() < 0.05
        assert (np.abs(stream.predict(A[:200])) < 0.02).all()


def test_stretches_in_which_nothing_happens_at_all_are_no_overflow():
    """Before the first event F̂ of most stretches is 0, and the logarithms of two lengths are hundreds apart."""
    chart = Chart(2)
    chart.seen[6:10], chart.sizes[6:10] = 10, (-6000.0, -6000.0, -6000.0, 0.0)
    assert (chart.noise[1:] > 0).all()
    assert np.isfinite(chart.noise[0])


@pytest.mark.parametrize("link", ["logistic", "exp"])
def test_predictions_stay_within_reach_where_nothing_more_happens(link):
    """After a change events end for good: slopes vanish, and answers that forget went to 1e8, and means to 1e40."""
    rng = np.random.default_rng(4)
    A = np.column_stack([np.ones(20_000), sticky(rng, (20_000, 2), 0.9)])
    happens = np.zeros(20_000)
    happens[4000:4050] = happens[12_000:12_050] = 1.0
    stream = mr.Stream(mr.GLM(link))
    for start in range(0, 20_000, 500):
        stream.observe_many(features=A[start : start + 500], targets=happens[start : start + 500])
        assert np.abs(stream.x).max() < 40
        assert stream.predict(A[:500]).max() < 20
    assert stream.predict(A[:500]).mean() < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_separable_streams_have_no_fit_however_long(seed):
    """Rows that are not kept say nothing of a point far away: a root there is none."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(20_000), sticky(rng, (20_000, 2), 0.9)])
    for targets in (A[:, 1] > 0, np.zeros(20_000)):
        stream = fed(mr.Stream(mr.GLM("logistic")), {"features": A, "targets": targets.astype(float)})
        assert "No fit" in str(stream.status)


def test_a_switch_is_noticed_and_followed():
    columns, x = regression(0, 20_000, rho=0.9)
    other, y = regression(1, 20_000, rho=0.9)
    both = {name: np.concatenate([columns[name], other[name]]) for name in columns}
    stream = fed(mr.Stream(mr.GLM()), part(both, 0, 20_000))
    assert not stream.drift.alarms
    assert "No drift" in str(stream.drift)
    stream.observe_many(part(both, 20_000, 21_500))
    assert 20_000 < stream.drift.alarms[0] <= 21_000
    assert stream.drift.active
    assert np.linalg.norm(stream.x - y) < 0.5 * np.linalg.norm(x - y)
    assert np.isfinite(stream.result().interval()).all()
    stream.observe_many(part(both, 21_500, 40_000))
    assert len(stream.drift.alarms) == 1
    assert not stream.drift.active
    assert "settled" in str(stream.drift)
    assert np.allclose(stream.x, exact(mr.GLM(), part(both, stream.drift.since, 40_000)))
    low, high = stream.result().interval().T
    assert ((low < y) & (y < high)).sum() >= 3


def test_slow_drift_is_followed():
    rng = np.random.default_rng(2)
    rows = 30_000
    x = np.cumsum(rng.standard_normal((rows, 3)), axis=0) * 3 / np.sqrt(rows)
    A = sticky(rng, (rows, 3), 0.9)
    y = (A * x).sum(axis=1) + rng.standard_normal(rows)
    stream = mr.Stream(mr.GLM())
    errors = []
    for start in range(0, rows, 500):
        if start > rows // 2:
            errors.append(np.linalg.norm(stream.x - x[start]))
        stream.observe_many(features=A[start : start + 500], targets=y[start : start + 500])
    everything = np.linalg.norm(exact(mr.GLM(), {"features": A, "targets": y}) - x[-1])
    assert stream.drift.alarms
    assert stream.drift.half_life < 3000
    assert np.mean(errors) < 0.5 * everything


def test_predictions_follow_a_drift_that_is_not_yet_certain():
    """A walk of a coefficient, in noise: predictions have a short memory long before there is an alarm."""
    rng = np.random.default_rng(7)
    rows = 3000
    x = np.cumsum(rng.standard_normal((rows, 3)), axis=0) / np.sqrt(rows)
    A = rng.standard_normal((rows, 3))
    y = (A * x).sum(axis=1) + rng.standard_normal(rows)
    stream = fed(mr.Stream(mr.GLM()), {"features": A, "targets": y})
    assert not stream.drift.alarms
    assert np.allclose(stream.x, exact(mr.GLM(), {"features": A, "targets": y}))
    assert np.linalg.norm(stream.predictor - x[-1]) < 0.5 * np.linalg.norm(stream.x - x[-1])
    fixed = fed(mr.Stream(mr.GLM(), forget=None), {"features": A, "targets": y})
    assert np.linalg.norm(fixed.predictor - fixed.x) < 0.1


def test_what_forgets_nothing_says_so_too():
    """Without forget='auto' an alarm is told, and the answer stays that of everything."""
    columns, _ = regression(0, 10_000)
    other, _ = regression(1, 10_000)
    both = {name: np.concatenate([columns[name], other[name]]) for name in columns}
    stream = fed(mr.Stream(mr.GLM(), forget=None), both)
    assert stream.drift.alarms
    assert not stream.drift.active
    assert np.allclose(stream.x, exact(mr.GLM(), both))


def test_a_nonlinear_fit_follows_a_switch():
    columns, _ = regression(3, 12_000, "logistic", x=np.array([1.0, -1.0, 0.5, 0.0]))
    other, y = regression(4, 8000, "logistic", x=np.array([-1.0, 1.0, 0.5, 0.0]))
    stream = fed(mr.Stream(mr.GLM("logistic")), columns)
    whole = mr.Stream.from_state(mr.GLM("logistic"), stream.state())
    fed(whole, other)
    fed(stream, other, range(0, 8000, 37))
    assert same(stream.state(), whole.state())
    assert len(stream.drift.alarms) == 1
    assert np.linalg.norm(stream.x - y) < 0.3


def test_predictions_are_held_back_while_rows_are_few():
    """About as many rows as coordinates: the exact fit is far off, and predictions are not."""
    worse = 0
    for seed in range(10):
        columns, x = regression(seed, 30, width=20)
        stream = mr.Stream(mr.GLM())
        for row in range(24):
            stream.observe(features=columns["features"][row], targets=columns["targets"][row])
        rows = regression(100 + seed, 500, width=20)[0]["features"]
        held = np.mean((stream.predict(rows) - rows @ x) ** 2)
        worse += held > np.mean((rows @ (stream.x - x)) ** 2)
    assert worse == 0


def test_values_of_few_and_sticky_rows_are_held_back():
    """A chain that stays where it is for 20 rows: the fit of 512 has seen some 25 states, and is far off."""
    worse = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        psi = np.column_stack([rng.standard_normal((100, 19)), np.ones(100)])
        kernel = 0.95 * np.eye(100) + 0.05 * rng.dirichlet(np.full(100, 0.1), size=100)
        reward, at = rng.standard_normal(100), [0]
        for chance in rng.random(512):
            at.append(min(int(np.searchsorted(np.cumsum(kernel[at[-1]]), chance)), 99))
        truth = np.linalg.solve(np.eye(100) - 0.9 * kernel, reward)
        rows = {"features": psi[at[:-1]], "next_features": psi[at[1:]]}
        stream = fed(
            mr.Stream(mr.PolicyEvaluation(0.9)), {**rows, "rewards": reward[at[:-1]] + rng.standard_normal(512)}
        )
        worse.append([np.linalg.norm(psi @ x - truth) for x in (stream.predictor, stream.x, np.zeros(20))])
    held, fit, nothing = np.mean(worse, axis=0)
    assert held < 0.5 * fit
    assert held < 1.1 * nothing


def test_what_the_problem_leaves_unpenalized_is_not_held_back():
    rng = np.random.default_rng(3)
    A = np.column_stack([rng.standard_normal((400, 2)), np.ones(400)])
    y = A @ [1.0, -0.5, 50.0] + 5 * rng.standard_normal(400)
    stream = fed(mr.Stream(mr.GLM(ridge=0.01, unpenalized=1)), {"features": A, "targets": y})
    assert stream.predictor[2] == pytest.approx(stream.x[2], abs=0.05)


def test_a_large_level_is_not_held_back_for_long():
    """A constant of 10 noise deviations: predictions are no further off than the exact fit, but for a tenth."""
    off = []
    for seed in range(12):
        rng = np.random.default_rng(8000 + seed)
        A, x = np.column_stack([rng.standard_normal((400, 4)), np.ones(400)]), np.array([0.5, -0.5, 0.5, -0.5, 10.0])
        stream = fed(mr.Stream(mr.GLM()), {"features": A, "targets": A @ x + rng.standard_normal(400)})
        off.append([((found - x) ** 2).sum() for found in (stream.predictor, stream.x)])
    held, fit = np.sqrt(np.mean(off, axis=0))
    assert held < 1.1 * fit
