"""Standard errors that take rows for independent, and with other numbers of batches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.report import reliability
from multireplay.report.evidence import gather
from multireplay.report.reliability import by_batches, if_independent


def made(seed, rho, rows=16_000):
    rng = np.random.default_rng(seed)
    A = np.column_stack([lfilter([1.0], [1.0, -rho], rng.standard_normal((rows, 3)), axis=0), np.ones(rows)])
    noise = lfilter([1.0], [1.0, -rho], rng.standard_normal(rows))
    return mr.GLM(), mr.Buffer(features=A, targets=A @ [1.0, 0.0, -1.0, 2.0] + noise)


def test_if_rows_were_independent_is_the_textbook():
    problem, buffer = made(0, 0.9)
    result = mr.solve(problem, buffer)
    record = as_record(problem, buffer)
    A, e = buffer["features"], buffer["targets"] - buffer["features"] @ result.x
    inverse = np.linalg.inv(A.T @ A)
    robust = np.sqrt(np.diag(inverse @ (A.T * e**2) @ A @ inverse))
    found = if_independent(result.uncertainty, record, result.x)
    np.testing.assert_allclose(found, robust, rtol=1e-3)
    assert (result.standard_error > 1.5 * found)[:2].all()
    doubled = result.uncertainty.mapped(2 * np.eye(4), list("abcd"))
    np.testing.assert_allclose(if_independent(doubled, record, result.x), 2 * found)


def test_sparse_records_and_operators_of_ones_own_have_them_too():
    problem, buffer = made(1, 0.5, rows=4000)
    sparse = mr.Buffer(features=scipy.sparse.csr_array(buffer["features"]), targets=buffer["targets"])
    results = [mr.solve(problem, one) for one in (buffer, sparse)]
    found = [if_independent(one.uncertainty, one.run.record, one.x) for one in results]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    samples = np.random.default_rng(2).random((2000, 2))
    own = mr.solve(mr.VariationalInequality(lambda x, sample: x - sample, dim=2), mr.Buffer(samples=samples))
    spread = if_independent(own.uncertainty, own.run.record, own.x)
    np.testing.assert_allclose(spread, samples.std(axis=0) / np.sqrt(2000), rtol=1e-2)


def test_dear_ones_are_left_out(monkeypatch):
    problem, buffer = made(1, 0.5, rows=4000)
    result = mr.solve(problem, buffer)
    monkeypatch.setattr(reliability, "MOST_WORK", 16 * 1000)
    assert if_independent(result.uncertainty, result.run.record, result.x) is None


def test_standard_errors_by_batches_are_those_of_batches():
    result = mr.solve(*made(3, 0.9))
    told = gather(result, rivals=False)
    assert told.batches.counts.tolist() == [64, 32, 16, 8]
    plain = result.images.of(result.images.scores).std(axis=0, ddof=1) / np.sqrt(32)
    np.testing.assert_allclose(told.batches.ratios[1], plain / result.standard_error, rtol=1e-6)
    assert told.batches.chance()[1] == pytest.approx([1.17, 1.25, 1.35, 1.51], abs=0.01)


def test_they_rise_where_the_record_is_stickier_than_batches_are_long():
    rising = [gather(mr.solve(*made(seed, 0.9998)), rivals=False, exact=False).batches.rising for seed in range(5)]
    calm = [gather(mr.solve(*made(seed, 0.5)), rivals=False, exact=False).batches.rising for seed in range(5)]
    assert sum(calm) <= 1
    assert sum(rising) >= sum(calm)


def test_a_pickled_result_has_them_with_its_record():
    problem, buffer = made(4, 0.9, rows=4000)
    result = mr.solve(problem, buffer)
    again = pickle.loads(pickle.dumps(result))
    assert gather(again).batches is None
    assert not any(found is not None for found in gather(again).textbooks)
    first, second = gather(result, rivals=False), gather(again, rivals=False, buffer=buffer)
    np.testing.assert_allclose(second.batches.ratios, first.batches.ratios)
    np.testing.assert_allclose(second.textbooks[0], first.textbooks[0])
    assert second.known.doubts == first.known.doubts


def test_without_standard_errors_there_is_nothing():
    a = np.linspace(-1, 1, 200)[:, None]
    with pytest.warns(mr.ConvergenceWarning, match="separable"):
        result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=a, targets=(a[:, 0] > 0).astype(float)))
    told = gather(result)
    assert told.batches is None
    assert told.textbooks == [None]
    assert by_batches(told.known, told.fitted.pieces) is None
