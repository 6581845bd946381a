"""The standard errors that others are compared by: those of the run, or why there are none."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.report.rivals import error_bars


def test_those_of_a_run_leave_out_what_is_free():
    rng = np.random.default_rng(5)
    A = np.column_stack([rng.standard_normal(2000), np.zeros(2000)])
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0] + rng.standard_normal(2000)))
    found = error_bars(result, 2000)
    assert np.isinf(found.errors[1])
    assert found.total == found.errors[0] > 0


def test_there_are_none_of_a_fit_that_does_not_exist():
    a = np.linspace(-1, 1, 200)[:, None]
    with pytest.warns(mr.ConvergenceWarning, match="separable"):
        result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=a, targets=(a[:, 0] > 0).astype(float)))
    assert "the fit was not found, or does not exist" in error_bars(result, 200).reason


def test_short_batches_are_told():
    rng = np.random.default_rng(0)
    buffer = mr.Buffer(features=rng.standard_normal((640, 1)), targets=rng.standard_normal(640))
    found = error_bars(mr.solve(mr.GLM(), buffer), 640)
    assert not found.is_rough(tau=2.0)
    assert found.is_rough(tau=2.1)
