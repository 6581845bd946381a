"""Standard errors under dependence: against the formula written out, and against what they claim to predict."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.report.rivals import uncertainty, uncertainty_of_run
from multireplay.sets import WholeSpace


def literal(problem, buffer, x, slope):
    """J⁻¹ S J⁻ᵀ with S from 32 batch means, row by row."""
    columns = problem.columns(buffer)
    samples = problem.samples(columns)
    rows = len(buffer)
    bounds = [rows * i // 32 for i in range(33)]
    means = np.array([
        np.mean([problem.operator(x, samples, row) for row in range(a, b)], axis=0)
        for a, b in pairwise(bounds)
    ])  # fmt: skip
    S = np.cov(means.T) / 32
    inverse = np.linalg.inv(slope)
    return np.sqrt(np.diag(inverse @ S @ inverse.T))


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_a_regression_against_the_formula(link):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((960, 3))
    y = (rng.random(960) < 0.4).astype(float)
    problem, buffer = mr.GLM(link=link), mr.Buffer(features=A, targets=y)
    x = problem.fit_exactly(buffer)
    weights = np.ones(960) if link == "identity" else np.exp(A @ x) / (1 + np.exp(A @ x)) ** 2
    slope = sum(w * np.outer(a, a) for w, a in zip(weights, A, strict=True)) / 960
    found = uncertainty(problem, problem.columns(buffer), WholeSpace(), x)
    assert found.errors == pytest.approx(literal(problem, buffer, x, slope), rel=1e-9)
    assert found.total == pytest.approx(np.linalg.norm(found.errors))
    assert found.batch == 30


def test_policy_evaluation_against_the_formula():
    process = mr.simulate.paper_mrp(m=0.8)
    buffer = process.buffer(length=3200, seed=0)
    x = process.problem.fit_exactly(buffer)
    psi, then = buffer["features"], buffer["next_features"]
    slope = sum(np.outer(a, a - process.problem.gamma * b) for a, b in zip(psi, then, strict=True)) / 3200
    found = uncertainty(process.problem, process.problem.columns(buffer), WholeSpace(), x)
    assert found.errors == pytest.approx(literal(process.problem, buffer, x, slope), rel=1e-6)


def test_they_predict_how_much_the_exact_fit_varies():
    """Noise and covariate both AR(1): independent rows would give errors that are three times too small."""
    fits, errors = [], []
    for seed in range(300):
        noise = np.random.default_rng(seed).standard_normal((2, 4000))
        a, e = lfilter([1.0], [1.0, -0.9], noise, axis=1)
        buffer = mr.Buffer(features=a[:, None], targets=2 * a + e)
        x = mr.GLM().fit_exactly(buffer)
        fits.append(x[0])
        errors.append(uncertainty(mr.GLM(), mr.GLM().columns(buffer), WholeSpace(), x).errors[0])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(fits), rel=0.15)


def test_where_there_are_none():
    buffer = mr.Buffer(features=np.eye(3), targets=[1.0, 2.0, 3.0])
    assert uncertainty(mr.GLM(), mr.GLM().columns(buffer), WholeSpace(), np.ones(3)) is None
    long = mr.Buffer(features=np.ones((100, 1)), targets=np.arange(100.0))
    assert uncertainty(mr.GLM(), mr.GLM().columns(long), mr.sets.Ball(1.0), np.ones(1)) is None
    wide = mr.VariationalInequality(lambda x, sample: x - sample, dim=65)  # has no Jacobian by differences any more
    samples = mr.Buffer(samples=np.ones((100, 65)))
    assert uncertainty(wide, wide.columns(samples), WholeSpace(), np.ones(65)) is None


def test_those_of_a_run_leave_out_what_is_free():
    rng = np.random.default_rng(5)
    A = np.column_stack([rng.standard_normal(2000), np.zeros(2000)])
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0] + rng.standard_normal(2000)))
    found = uncertainty_of_run(result, 2000)
    assert np.isinf(found.errors[1])
    assert found.total == found.errors[0] > 0


def test_there_are_none_of_a_fit_that_does_not_exist():
    a = np.linspace(-1, 1, 200)[:, None]
    with pytest.warns(mr.ConvergenceWarning, match="separable"):
        result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=a, targets=(a[:, 0] > 0).astype(float)))
    assert uncertainty_of_run(result, 200) is None


def test_short_batches_are_told():
    rng = np.random.default_rng(0)
    buffer = mr.Buffer(features=rng.standard_normal((640, 1)), targets=rng.standard_normal(640))
    found = uncertainty(mr.GLM(), mr.GLM().columns(buffer), WholeSpace(), np.zeros(1))
    assert not found.is_rough(tau=2.0)
    assert found.is_rough(tau=2.1)
