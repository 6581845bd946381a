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


def best_step(A: np.ndarray, y: np.ndarray, cap: float, average: str | float, x0: np.ndarray) -> float:
    """The definition, written out for least squares: where what is left of x0 and what the order costs are least.

    In every eigenvector of the second moments 512 steps are taken one after the other, and the iterates averaged; and
    512 steps are taken at the cap, on the rows of the last epoch.
    """
    T, S, x, iterates = 512, A.T @ A / LENGTH, x0.copy(), []
    fit = np.linalg.solve(S, A.T @ y / LENGTH)
    for t in range(1, T + 1):
        row = t * LENGTH // T - 1
        x = x - cap * A[row] * (A[row] @ x - y[row])
        iterates.append(x)

    def answer(each: np.ndarray) -> np.ndarray:
        return {"none": each[-1], "full": each.mean(axis=0)}.get(average, each[T // 8 :].mean(axis=0))

    values, vectors = np.linalg.eigh(S)

    def left(step: float) -> float:
        kept = answer(np.exp(-step * values * np.arange(1, T + 1)[:, None]))
        return float((values * (kept * (vectors.T @ (x0 - fit))) ** 2).sum())

    away = answer(np.array(iterates)) - fit
    order = max(0.0, away @ S @ away - left(cap))
    shares = 2.0 ** np.arange(-16, 1e-9, 1 / 8)
    return float(cap * min(shares, key=lambda s: left(s * cap) + order * s ** (1 if average == "none" else 2)))


@pytest.mark.parametrize("average", [7 / 8, "full", "none"])
@pytest.mark.parametrize("x0", [np.zeros(3), np.array([50.0, -20.0, 3.0])], ids=["near", "far"])
def test_automatic_steps_are_the_rule_with_both_constants_from_the_record(average, x0):
    A = features()
    buffer = regression(A)
    cap = 0.5 / (A**2).sum(axis=1).max()
    how = {"replay": mr.Multiscale(), "average": average, "x0": x0}
    result = mr.solve(mr.GLM(), buffer, **how)
    last = best_step(A, buffer["targets"], cap, average, x0)
    c = result.epochs[-1].step * 512 / math.log(512)
    assert result.epochs[-1].step == pytest.approx(last, rel=0.1)  # a grid of factor 2^(1/8)
    assert steps_of(result) == pytest.approx([min(cap, c * math.log(2**k) / 2**k) for k in range(1, 10)])
    same = mr.solve(mr.GLM(), buffer, step=mr.steps.PerEpoch(c=c, cap=cap), **how)
    assert np.allclose(result.x, same.x, rtol=1e-9)
    assert average == "full" or last < cap
    assert f"with c = {c:.4g}, at which" in str(result.status)
    assert result.passes == pytest.approx(same.passes + 512 / LENGTH)  # the run at the cap


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


def test_neither_a_jacobian_nor_few_coordinates_nor_many_rows_are_needed():
    A = features(dim=2)
    wanted = mr.solve(mr.GLM(), regression(A), replay=mr.Multiscale())
    own = mr.solve(mr.GLM(lambda z: z, lipschitz=1.0), regression(A), replay=mr.Multiscale())
    assert steps_of(own) == pytest.approx(steps_of(wanted), rel=0.1)
    for problem, buffer in (
        (mr.GLM(lambda z: np.tanh(z), lipschitz=1.0), regression(A)),
        (mr.GLM(ridge=0.1), mr.Buffer(features=features(dim=500)[:900], targets=np.ones(900))),
        (mr.GLM(ridge=0.1), regression(features(dim=700))),
    ):
        result = mr.solve(problem, buffer, replay=mr.Multiscale(), holdout=None)
        assert "with c = " in str(result.status)
        assert result.chosen == len(result.epochs) - 1


def test_with_many_coordinates_c_is_that_of_the_eigenvalues():
    """The small matrix that stands for J is as good as all of its eigenvalues."""
    rng = np.random.default_rng(12)
    A = rng.standard_normal((4000, 200)) * np.linspace(1, 0.05, 200)
    y = A @ rng.standard_normal(200) + rng.standard_normal(4000)
    result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y), replay=mr.Multiscale(), average="none")
    cap, T, S = 0.5 / (A**2).sum(axis=1).max(), 2048, A.T @ A / 4000
    values, vectors = np.linalg.eigh(S)
    fit, x = np.linalg.solve(S, A.T @ y / 4000), np.zeros(200)
    for t in range(1, T + 1):
        row = t * 4000 // T - 1
        x = x - cap * A[row] * (A[row] @ x - y[row])
    shares = 2.0 ** np.arange(-16, 1e-9, 1 / 8)
    left = np.exp(-shares[:, None] * cap * T * values) ** 2 @ (values * (vectors.T @ fit) ** 2)
    total = left + max(0.0, (x - fit) @ S @ (x - fit) - left[-1]) * shares
    assert result.epochs[-1].step == pytest.approx(cap * shares[total.argmin()], rel=0.1)


