"""Slopes: the diagonal of all rows in a Jacobian of some."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.updates.coarse import coarse_fit
from multireplay.updates.slope import with_diagonal

ROWS, DIM = 60_000, 100


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(3)
    F = lfilter([0.6], [1.0, -0.8], rng.standard_normal((ROWS + 1, DIM)), axis=0)
    for place, share in enumerate((1 / 120, 1 / 60)):
        F[:, place] = rng.random(ROWS + 1) < share
    return F


@pytest.mark.parametrize("name", ["logistic", "evaluation"])
def test_standard_errors_of_rare_features_are_those_of_all_rows(features, name):
    rng = np.random.default_rng(4)
    scores = features[:-1] @ rng.standard_normal(DIM) / np.sqrt(DIM)
    if name == "logistic":
        problem = mr.GLM("logistic")
        buffer = mr.Buffer(features=features[:-1], targets=1.0 * (rng.random(ROWS) < 1 / (1 + np.exp(-scores))))
    else:
        problem = mr.PolicyEvaluation(0.9)
        rewards = scores + rng.standard_normal(ROWS)
        buffer = mr.Buffer(features=features[:-1], next_features=features[1:], rewards=rewards)
    result, exact = mr.solve(problem, buffer, update=mr.Newton()), mr.solve(problem, buffer, update=mr.Exact())
    ratio = result.standard_error / exact.standard_error
    assert np.abs(ratio[:2] - 1).max() < 0.05
    assert np.median(np.abs(ratio - 1)) < 0.05
    record = as_record(problem, buffer)
    coarse = coarse_fit(record, np.zeros(DIM))
    mended = with_diagonal(record, coarse.slope, exact.x, 1)
    whole = np.diag(problem.jacobian(exact.x, record.columns))
    assert np.allclose(np.diag(mended.full), whole, rtol=1e-5)
    assert np.abs(np.diag(coarse.slope.full)[:2] / whole[:2] - 1).max() > 0.02
