"""Fitted against actual: sums of one pass against all rows at once, on every kind of record."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.record import as_record
from multireplay.report.fitted import BINS, STRETCH, STRETCHES, at_rows, grouped, look
from multireplay.report.rivals import Missing


def sticky(seed, shape, rho=0.95):
    return lfilter([1.0], [1.0, -rho], np.random.default_rng(seed).standard_normal(shape), axis=0)


def regression(rows=5000, seed=0):
    A = np.column_stack([sticky(seed, (rows, 2)), np.ones(rows)])
    return A, A @ [1.0, -1.0, 2.0] + sticky(seed + 1, rows, 0.8)


def test_sums_are_those_of_all_rows():
    A, y = regression()
    w = np.random.default_rng(3).random(len(y))
    x = np.array([0.9, -1.1, 2.2])
    found = look(as_record(mr.GLM(), mr.Buffer(features=A, targets=y, weights=w)), x, 1)
    e = y - A @ x
    assert found.what == "responses"
    np.testing.assert_allclose(found.spread.fitted, A @ x)
    np.testing.assert_allclose(found.spread.actual, y)
    parts = np.split(np.arange(5000), np.linspace(0, 5000, 65).astype(int)[1:-1])
    np.testing.assert_allclose(found.pieces.residual, [np.average(e[part], weights=w[part]) for part in parts])
    np.testing.assert_allclose(found.pieces.scores, [-(w * e)[part] @ A[part] / len(part) for part in parts])
    assert found.pieces.spread**2 == pytest.approx(np.cov(e, aweights=w, ddof=0))
    assert found.pieces.explained == pytest.approx(1 - np.cov(e, aweights=w, ddof=0) / np.cov(y, aweights=w, ddof=0))
    edges = np.quantile(A @ x, np.linspace(0, 1, BINS + 1)[1:-1])
    place = np.searchsorted(edges, A @ x, side="right")
    means = [np.average(y[place == k], weights=w[place == k]) for k in range(BINS)]
    np.testing.assert_allclose(found.bins.actual, means)
    left = e - np.average(e, weights=w)
    lag = [left[k:] @ left[: 5000 - k] / (5000 - k) for k in range(4)]
    np.testing.assert_allclose(found.correlation.values[:4], np.array(lag) / lag[0])


def test_policy_evaluation_is_fitted_to_one_step_targets():
    steps = np.cumsum(np.random.default_rng(0).integers(-1, 2, 2001)) % 5
    ended = np.random.default_rng(1).random(2000) < 0.1
    rewards, x = (steps[:-1] == 0).astype(float), np.arange(5.0)
    wanted = rewards + 0.9 * np.where(ended, 0.0, x[steps[1:]])
    table = scipy.sparse.eye_array(5, format="csr")
    records = [
        (mr.PolicyEvaluation(0.9), {"features": np.eye(5)[steps[:-1]], "next_features": np.eye(5)[steps[1:]]}),
        (mr.PolicyEvaluation(0.9), {"features": table[steps[:-1]], "next_features": table[steps[1:]]}),
        (mr.PolicyEvaluation(0.9, table=table), {"states": steps[:-1], "next_states": steps[1:]}),
    ]
    for problem, columns in records:
        found = look(as_record(problem, mr.Buffer(**columns, rewards=rewards, terminated=ended)), x, 1)
        assert found.what == "values"
        np.testing.assert_allclose(found.spread.actual, wanted)
        np.testing.assert_allclose(found.spread.fitted, x[steps[:-1]])
        np.testing.assert_allclose(found.bins.fitted, np.arange(5))
        np.testing.assert_allclose(found.bins.actual, [wanted[steps[:-1] == s].mean() for s in range(5)])


def test_intervals_of_groups_allow_for_dependence():
    """A hidden component that is the same for 100 rows: 95 % are far fewer if rows are taken for independent."""
    inside, naive = [], []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        a, hidden = rng.standard_normal(8000), np.repeat(rng.uniform(-4, 4, 80), 100)
        y = (rng.random(8000) < 1 / (1 + np.exp(-a - hidden))).astype(float)
        record = as_record(mr.GLM("logistic"), mr.Buffer(features=a[:, None], targets=y))
        bins = look(record, np.array([1.0]), 1).bins
        grid = np.linspace(-4, 4, 401)
        for fitted, actual, half in zip(bins.fitted, bins.actual, bins.half, strict=True):
            truth = np.mean(1 / (1 + np.exp(-np.log(fitted / (1 - fitted)) - grid)))
            inside.append(abs(actual - truth) < half + 0.01)
            naive.append(abs(actual - truth) < 1.96 * np.sqrt(actual * (1 - actual) / 800) + 0.01)
    assert np.mean(inside) > 0.9 > np.mean(naive) + 0.15


def test_a_group_that_is_seen_once_is_doubtful():
    rng = np.random.default_rng(5)
    a = np.where(np.arange(6000) // 600 == 4, 10.0, rng.standard_normal(6000))
    bins = look(as_record(mr.GLM(), mr.Buffer(features=a[:, None], targets=a)), np.ones(1), 1).bins
    assert bins.doubtful[-1]
    assert not bins.doubtful[:-1].any()


def test_long_records_show_autocorrelations_of_stretches(tmp_path):
    rows = 3 * STRETCHES * STRETCH
    noise = sticky(7, rows, 0.9)
    buffer = mr.Buffer(features=np.ones((rows, 1)), targets=noise + 5.0)
    found = look(as_record(mr.GLM(), buffer), np.array([4.0]), 1)
    assert found.correlation.rows == STRETCHES * STRETCH
    np.testing.assert_allclose(found.correlation.values[:10], 0.9 ** np.arange(10), atol=0.03)
    assert 50 <= len(found.correlation.values) < 120
    buffer.save(tmp_path / "record")
    stored = mr.Buffer.open(tmp_path / "record", memory="3.9 MB")
    assert isinstance(stored, StoredBuffer)
    other = look(as_record(mr.GLM(), stored), np.array([4.0]), 1)
    np.testing.assert_array_equal(other.pieces.residual, found.pieces.residual)
    np.testing.assert_array_equal(other.correlation.values, found.correlation.values)


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
def test_short_records(rows):
    A, y = regression(rows)
    found = look(as_record(mr.GLM(), mr.Buffer(features=A, targets=y)), np.ones(3), 1)
    assert len(found.pieces.residual) == rows if rows < 64 else 64
    assert len(found.correlation.values) == rows // 4 + 1
    assert np.isfinite(found.bins.half).all() == (rows > 1)


def test_what_cannot_be_fitted_says_so():
    vi = mr.VariationalInequality(lambda x, sample: x - sample, dim=2)
    found = look(as_record(vi, mr.Buffer(samples=np.ones((10, 2)))), np.ones(2), 1)
    assert isinstance(found, Missing)
    assert "no features" in found.reason
    far = look(as_record(mr.GLM("exp"), mr.Buffer(features=np.ones((9, 1)), targets=np.ones(9))), np.array([1e4]), 1)
    assert "beyond the range" in far.reason


def test_weights_leave_outcomes_as_they_are():
    A, y = regression(10)
    seen = at_rows(mr.GLM(), np.ones(3), {"features": A, "targets": y, "weights": np.zeros(10)})
    np.testing.assert_allclose(seen.actual, y)


@pytest.mark.parametrize("weighted", [False, True])
def test_several_classes_are_told_from_all_rows(weighted):
    """What each is taken for, its calibration, and the scores that standard errors are made of."""
    A, _ = regression(seed=5)
    problem, x = mr.Multinomial(3), np.random.default_rng(7).standard_normal(6)
    chances = problem.chances(x, A)
    y = (np.log(chances) + np.random.default_rng(8).gumbel(size=chances.shape)).argmax(axis=1)
    w = np.random.default_rng(9).random(len(y)) if weighted else np.ones(len(y))
    buffer = mr.Buffer(features=A, targets=y, **({"weights": w} if weighted else {}))
    found = look(as_record(problem, buffer), x, 1)
    best = chances.argmax(axis=1)
    confusion = [[w[(y == i) & (best == j)].sum() for j in range(3)] for i in range(3)]
    assert found.what == "classes"
    np.testing.assert_allclose(found.classes.confusion, confusion)
    np.testing.assert_allclose(found.spread.fitted, chances.max(axis=1))
    np.testing.assert_array_equal(found.spread.actual, best == y)
    for k, bins in enumerate(found.classes.bins):
        place = np.searchsorted(np.quantile(chances[:, k], np.linspace(0, 1, BINS + 1)[1:-1]), chances[:, k], "right")
        means = [np.average(y[place == b] == k, weights=w[place == b]) for b in range(BINS)]
        np.testing.assert_allclose(bins.actual, means)
        assert np.isfinite(bins.half).all()
    rows = found.pieces.rows
    np.testing.assert_allclose(rows @ found.pieces.scores / rows.sum(), problem.mean_operator(x, buffer.columns))


def test_pieces_are_put_together():
    assert grouped(np.arange(6.0), 3).tolist() == [1.0, 5.0, 9.0]
    assert grouped(np.arange(3.0), 8).tolist() == [0.0, 1.0, 2.0]
