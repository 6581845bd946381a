"""MER's own rule of steps, with c and the cap from the record."""

from __future__ import annotations

import math

import numpy as np
import pytest

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.updates.pace import CALLS, modulus

LENGTH = 1000


def features(seed: int = 3, dim: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((LENGTH, dim)) * np.arange(1, dim + 1)


def regression(A: np.ndarray, seed: int = 4) -> mr.Buffer:
    rng = np.random.default_rng(seed)
    return mr.Buffer(features=A, targets=A @ np.ones(A.shape[1]) + rng.standard_normal(len(A)))


def modulus_of(problem, buffer, x0=None) -> float | None:
    record = as_record(problem, buffer)
    return modulus(record, np.zeros(record.dim) if x0 is None else x0)[0]


def least(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])


def test_modulus_of_least_squares_is_the_least_eigenvalue_of_the_second_moments():
    A = features()
    assert modulus_of(mr.GLM(), regression(A)) == pytest.approx(least(A.T @ A / LENGTH))
    assert modulus_of(mr.GLM(ridge=0.7), regression(A)) == pytest.approx(least(A.T @ A / LENGTH) + 0.7)


def test_modulus_of_policy_evaluation_is_that_of_the_symmetric_part():
    process = mr.simulate.paper_mrp(0.5)
    buffer = process.buffer(LENGTH, seed=5)
    now, then = buffer["features"], buffer["next_features"]
    jacobian = now.T @ (now - process.problem.gamma * then) / LENGTH
    assert modulus_of(process.problem, buffer) == pytest.approx(least(jacobian))


def test_modulus_where_the_operator_is_not_linear_is_that_close_to_the_root():
    A = features(dim=2)
    rng = np.random.default_rng(8)
    buffer = mr.Buffer(features=A, targets=(rng.random(LENGTH) < 1 / (1 + np.exp(-A @ [2.0, 1.0]))).astype(float))
    mean = 1 / (1 + np.exp(-A @ mr.GLM("logistic").fit_exactly(buffer)))
    assert modulus_of(mr.GLM("logistic"), buffer) == pytest.approx(
        least((A.T * mean * (1 - mean)) @ A / LENGTH), rel=0.1
    )


def test_modulus_of_an_operator_of_ones_own_is_by_differences():
    matrix = np.array([[2.0, 1.0], [-1.0, 0.5]])
    problem = mr.VariationalInequality(lambda x, sample: matrix @ x - sample, dim=2, lipschitz=3.0)
    assert modulus_of(problem, mr.Buffer(samples=features(dim=2))) == pytest.approx(0.5, rel=1e-4)


def test_a_slow_operator_is_not_called_on_every_row():
    calls = []
    problem = mr.VariationalInequality(lambda x, sample: calls.append(1) or x - sample, dim=20, lipschitz=1.0)
    samples = np.random.default_rng(1).standard_normal((6000, 20))
    assert modulus_of(problem, mr.Buffer(samples=samples)) == pytest.approx(1.0, rel=1e-4)
    assert len(calls) <= 1.5 * CALLS


def test_directions_in_which_no_step_goes_do_not_count():
    A = features()
    wanted = least(A.T @ A / LENGTH)
    assert modulus_of(mr.GLM(), regression(np.column_stack([A, np.zeros(LENGTH)]))) == pytest.approx(wanted)
    assert modulus_of(mr.GLM(), regression(np.column_stack([A, A[:, 0]]))) > wanted / 2


def steps_of(result: mr.Result) -> list[float]:
    return [epoch.step for epoch in result.epochs]


@pytest.mark.parametrize(("average", "power"), [(7 / 8, 4.0), ("full", 4.0), ("none", 1.0)])
@pytest.mark.parametrize("phases", [1, 2])
def test_automatic_steps_are_the_rule_with_both_constants_from_the_record(average, power, phases):
    A = features()
    mu, bound = least(A.T @ A / LENGTH), (A**2).sum(axis=1).max()
    how = {"replay": mr.Multiscale(phases=phases), "average": average}
    result = mr.solve(mr.GLM(), regression(A), **how)
    rule = [min(0.5 / bound, power / mu * math.log(2**k) / 2**k) for k in range(1, 10)]
    assert steps_of(result) == pytest.approx(rule)
    assert rule[-1] < rule[0] == 0.5 / bound
    same = mr.solve(mr.GLM(), regression(A), step=mr.steps.PerEpoch(c=power / mu, cap=0.5 / bound), **how)
    assert np.allclose(result.x, same.x, rtol=1e-12)
    assert f"c = {power:g}/μ = {power / mu:.4g}" in str(result.status)


def test_a_number_is_one_constant_step():
    assert set(steps_of(mr.solve(mr.GLM(), regression(features()), replay=mr.Multiscale(), step=0.01))) == {0.01}


@pytest.mark.parametrize("replay", [mr.Serial(), mr.Dyadic(), mr.Interleaved(8), mr.Multiscale(phases=2, sweep=True)])
def test_other_orders_keep_one_constant_step(replay):
    A = features()
    result = mr.solve(mr.GLM(), regression(A), replay=replay)
    assert set(steps_of(result)) == {0.5 / (A**2).sum(axis=1).max()}
    assert "μ" not in str(result.status)


def test_an_update_that_needs_a_constant_step_has_one():
    A = features()
    result = mr.solve(mr.GLM(), regression(A), replay=mr.Multiscale(), update=mr.VarianceReduced(precondition=None))
    assert len(set(steps_of(result)[:9])) == 1


def test_without_a_modulus_the_step_is_the_same_in_every_epoch_and_the_status_says_why():
    A = features(dim=2)
    own = mr.GLM(lambda z: z, lipschitz=1.0)
    skew = np.array([[0.1, 1.0], [-1.0, -0.1]])
    turning = mr.VariationalInequality(lambda x, sample: skew @ x - sample, 2, mr.sets.Ball(1.0), lipschitz=2.0)
    for problem, buffer, why in (
        (own, regression(A), "has no Jacobian"),
        (turning, mr.Buffer(samples=A[:64]), "not strongly monotone"),
        (mr.GLM(ridge=0.1), regression(features(dim=700)), "1000 rows are too few for 700 coordinates"),
    ):
        result = mr.solve(problem, buffer, replay=mr.Multiscale(), holdout=None)
        assert len(set(steps_of(result))) == 1
        assert "the same in every epoch, since" in str(result.status)
        assert why in str(result.status)


def test_on_disk_the_rule_is_the_same_to_the_last_bit(tmp_path):
    buffer = regression(features())
    buffer.save(tmp_path / "record")
    here = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale())
    there = mr.solve(mr.GLM(), mr.Buffer.open(tmp_path / "record"), replay=mr.Multiscale())
    assert steps_of(here) == steps_of(there)
    assert np.array_equal(here.x, there.x)


def test_the_error_does_not_rise_again_in_the_last_epochs():
    """At one constant step it does: they are nearly serial."""
    process = mr.simulate.paper_mrp(0.95)
    own, constant = [], []
    for seed in range(8):
        buffer = process.buffer(2**16, seed=(41, seed))
        for found, step in ((own, "auto"), (constant, 0.5)):
            result = mr.solve(process.problem, buffer, replay=mr.Multiscale(), step=step)
            away = np.array([epoch.answer - process.solution for epoch in result.epochs])
            found.append(np.einsum("ki,ij,kj->k", away, process.weight, away))
    mean = np.mean(own, axis=0)
    assert mean[-1] < 1.2 * mean.min()
    assert mean[-1] < 0.05 * np.mean(constant, axis=0)[-1]
