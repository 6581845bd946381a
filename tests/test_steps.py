from __future__ import annotations

import math

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


def literal(k: int, c: float, cap: float) -> float:
    """MER's own rule, written out: Algorithm 1 has T_k = 2^k steps in epoch k."""
    T = 2**k
    return min(cap, c * math.log(T) / T)


@pytest.mark.parametrize(("c", "cap"), [(400, 0.5), (3.0, 1e-3), (1e-2, 10.0)])
def test_per_epoch_is_the_formula_in_every_epoch_and_at_every_offset(c, cap):
    for k in (1, 2, 3, 10, 17, 40):
        for first, count in ((0, 1), (0, 3), (5, 2)):
            assert np.allclose(steps.PerEpoch(c, cap).values(k, first, count), [literal(k, c, cap)] * count, rtol=1e-14)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "big", None, True])
def test_bad_values(value):
    for name in ("c", "cap"):
        with pytest.raises(mr.InputError, match=f"{name} must be a positive number"):
            steps.PerEpoch(**{"c": 1.0, "cap": 1.0, name: value})
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


def regression(length: int = 300) -> tuple[mr.Buffer, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((length, 3))
    y = A @ [1.0, -1.0, 0.5] + rng.standard_normal(length)
    return mr.Buffer(features=A, targets=y), A, y


@pytest.mark.parametrize("length", [256, 300])
def test_multiscale_replay_with_its_own_rule_is_a_short_loop(length):
    """Algorithm 1 on a static buffer, literally, also where B is no power of two."""
    buffer, A, y = regression(length)
    c, cap = 0.9, 0.06
    result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=steps.PerEpoch(c, cap), average=0.5)
    assert [epoch.k for epoch in result.epochs] == list(range(1, 9))
    for epoch in result.epochs:
        T = 2**epoch.k
        x, total = np.zeros(3), np.zeros(3)
        for t in range(1, T + 1):
            row = t * length // T - 1
            x = x - literal(epoch.k, c, cap) * A[row] * (A[row] @ x - y[row])
            total += x if t > T / 2 else 0
        assert epoch.step == pytest.approx(literal(epoch.k, c, cap), rel=1e-14)
        assert np.allclose(epoch.last, x, rtol=1e-11)
        assert np.allclose(epoch.average, total / (T / 2), rtol=1e-11)
    assert result.epochs[0].step == cap > result.epochs[-1].step


@pytest.mark.parametrize("replay", [mr.Multiscale(phases=3), mr.Multiscale(phases="all"), mr.Multiscale(epochs=5)])
@pytest.mark.parametrize("backend", ["compiled", "python"])
def test_a_rule_by_scale_counts_the_steps_of_a_chain(replay, backend):
    buffer, *_ = regression()
    rule = steps.PerEpoch(c=0.9, cap=0.06)
    found = mr.solve(mr.GLM(), buffer, replay=replay, step=rule, backend=backend).epochs
    assert np.allclose([epoch.step for epoch in found], [literal(epoch.k, 0.9, 0.06) for epoch in found])
    assert all(epoch.length == 2**epoch.k for epoch in found)


@pytest.mark.parametrize(
    "replay", [mr.Serial(), mr.Dyadic(), mr.Shuffle(0), mr.Uniform(0), mr.Skip(3), mr.Multiscale(phases=3, sweep=True)]
)
@pytest.mark.parametrize("wrap", [lambda rule: rule, steps.Doubled, lambda rule: steps.Capped(rule, 0.01)])
def test_a_rule_by_scale_is_refused_where_epochs_are_of_another_length(replay, wrap):
    """All of these have k = 1 or other lengths: T_1 = 2 would be taken for the length of a whole pass, in silence."""
    buffer, *_ = regression()
    for rule in (steps.PerEpoch(c=0.9, cap=0.06), steps.Theorem1(CONSTANTS)):
        with pytest.raises(mr.InputError, match=r"is for epochs of 2\^k steps") as refused:
            mr.solve(mr.GLM(), buffer, replay=replay, step=wrap(rule))
        assert repr(replay) in str(refused.value)


def test_a_rule_by_scale_needs_its_order_named():
    buffer, *_ = regression()
    with pytest.raises(mr.InputError, match=r"of Dyadic\(\) has 300: give replay=mr.Multiscale"):
        mr.solve(mr.GLM(), buffer, step=steps.PerEpoch(c=0.9, cap=0.06))


def test_a_rule_by_scale_goes_through_the_record_once(monkeypatch):
    """All scales are run in one loop, as with a number."""
    ways = set()
    arranged = mr.updates.plain.arrange

    def arrange(plan, jobs):
        itinerary = arranged(plan, jobs)
        ways.update(leg.way for leg in itinerary.legs)
        return itinerary

    monkeypatch.setattr(mr.updates.plain, "arrange", arrange)
    buffer, *_ = regression()
    mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=steps.PerEpoch(c=0.9, cap=0.06))
    assert ways == {"scales"}


def test_online_takes_the_steps_of_the_rule_and_goes_on_from_a_file(tmp_path):
    _, A, y = regression(600)
    rule = steps.PerEpoch(c=0.3, cap=0.06)
    run = mr.Online(mr.GLM(), capacity=64, step=rule)
    run.observe(features=A[:90], targets=y[:90])
    run.save(tmp_path / "run.npz")
    again = mr.Online.load(tmp_path / "run.npz")
    for each in (run, again):
        each.observe(features=A[90:190], targets=y[90:190])
        assert [epoch.step for epoch in each.epochs] == pytest.approx([literal(k, 0.3, 0.06) for k in range(1, 7)])
    assert run.epochs[0].step > run.epochs[-1].step
    assert np.array_equal(run.x, again.x)
