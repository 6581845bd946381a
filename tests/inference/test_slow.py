"""Memory longer than batches can show: noticed, allowed for in everything that is made of images, and said."""

import pickle

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.inference import BatchMeans, LongMemory
from multireplay.inference.images import Images
from multireplay.inference.longrun.long_memory import belief_in_long_memory, odds_of_long_memory
from multireplay.inference.slow import LEVEL, PIECES, ROWS, looks_long, stretched

LONG = 20_000
"""Rows of records that are looked at."""


def fractional(rows, order, seed):
    """Fractionally integrated noise, by its moving average cut off at the record's length."""
    rng, lags = np.random.default_rng(seed), np.arange(1, rows)
    weights = np.append(1.0, np.cumprod((lags - 1 + order) / lags))
    fresh = rng.standard_normal(2 * rows)
    size = 4 * rows
    return np.fft.irfft(np.fft.rfft(fresh, size) * np.fft.rfft(weights, size), size)[rows : 2 * rows]


def autoregression(rows, rho, seed):
    return lfilter([np.sqrt(1 - rho**2)], [1.0, -rho], np.random.default_rng(seed).standard_normal(rows + 1000))[1000:]


def buffer_of(noise, seed=0):
    features = np.column_stack([np.ones(len(noise)), np.random.default_rng(seed).standard_normal((len(noise), 2))])
    return mr.Buffer(features=features, targets=features @ [1.0, 0.5, 0.0] + noise)


def test_odds_are_those_of_the_weights():
    values = autoregression(2048, 0.5, seed=1)
    chance = belief_in_long_memory(values[:, None])[0]
    assert odds_of_long_memory(values) == pytest.approx(np.log(chance / (1 - chance)))
    assert odds_of_long_memory(np.ones(2048)) == -np.inf


def test_long_memory_is_told_from_autoregressions():
    long = [odds_of_long_memory(fractional(LONG, 0.35, seed)[::10]) for seed in range(10)]
    short = [odds_of_long_memory(autoregression(LONG, 0.9, seed)[::10]) for seed in range(10)]
    assert np.median(long) > 0 > -1 > np.median(short)
    assert sorted(long)[2] > sorted(short)[7]


def test_neighbouring_batches_that_are_alike_speak_for_it():
    errors = fractional(LONG, 0.2, seed=3)[::10]
    wave = np.sin(np.arange(32) / 5.0)[:, None]
    noise = np.random.default_rng(0).standard_normal((32, 1))
    assert looks_long(errors, wave, np.ones(1), ROWS) >= looks_long(errors, noise, np.ones(1), ROWS)
    quiet = np.hstack([noise, 1e-3 * wave])  # a coordinate that dependence hardly costs anything is not asked
    assert looks_long(errors, quiet, np.ones(2), ROWS) == looks_long(errors, noise, np.ones(1), ROWS)


def test_long_records_are_looked_at_closer_sooner():
    """Their spread rows are further apart: at 200,000 rows one in ten records of long memory passed the first limit."""
    scores, errors = np.random.default_rng(0).standard_normal((32, 1)), autoregression(2048, 0.0, seed=7)
    limits = [next(d for d in np.linspace(0, 0.4, 81) if _looks(d, errors, scores, rows)) for rows in (ROWS, 16 * ROWS)]
    assert limits[1] < limits[0]


def _looks(order, errors, scores, rows):
    weights = np.append(1.0, np.cumprod((np.arange(1, 2048) - 1 + order) / np.arange(1, 2048)))
    return looks_long(np.convolve(errors, weights)[:2048], scores, np.ones(1), rows)


def test_intervals_by_batches_become_those_by_long_memory():
    pieces = fractional(PIECES, 0.4, seed=4)[:, None] + [[0.0, 1.0]]
    pieces[:, 1] = np.random.default_rng(5).standard_normal(PIECES)
    batches = pieces.reshape(32, -1, 2).mean(axis=1)
    images = Images(batches, batches, np.full(32, 10.0))
    found = stretched(images, pieces)
    by_long, by_batches = LongMemory().spread(pieces), BatchMeans().spread(found.values)
    want, have = (np.sqrt(s.variance) * s.quantile(LEVEL) for s in (by_long, by_batches))
    assert have[0] == pytest.approx(want[0])
    assert found.stretch[0] > 1.3
    assert found.stretch[1] == 1.0  # of a coordinate that has none nothing changes
    assert np.array_equal(found.values[:, 1], batches[:, 1])
    assert found.values.mean(axis=0) == pytest.approx(batches.mean(axis=0))
    still = np.random.default_rng(6).standard_normal((PIECES, 2)) * [1.0, 0.0]
    few = Images(still[::32], still[::32], np.full(32, 10.0))
    assert stretched(few, still) is few


def test_the_summary_of_a_record_with_long_memory():
    result = mr.solve(mr.GLM(), buffer_of(fractional(LONG, 0.4, seed=7)))
    known = result.uncertainty
    plain = BatchMeans().spread(result.images.values).variance ** 0.5
    assert known.standard_error[0] > 1.3 * plain[0]
    assert "longer than 32 batches can show" in str(result.summary())
    assert known.standard_error[1] < 1.3 * plain[1]
    assert known.effective[0] < 200
    half = np.diff(result.interval()[0])[0] / 2
    by = result.interval(by=LongMemory())[0]
    assert half == pytest.approx(np.diff(by)[0] / 2, rel=0.3)  # of four times as many pieces
    assert result.covariance()[0, 0] == pytest.approx(known.standard_error[0] ** 2)
    again = pickle.loads(pickle.dumps(result))
    assert again.interval() == pytest.approx(result.interval())


def test_other_records_are_as_they_were():
    noise = autoregression(LONG, 0.5, seed=8)
    result = mr.solve(mr.GLM(), buffer_of(noise))
    assert result.uncertainty.images.stretch == 1.0
    assert "longer than" not in str(result.summary())
    short = mr.solve(mr.GLM(), buffer_of(fractional(ROWS - 1, 0.4, seed=9)))
    assert not short.uncertainty.slow


def test_memory_and_disk_agree(tmp_path):
    buffer = buffer_of(fractional(LONG, 0.4, seed=10))
    buffer.save(tmp_path / "record")
    there = mr.solve(mr.GLM(), mr.Buffer.open(tmp_path / "record", memory="1 MB"))
    assert np.array_equal(mr.solve(mr.GLM(), buffer).interval(), there.interval())


def test_policies_too():
    features = np.ones((LONG + 1, 1))
    rewards = 1.0 + fractional(LONG, 0.4, seed=11)
    buffer = mr.Buffer(features=features[:-1], next_features=features[1:], rewards=rewards)
    result = mr.solve(mr.PolicyEvaluation(0.5), buffer)
    assert result.uncertainty.images.stretch[0] > 1.2