def test_an_operator_that_is_not_monotone_has_the_same_step_in_every_epoch_and_the_status_says_why():
    skew = np.array([[0.1, 1.0], [-1.0, -0.1]])
    turning = mr.VariationalInequality(lambda x, sample: skew @ x - sample, 2, mr.sets.Ball(1.0), lipschitz=2.0)
    result = mr.solve(turning, mr.Buffer(samples=features(dim=2)[:64]), replay=mr.Multiscale(), holdout=None)
    assert len(set(steps_of(result))) == 1
    assert "the same in every epoch, because the operator is not monotone" in str(result.status)
    assert "which has the smallest residual" in str(result.status)


def test_an_operator_that_is_not_finite_has_the_same_step_in_every_epoch():
    """Its steps stay on a small ball, and the fit of its rows, on the whole space, does not."""
    wild = mr.VariationalInequality(
        lambda x, sample: x - sample if np.abs(x).max() < 2 else np.full(2, np.nan), 2, mr.sets.Ball(1.0), lipschitz=1.0
    )
    result = mr.solve(wild, mr.Buffer(samples=50 + features(dim=2)[:64]), replay=mr.Multiscale(), holdout=None)
    assert len(set(steps_of(result))) == 1
    assert "because the operator is not finite" in str(result.status)


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


WALK = 50
"""Places of a reflecting walk, whose radial features are so alike that no step forgets the start."""


def test_where_no_step_forgets_the_start_the_longest_is_not_taken():
    """At the cap throughout it ended 5 times as far away as at the best c of a grid."""
    places = np.arange(WALK)
    moves = (np.eye(WALK)[np.maximum(places - 1, 0)] + np.eye(WALK)[np.minimum(places + 1, WALK - 1)]) / 2
    centers = np.linspace(0, WALK - 1, 10)
    radial = np.exp(-((places[:, None] - centers) ** 2) / (2 * centers[1] ** 2))
    walk = mr.simulate.MarkovRewardProcess(moves, radial, places / (WALK - 1), 0.95)
    own, grid = [], []
    for seed in range(4):
        buffer = walk.buffer(2**15, seed=(77, seed))
        result = mr.solve(walk.problem, buffer, replay=mr.Multiscale())
        cap, c = result.epochs[0].step, result.epochs[0].step * 2**15 / math.log(2**15)
        ends = [
            mr.solve(walk.problem, buffer, replay=mr.Multiscale(), step=mr.steps.PerEpoch(c / 2**j, cap))
            for j in range(7)
        ]
        away = [each.epochs[-1].answer - walk.solution for each in (result, *ends)]
        own.append(away[0] @ walk.weight @ away[0])
        grid.append([each @ walk.weight @ each for each in away[1:]])
    assert np.mean(own) < 2 * np.mean(grid, axis=0).min()


def test_the_last_epoch_answers_and_at_one_constant_step_that_with_the_smallest_residual():
    process = mr.simulate.paper_mrp(0.95)
    own, smallest = [], []
    for seed in range(8):
        buffer = process.buffer(2**15, seed=(42, seed))
        result = mr.solve(process.problem, buffer, replay=mr.Multiscale())
        least = min(result.epochs, key=lambda epoch: epoch.residual)
        assert result.chosen == len(result.epochs) - 1
        assert np.array_equal(result.x, result.epochs[-1].answer)
        assert "epoch 15, the last" in str(result.status)
        own.append(np.sum((result.x - process.solution) ** 2))
        smallest.append(np.sum((least.answer - process.solution) ** 2))
    assert np.mean(own) < np.mean(smallest)
    rules = (mr.steps.PerEpoch(c=200, cap=0.5), 0.5)
    given, constant = (mr.solve(process.problem, buffer, replay=mr.Multiscale(), step=rule) for rule in rules)
    assert given.chosen == 14
    assert constant.chosen == np.argmin([epoch.residual for epoch in constant.epochs]) < 14
    assert "which has the smallest residual" in str(constant.status)


def test_the_last_epoch_that_has_not_diverged_answers():
    rows = np.ones((64, 1))
    rows[32::2] = 1e60  # which epochs of at least 2^6 steps read, and none before
    rule = mr.steps.PerEpoch(c=1.0, cap=0.1)
    rows[63] = rows[47] = 1.0
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), mr.Buffer(features=rows, targets=np.ones(64)), replay=mr.Multiscale(), step=rule)
    good = [not epoch.diverged for epoch in result.epochs]
    assert good == [True] * 5 + [False]
    assert result.chosen == 4


def test_several_rules_compete_by_the_residuals_of_their_last_epochs():
    buffer, rules = regression(features()), [mr.steps.PerEpoch(c=c, cap=0.3) for c in (1e-4, 10.0, 1e-3)]
    result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=tuple(rules))
    assert result.chosen == 17  # of epochs 9, 18 and 27: the first and the last are still at the start
