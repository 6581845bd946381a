"""Each estimator of a long-run variance against its formula written out, and what all of them must do."""

import numpy as np
import pytest

import multireplay as mr
from multireplay.inference import BatchMeans, FixedB, LongMemory, MultiplierBootstrap, NeweyWest, RandomScaling

ALL = [BatchMeans(), NeweyWest(), NeweyWest(lag=5), FixedB(), FixedB(0.5), RandomScaling(), MultiplierBootstrap()]
ALL.append(LongMemory())


def autoregression(rho, shape, seed):
    """Stationary, along the first axis."""
    rng = np.random.default_rng(seed)
    out = rng.standard_normal(shape)
    out[0] /= np.sqrt(1 - rho**2)
    for t in range(1, shape[0]):
        out[t] += rho * out[t - 1]
    return out


def lagged(v, j):
    v = v - v.mean()
    return np.sum(v[j:] * v[: len(v) - j]) / len(v)


def test_batch_means_as_written():
    values = autoregression(0.5, (32, 3), seed=1)
    for column, found in zip(values.T, BatchMeans().spread(values).variance, strict=True):
        r = lagged(column, 1) / lagged(column, 0)
        r = min(max(r + (1 + 3 * r) / 32, 0), 0.97)
        assert found == pytest.approx(column.var(ddof=1) / 32 * (1 + r) / (1 - r))
    from scipy.stats import t

    assert BatchMeans().spread(values).quantile(0.9) == pytest.approx(t.ppf(0.95, 31))
    assert BatchMeans().spread(values).p_value(np.array([2.0])) == pytest.approx(2 * t.sf(2.0, 31))
    assert BatchMeans().spread(values[:8]).quantile(0.9) == pytest.approx(t.ppf(0.95, 7))


@pytest.mark.parametrize("lag", [0, 1, 7, 400, "andrews"])
def test_newey_west_as_written(lag):
    values = autoregression(0.8, (500, 2), seed=2)
    for column, found in zip(values.T, NeweyWest(lag).spread(values).variance, strict=True):
        width = lag
        if lag == "andrews":
            v = column - column.mean()
            rho = np.sum(v[1:] * v[:-1]) / np.sum(v[:-1] ** 2)
            width = 1.1447 * (4 * rho**2 / ((1 - rho) ** 2 * (1 + rho) ** 2) * 500) ** (1 / 3)
        else:
            width += 1
        total = lagged(column, 0)
        total += 2 * sum((1 - j / width) * lagged(column, j) for j in range(1, 500) if j < width)
        assert found == pytest.approx(total / 500)


def test_newey_west_is_that_of_statsmodels():
    linear_model = pytest.importorskip("statsmodels.regression.linear_model")
    y = autoregression(0.7, (300, 1), seed=3)
    fit = linear_model.OLS(y[:, 0], np.ones(300)).fit(cov_type="HAC", cov_kwds={"maxlags": 6})
    assert NeweyWest(6).spread(y).variance[0] == pytest.approx(fit.bse[0] ** 2)


@pytest.mark.parametrize("b", [0.1, 0.35, 1.0])
def test_fixed_b_as_written(b):
    values = autoregression(0.8, (200, 2), seed=4)
    for column, found in zip(values.T, FixedB(b).spread(values).variance, strict=True):
        total = lagged(column, 0) + 2 * sum((1 - j / (200 * b)) * lagged(column, j) for j in range(1, int(200 * b)))
        assert found == pytest.approx(total / 200)


@pytest.mark.parametrize("b", [0.05, 0.1, 0.3, 0.6, 1.0])
def test_fixed_b_has_the_critical_values_of_kiefer_and_vogelsang(b):
    """The polynomials of their Table 1 for Bartlett's kernel, which fit their simulation to a few percent."""
    spread = FixedB(b).spread(np.random.default_rng(0).standard_normal((400, 1)))
    assert spread.quantile(0.95) == pytest.approx(1.96 + 2.9694 * b + 0.4160 * b**2 - 0.5324 * b**3, rel=0.025)
    assert spread.quantile(0.90) == pytest.approx(1.6449 + 2.1859 * b + 0.3142 * b**2 - 0.3427 * b**3, rel=0.025)
    assert spread.p_value(spread.quantile(0.93)) == pytest.approx(0.07)


