"""Long memory: the family of spectra against literal sums, weights against a literal likelihood, and what holds."""

import numpy as np
import pytest
from scipy.special import gamma
from scipy.stats import t as student

import multireplay as mr
from multireplay.inference import BatchMeans, LongMemory
from multireplay.inference.longrun.long_memory import MEMORIES, ORDERS, SHARES, family_of


def expected_periodogram(covariances, frequency):
    """E I(λ) = Σ_h γ(h)(1 − |h|/n) cos(hλ), written out."""
    n = len(covariances)
    return covariances[0] + 2 * sum((1 - h / n) * covariances[h] * np.cos(h * frequency) for h in range(1, n))


def member(order, memory, share):
    """Where it is in the family."""
    places = [
        int(np.argmin(abs(grid - value))) for grid, value in ((ORDERS, order), (MEMORIES, memory), (SHARES, share))
    ]
    return np.ravel_multi_index(places, (len(ORDERS), len(MEMORIES), len(SHARES)))


@pytest.mark.parametrize("n", [63, 64])
def test_spectra_as_written(n):
    family = family_of(n)
    lags = np.arange(n)
    fractional = gamma(lags + 0.3) * gamma(0.7) / gamma(lags + 0.7) / gamma(0.3)
    for (order, memory, share), covariances in {(0.3, 0.0, 0.0): fractional, (0.0, 0.9, 0.6): 0.9**lags}.items():
        covariances = (1 - share) * covariances + share * (lags == 0)
        here = member(order, memory, share)
        assert family.at_zero[here] == pytest.approx(expected_periodogram(covariances, 0.0), rel=0.02)
        for band, (first, end) in enumerate(zip(family.edges, family.edges[1:], strict=False)):
            literal = np.mean([expected_periodogram(covariances, 2 * np.pi * k / n) for k in range(first, end)])
            assert family.spectra[here, band] == pytest.approx(literal, rel=0.02)
    assert family.prior.sum() == pytest.approx(1.0)
    assert family.frequencies == (n - 1) // 2


def test_beliefs_as_written():
    values = np.random.default_rng(3).standard_normal((200, 1)).cumsum(axis=0)[::4]
    n, family = len(values), family_of(len(values))
    periodogram = [abs(np.sum((values[:, 0] - values.mean()) * np.exp(-2j * np.pi * k * np.arange(n) / n))) ** 2 / n
                   for k in range(n)]  # fmt: skip
    logs, variances, count = [], [], family.frequencies
    for spectrum, zero, prior in zip(family.spectra, family.at_zero, family.prior, strict=True):
        scale = log = 0.0
        for band, (first, end) in enumerate(zip(family.edges, family.edges[1:], strict=False)):
            for k in range(first, end):
                scale += periodogram[k] / spectrum[band] / count
                log -= np.log(spectrum[band])
        logs.append(np.log(prior) + log - count * np.log(scale))
        variances.append(scale * zero / n)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    found = LongMemory().spread(values)
    assert found.variance[0] == pytest.approx(weights @ variances)
    half = found.quantile(0.9)[0] * np.sqrt(found.variance[0])
    assert weights @ (2 * student.sf(half / np.sqrt(variances), 2 * count)) == pytest.approx(0.1, abs=1e-4)
    assert found.p_value(found.quantile(0.9))[0] == pytest.approx(0.1, abs=1e-4)


def test_it_holds_where_batch_means_do_not():
    """Means of a fractional noise: coverage of 95 % intervals, 200 records of 1000 rows."""
    rng, held = np.random.default_rng(11), {"long": 0, "batches": 0}
    lags = np.arange(1, 1000)
    covariances = np.append(1.0, np.cumprod((lags - 0.7) / (lags - 0.3)))
    root = np.linalg.cholesky(covariances[abs(np.subtract.outer(np.arange(1000), np.arange(1000)))])
    for _ in range(200):
        y = root @ rng.standard_normal(1000)
        result = mr.solve(mr.GLM(), mr.Buffer(features=np.ones((1000, 1)), targets=y))
        for name, by in {"long": LongMemory(), "batches": BatchMeans()}.items():
            low, high = result.interval(by=by)[0]
            held[name] += low <= 0 <= high
    assert held["long"] >= 180
    assert held["batches"] <= 150


def test_what_does_not_vary_and_what_is_short():
    assert (LongMemory().spread(np.ones((50, 2))).variance == 0).all()
    for rows in (2, 3, 4, 17):
        found = LongMemory().spread(np.random.default_rng(rows).standard_normal((rows, 2)))
        assert np.isfinite(found.variance).all()
        assert np.isfinite(found.quantile(0.95)).all()


def test_the_summary_has_the_rows_that_this_estimator_says():
    A = np.column_stack([np.ones(4096), np.random.default_rng(0).standard_normal(4096)])
    y = np.random.default_rng(1).standard_normal(4096).cumsum() / 30
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
    with pytest.warns(mr.UncertaintyWarning):
        plain, long = result.summary().rows, result.summary(by=LongMemory()).rows
    for one, other in zip(plain, long, strict=True):
        ratio = (one["standard error"] / other["standard error"]) ** 2
        assert other["effective"] == pytest.approx(min(one["effective"] * ratio, 4096))
