"""Orders in step with a period of the record: the batched default is not, and for named ones it is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.replay.multiscale import out_of_step


def seasonal(period, length, seed):
    """Rows whose features, and what a straight line leaves of the target, repeat after a period."""
    rng, t = np.random.default_rng(seed), np.arange(length)
    season, spread = rng.standard_normal(period)[t % period], np.exp(0.5 * rng.standard_normal(period))[t % period]
    columns = [np.ones(length), spread * rng.standard_normal(length), season + 0.3 * rng.standard_normal(length)]
    features = np.column_stack(columns)
    return features, features @ [1.0, -2.0, 0.5] + 2 * season**2 + rng.standard_normal(length)


def squares(X, batch):
    """Least squares on rows with the target last."""
    features = batch[:, :-1]
    return ((X * features).sum(axis=1) - batch[:, -1])[:, None] * features


@pytest.mark.parametrize("period", [24, 61, 64, 168, 1024])
def test_the_batched_default_is_not_fooled_by_a_period(period):
    length = period * 2 ** (10 if period > 100 else 12)
    features, targets = seasonal(period, length, seed=period)
    exact = np.linalg.lstsq(features, targets, rcond=None)[0]
    noise = np.var(targets - features @ exact)
    errors = np.sqrt(noise * np.diag(np.linalg.inv(features.T @ features)))
    largest = float((features**2).sum(axis=1).max())
    problem = mr.VariationalInequality(squares, 3, lipschitz=largest, batched=True)
    found = mr.solve(problem, mr.Buffer(samples=np.column_stack([features, targets])))
    assert (np.abs(found.x - exact) / errors).max() < 1  # between 7 and 390 with a gap of length / 4096
    assert found.converged


def test_the_gap_of_the_batched_default_is_a_prime_that_does_not_divide_the_record():
    assert [out_of_step(gap, 2**22) for gap in (8, 16, 61, 1024)] == [11, 17, 61, 1031]
    assert out_of_step(61, 61 * 4096) == 67


@pytest.mark.parametrize(
    ("period", "order"),
    [
        (24, mr.Interleaved(24)),
        (24, mr.Interleaved(96)),
        (24, mr.Multiscale(epochs=9)),
        (24, mr.Dyadic()),
        (168, mr.Multiscale(phases="all", epochs=8)),
        (168, mr.Skip(168)),
        (64, mr.Interleaved()),
        (64, mr.Dyadic()),
        (64, mr.Multiscale(phases=4, sweep=True, epochs=9)),
    ],
    ids=str,
)
def test_named_orders_that_are_in_step_say_so(period, order):
    features, targets = seasonal(period, period * 1024, seed=3)
    found = mr.solve(mr.GLM(), mr.Buffer(features=features, targets=targets), replay=order, step=0.02)
    assert any("in step with a period" in note for note in found.notes)
    assert "in step with a period" in str(found.status)


@pytest.mark.parametrize("period", [2, 7, 24, 61, 64, 168, 1024])
def test_what_is_far_off_for_a_period_is_said_whatever_the_length(period):
    for length in (period * 2 ** (16 - period.bit_length()), 2**16 + 5):
        features, targets = seasonal(period, length, seed=period)
        exact = np.linalg.lstsq(features, targets, rcond=None)[0]
        errors = np.sqrt(np.var(targets - features @ exact) * np.diag(np.linalg.inv(features.T @ features)))
        buffer = mr.Buffer(features=features, targets=targets)
        for order in (mr.Dyadic(), mr.Multiscale(phases="all", epochs=9), mr.Interleaved(period), mr.Skip(period)):
            found = mr.solve(mr.GLM(), buffer, replay=order, step=0.01)
            off = (np.abs(found.x - exact) / errors).max()
            assert off < 5 or any("in step with a period" in note for note in found.notes)


@pytest.mark.parametrize(
    "order", [mr.Serial(), mr.Shuffle(0), mr.Interleaved(37), mr.Multiscale(), mr.Reverse(50)], ids=str
)
def test_orders_that_are_not_say_nothing(order):
    features, targets = seasonal(64, 2**16, seed=4)
    found = mr.solve(mr.GLM(), mr.Buffer(features=features, targets=targets), replay=order, step=0.01)
    assert not any("in step" in note for note in found.notes)


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.999])
def test_a_record_without_a_period_is_in_step_with_nothing(memory):
    alarms = 0
    for seed in range(20):
        rng, length = np.random.default_rng(seed), (2**13, 3 * 2**12)[seed % 2]
        noise = np.sqrt(1 - memory**2) * rng.standard_normal((length + 5000, 4))
        features = lfilter([1], [1, -memory], noise, axis=0)[5000:]
        targets = features @ np.ones(4) + rng.standard_t(3, length)
        buffer = mr.Buffer(features=features, targets=targets)
        for order in (mr.Interleaved(), mr.Interleaved(64), mr.Multiscale(epochs=11), mr.Dyadic(), mr.Skip(7)):
            alarms += len(mr.solve(mr.GLM(), buffer, replay=order, step=0.001).notes)
    assert alarms == 0


def test_what_is_rounding_is_no_period():
    features = np.random.default_rng(5).standard_normal((2**13, 2))
    buffer = mr.Buffer(features=features, targets=features @ [1.0, -2.0])
    for order in (mr.Interleaved(16), mr.Dyadic()):
        assert not mr.solve(mr.GLM(), buffer, replay=order).notes


def test_it_works_on_disk_over_batches_and_for_short_records(tmp_path):
    features, targets = seasonal(64, 2**14, seed=6)
    buffer = mr.Buffer(features=features, targets=targets)
    buffer.save(tmp_path / "record")
    for given, backend in ((mr.Buffer.open(tmp_path / "record"), "auto"), (buffer, "batched")):
        found = mr.solve(mr.GLM(), given, replay=mr.Interleaved(64), step=0.02, backend=backend)
        assert any("in step" in note for note in found.notes)
    assert not mr.solve(mr.GLM(), buffer[:200], replay=mr.Interleaved(64), step=0.02).notes  # too short to tell
