"""MER's own rule of steps, with c and the cap from the record."""

from __future__ import annotations

import math

import numpy as np
import pytest

import multireplay as mr
from multireplay.updates.pace import CALLS

LENGTH = 1000


def features(seed: int = 3, dim: int = 3) -> np.ndarray:
    return np.sign(np.random.default_rng(seed).standard_normal((LENGTH, dim))) * np.linspace(1, 0.3, dim)


def regression(A: np.ndarray, seed: int = 4, noise: float = 1.0) -> mr.Buffer:
    rng = np.random.default_rng(seed)
    return mr.Buffer(features=A, targets=A @ np.ones(A.shape[1]) + noise * rng.standard_normal(len(A)))


def steps_of(result: mr.Result) -> list[float]:
    return [epoch.step for epoch in result.epochs]


def least_step(A: np.ndarray, y: np.ndarray, cap: float, average: str | float, x0: np.ndarray) -> float:
    """The definition, written out for least squares: the least step at which half a standard error is left of x0.

    In every eigenvector of the second moments 512 steps are taken one after the other, and the iterates averaged.
    """
    T, S = 512, A.T @ A / LENGTH
    fit = np.linalg.solve(S, A.T @ y / LENGTH)
    parts = np.array_split(np.arange(LENGTH), 32)
    batches = np.array([A[rows].T @ (A[rows] @ fit - y[rows]) / len(rows) for rows in parts])
    noise = np.var(batches @ np.linalg.inv(S) @ np.linalg.cholesky(S), axis=0, ddof=1).sum() / 32
    values, vectors = np.linalg.eigh(S)
    for step in cap * 2.0 ** np.arange(-16, 1e-9, 1 / 8):
        kept = np.exp(-step * values * np.arange(1, T + 1)[:, None])
        left = {"none": kept[-1], "full": kept.mean(axis=0)}.get(average, kept[T // 8 :].mean(axis=0))
        if (values * (left * (vectors.T @ (x0 - fit))) ** 2).sum() <= noise / 4:
            return float(step)
    return cap


@pytest.mark.parametrize("average", [7 / 8, "full", "none"])
@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("x0", [np.zeros(3), np.array([50.0, -20.0, 3.0])], ids=["near", "far"])
def test_automatic_steps_are_the_rule_with_both_constants_from_the_record(average, phases, x0):
    A = features()
    buffer = regression(A)
    cap = 0.5 / (A**2).sum(axis=1).max()
    how = {"replay": mr.Multiscale(phases=phases), "average": average, "x0": x0}
    result = mr.solve(mr.GLM(), buffer, **how)
    last = least_step(A, buffer["targets"], cap, average, x0)
    c = result.epochs[-1].step * 512 / math.log(512)
    assert result.epochs[-1].step == pytest.approx(last, rel=0.1)  # a grid of factor 2^(1/8)
    assert steps_of(result) == pytest.approx([min(cap, c * math.log(2**k) / 2**k) for k in range(1, 10)])
    same = mr.solve(mr.GLM(), buffer, step=mr.steps.PerEpoch(c=c, cap=cap), **how)
    assert np.allclose(result.x, same.x, rtol=1e-9)
    assert average == "full" or (last < cap and f"with c = {c:.4g}, the least at which" in str(result.status))


def test_the_farther_the_start_and_the_smaller_the_noise_the_larger_are_the_last_steps():
    def last(noise: float, far: float) -> float:
        buffer = regression(features(), noise=noise)
        return mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), average="none", x0=np.full(3, far)).epochs[-1].step

    assert last(1.0, 2.0) < last(0.1, 2.0) < last(0.1, 10.0)
    assert last(0.0, 2.0) == 0.5 / (features() ** 2).sum(axis=1).max()


