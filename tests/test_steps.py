from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay import steps

CONSTANTS = mr.theory.Constants(mu=0.5, L=1, L1=1, sigma=1, zeta=1, C_M=0.1, C_P=0.1, rho=0.5, D=2)


def test_constant():
    assert steps.Constant(0.25).values(3, 10, 4).tolist() == [0.25] * 4


def test_decaying_is_the_formula_at_every_offset():
    schedule = steps.Decaying(mu=0.5, t0=7)
    whole = [2 / (0.5 * (t + 7 - 1)) for t in range(1, 11)]
    assert np.allclose(schedule.values(1, 0, 10), whole)
    assert np.allclose(schedule.values(1, 4, 6), whole[4:])


def test_theorem_1_uses_the_constants():
    for k in (1, 5, 20):
        assert steps.Theorem1(CONSTANTS).values(k, 0, 3).tolist() == [CONSTANTS.step_size(k)] * 3


def test_theorem_1_as_printed_refuses_a_step_that_is_not_positive():
    noisy = mr.theory.Constants(mu=0.01, L=1, L1=1, sigma=10, zeta=1, C_M=0.1, C_P=0.1, rho=0.5, D=1)
    assert noisy.step_size(1, printed=True) < 0 < noisy.step_size(1)
    with pytest.raises(mr.InputError, match="printed step size in epoch 1 is -"):
        steps.Theorem1(noisy, printed=True).values(1, 0, 1)


def test_cap():
    assert steps.Capped(steps.Decaying(mu=1), 0.8).values(1, 0, 3).tolist() == [0.8, 0.8, 2 / 3]


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "big", None, True])
def test_bad_values(value):
    with pytest.raises(mr.InputError, match="step must be a positive number"):
        steps.Constant(value)
    with pytest.raises(mr.InputError, match="mu must be a positive number"):
        steps.Decaying(mu=value)


def test_bad_offset():
    with pytest.raises(mr.InputError, match="t0 must be at least 1"):
        steps.Decaying(mu=1, t0=0)


def test_solve_uses_a_schedule_step_by_step():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 2))
    y = rng.standard_normal(50)
    x = np.zeros(2)
    for t, (a, target) in enumerate(zip(A, y, strict=True), start=1):
        x = x - min(0.1, 2 / (3 * (t + 4))) * a * (a @ x - target)
    schedule = steps.Capped(steps.Decaying(mu=3, t0=5), 0.1)
    buffer = mr.Buffer(features=A, targets=y)
    assert np.allclose(mr.solve(mr.GLM(), buffer, replay=mr.Serial(), step=schedule).epochs[0].last, x, rtol=1e-12)