def test_random_scaling_as_written():
    values = autoregression(0.8, (200, 1), seed=5)
    sums = np.cumsum(values[:, 0] - values.mean())
    variance, quantile, p_value = RandomScaling().spread(values)
    half = float(quantile(0.95)) * np.sqrt(variance[0])
    assert half == pytest.approx(6.747 * np.sqrt(np.sum(sums**2) / 200**2 / 200), rel=0.005)
    assert p_value(quantile(0.99)) == pytest.approx(0.01)


def test_the_bootstrap_knows_the_variance_of_blocks():
    values = autoregression(0.9, (4096, 2), seed=6)
    again = MultiplierBootstrap()
    assert np.array_equal(again.spread(values).quantile(0.9), again.spread(values).quantile(0.9))  # its own seed
    assert np.allclose(again.spread(values).variance, NeweyWest().spread(values).variance, rtol=0.25)
    few = MultiplierBootstrap(replications=4000).spread(np.random.default_rng(1).standard_normal((20, 1)))
    assert 1.9 < few.quantile(0.95)[0] < 2.4


@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_what_all_must_do(estimator):
    values = autoregression(0.3, (estimator.pieces, 3), seed=7)
    variance, quantile, p_value = estimator.spread(values)
    covariance = estimator.covariance(values)
    one = estimator.covariance(values[:, :1])
    assert np.allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > 0
    assert np.allclose(one[0, 0], estimator.spread(values[:, :1]).variance[0])
    assert (0.3 * covariance.diagonal() < variance).all()
    assert (quantile(0.99) > quantile(0.9)).all()
    assert np.allclose(p_value(np.zeros(3)), 1.0)
    assert (p_value(quantile(0.9) * np.ones(3)) == pytest.approx(0.1, abs=0.002)) or estimator.pieces == 4096
    scaled = estimator.spread(values * [1, 10, 100]).variance
    assert np.allclose(scaled, variance * [1, 100, 10000], rtol=1e-9)
    assert estimator.spread(values + 5.0).variance == pytest.approx(variance)  # the mean does not matter
    q = estimator.wald(values[:, :1], np.array([3 * np.sqrt(variance[0])]))
    assert q.p_value < 0.2
    assert q.df[0] == 1.0


@pytest.mark.parametrize("estimator", [BatchMeans(), NeweyWest(), MultiplierBootstrap()], ids=repr)
def test_a_wald_statistic_does_not_depend_on_how_restrictions_are_written(estimator):
    values = autoregression(0.3, (estimator.pieces, 3), seed=8)
    off = np.array([0.3, -0.1, 0.2]) * np.sqrt(estimator.spread(values).variance)
    mix = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [3.0, 0.0, 1.0]])
    one, other = estimator.wald(values, off), estimator.wald(values @ mix.T, mix @ off)
    assert one.p_value == pytest.approx(other.p_value, rel=0.2)


def test_a_lag_beyond_the_pieces_is_refused():
    """Its intervals were all but points: sums of all autocovariances of a sample are 0."""
    values = np.random.default_rng(0).standard_normal((400, 2))
    assert (NeweyWest(lag=399).spread(values).variance > 0).all()
    for ask in (NeweyWest(lag=400).spread, NeweyWest(lag=10**6).covariance, NeweyWest(lag=400).covariance):
        with pytest.raises(mr.InputError, match=r"lag=(400|1000000) is no lag of 400 pieces"):
            ask(values)
    result = mr.solve(mr.GLM(), mr.Buffer(features=np.ones((5000, 1)), targets=np.arange(5000) % 7))
    with pytest.raises(mr.InputError, match="lag=5000 is no lag of 4096 pieces"):
        result.interval(by=NeweyWest(lag=5000))


def test_refusals():
    values = np.random.default_rng(0).standard_normal((32, 20))
    with pytest.raises(mr.InputError, match="20 restrictions at once are too many for 32 batches"):
        BatchMeans().wald(values, np.ones(20))
    with pytest.raises(mr.InputError, match="one restriction at a time"):
        RandomScaling().wald(values, np.ones(2))
    with pytest.raises(mr.InputError, match="follow from the others"):
        BatchMeans().wald(values[:, [0, 0]], np.ones(2))
    with pytest.raises(mr.InputError, match="b must be a number in"):
        FixedB(0.0)
    with pytest.raises(mr.InputError, match="lag must be"):
        NeweyWest(-1)
    with pytest.raises(mr.InputError, match="replications must be"):
        MultiplierBootstrap(3)