def test_directions_in_which_no_step_goes_do_not_count():
    A = features()
    wanted = mr.solve(mr.GLM(), regression(A), replay=mr.Multiscale()).epochs[-1].step
    for more in (np.zeros(LENGTH), A[:, 0]):
        result = mr.solve(mr.GLM(), regression(np.column_stack([A, more])), replay=mr.Multiscale())
        assert result.epochs[-1].step == pytest.approx(wanted, rel=0.5)
        assert "with c = " in str(result.status)


def test_policy_evaluation_and_links_and_operators_of_ones_own_have_it_too():
    A, process = features(dim=2), mr.simulate.paper_mrp(0.5)
    rng = np.random.default_rng(8)
    heads = (rng.random(LENGTH) < 1 / (1 + np.exp(-A @ [2.0, 1.0]))).astype(float)
    matrix = np.array([[2.0, 1.0], [-1.0, 0.5]])
    own = mr.VariationalInequality(lambda x, sample: matrix @ x - sample, dim=2, lipschitz=3.0)
    for problem, buffer in (
        (process.problem, process.buffer(20_000, seed=5)),
        (mr.GLM("logistic"), mr.Buffer(features=A, targets=heads)),
        (own, mr.Buffer(samples=1 + rng.standard_normal((LENGTH, 2)))),
    ):
        result = mr.solve(problem, buffer, replay=mr.Multiscale())
        assert result.epochs[-1].step < result.epochs[0].step
        assert "with c = " in str(result.status)


def test_a_slow_operator_is_not_called_much_more_often_than_there_are_steps():
    calls = []
    problem = mr.VariationalInequality(lambda x, sample: calls.append(1) or x - sample, dim=20, lipschitz=1.0)
    samples = 1 + np.random.default_rng(1).standard_normal((6000, 20))
    mr.solve(problem, mr.Buffer(samples=samples), replay=mr.Multiscale())
    assert len(calls) < 2.5 * CALLS + 4 * len(samples) + 13 * len(samples)  # steps, and residuals of the epochs


def test_a_number_is_one_constant_step():
    assert set(steps_of(mr.solve(mr.GLM(), regression(features()), replay=mr.Multiscale(), step=0.01))) == {0.01}


@pytest.mark.parametrize("replay", [mr.Serial(), mr.Dyadic(), mr.Interleaved(8), mr.Multiscale(phases=2, sweep=True)])
def test_other_orders_keep_one_constant_step(replay):
    A = features()
    result = mr.solve(mr.GLM(), regression(A), replay=replay)
    assert set(steps_of(result)) == {0.5 / (A**2).sum(axis=1).max()}
    assert "epoch, because" not in str(result.status)
    assert "own rule" not in str(result.status)


def test_an_update_that_needs_a_constant_step_has_one():
    A = features()
    result = mr.solve(mr.GLM(), regression(A), replay=mr.Multiscale(), update=mr.VarianceReduced(precondition=None))
    assert len(set(steps_of(result)[:9])) == 1


def test_without_a_modulus_the_step_is_the_same_in_every_epoch_and_the_status_says_why():
    A = features(dim=2)
    own = mr.GLM(lambda z: z, lipschitz=1.0)
    skew = np.array([[0.1, 1.0], [-1.0, -0.1]])
    wide = mr.Buffer(features=features(dim=500)[:900], targets=np.ones(900))
    turning = mr.VariationalInequality(lambda x, sample: skew @ x - sample, 2, mr.sets.Ball(1.0), lipschitz=2.0)
    for problem, buffer, why in (
        (own, regression(A), "has no Jacobian"),
        (turning, mr.Buffer(samples=A[:64]), "not monotone"),
        (mr.GLM(ridge=0.1), wide, "900 rows are too few"),
        (mr.GLM(ridge=0.1), regression(features(dim=700)), "700 coordinates are too many"),
    ):
        result = mr.solve(problem, buffer, replay=mr.Multiscale(), holdout=None)
        assert len(set(steps_of(result))) == 1
        assert "the same in every epoch, because" in str(result.status)
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
    assert mean[-1] < 0.15 * np.mean(constant, axis=0)[-1]
