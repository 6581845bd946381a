"""Intervals contain what they say they do, on records of known dependence; seeds of their own."""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from multireplay.inference import BatchMeans, RandomScaling

RUNS, LENGTH = 400, 8192


def batches(rho, pieces, seed):
    """Piece means of stationary autoregressions of mean 0, a column each."""
    noise = np.random.default_rng(seed).standard_normal((RUNS, LENGTH))
    noise[:, 0] /= np.sqrt(1 - rho**2)
    series = lfilter([1], [1, -rho], noise, axis=1)
    return series.reshape(RUNS, pieces, -1).mean(axis=2).T, series.var(axis=1)


@pytest.mark.parametrize(("rho", "least"), [(0.0, 0.95), (0.9, 0.95), (0.98, 0.94), (0.995, 0.92)])
def test_batch_means_cover_at_every_effective_sample_size(rho, least):
    """8192, 431, 83 and 21 effective samples: no fewer hits than 1 in 1000 such tests would have by chance."""
    values, _ = batches(rho, 32, seed=int(1000 * rho) + 11)
    variance, quantile, _ = BatchMeans().spread(values)
    hits = int((np.abs(values.mean(axis=0)) <= quantile(0.95) * np.sqrt(variance)).sum())
    assert binom.ppf(0.001, RUNS, least) <= hits <= binom.ppf(0.999, RUNS, 0.975)


def test_plain_batch_means_do_not():
    """What the inflation and the quantile are for."""
    values, _ = batches(0.998, 32, seed=12)
    plain = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(32)
    variance, quantile, _ = BatchMeans().spread(values)
    assert np.mean(np.abs(values.mean(axis=0)) <= plain) < 0.7
    assert np.mean(np.abs(values.mean(axis=0)) <= quantile(0.95) * np.sqrt(variance)) > 0.86


def test_random_scaling_covers():
    values, _ = batches(0.98, 4096, seed=13)
    variance, quantile, _ = RandomScaling().spread(values)
    hits = int((np.abs(values.mean(axis=0)) <= quantile(0.95) * np.sqrt(variance)).sum())
    assert binom.ppf(0.001, RUNS, 0.93) <= hits <= binom.ppf(0.999, RUNS, 0.96)


@pytest.mark.parametrize("rho", [0.9975, 0.999])
def test_too_few_effective_samples_are_seen(rho):
    """10 and 4 of them: an estimate below 30 in 95 % of the runs at least."""
    values, variance = batches(rho, 32, seed=14)
    found = variance / BatchMeans().spread(values).variance
    assert np.mean(found < 30) >= 0.95


@pytest.mark.parametrize(("rho", "q"), [(0.0, 2), (0.0, 8), (0.98, 4)])
def test_the_size_of_walds_test(rho, q):
    """It rejects what is true in about 5 % of the runs."""
    values, _ = batches(rho, 32, seed=15 + q)
    groups = values.T.reshape(RUNS // q, q, 32)
    rejected = sum(BatchMeans().wald(group.T, group.mean(axis=1)).p_value < 0.05 for group in groups)
    assert binom.ppf(0.001, len(groups), 0.05) <= rejected <= binom.ppf(0.999, len(groups), 0.07)
