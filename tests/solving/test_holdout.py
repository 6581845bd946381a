"""Which epoch is returned, and what a held-out block of time decides."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.solving.holdout import split


def test_the_epoch_with_the_smallest_residual_is_returned():
    process = mr.simulate.paper_mrp(0.95)
    errors = []
    for seed in range(5):
        record = process.buffer(2**15, seed=seed)
        result = mr.solve(process.problem, record, replay=mr.Multiscale(), step=0.5)
        columns = process.problem.columns(record)
        residuals = [np.linalg.norm(process.problem.mean_operator(epoch.answer, columns)) for epoch in result.epochs]
        assert result.chosen == int(np.argmin(residuals))
        assert np.allclose([epoch.residual for epoch in result.epochs], residuals)
        assert np.array_equal(result.x, result.epochs[result.chosen].answer)
        gaps = [np.sum((epoch.answer - process.solution) ** 2) for epoch in result.epochs]
        errors.append((gaps[result.chosen], gaps[-1], min(gaps)))
    mine, last, oracle = np.mean(errors, axis=0)
    assert mine < last / 3  # the last epoch is nearly serial
    assert mine < 4 * oracle  # the residual weighs directions by their curvature, the error does not
    assert "smallest residual" in str(result.status)


def test_a_diverged_epoch_is_never_returned():
    buffer = mr.Buffer(features=[[1e60], [1.0], [1e60], [1.0]], targets=np.ones(4))
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=0.1)
    assert result.chosen == 0


def test_a_split_is_in_time_with_a_gap():
    buffer = mr.Buffer(targets=np.arange(1000.0))
    learn, test = split(buffer, 0.2)
    assert learn["targets"][-1] == 789
    assert test["targets"][0] == 800
    assert len(test) == 200
    with pytest.raises(mr.InputError, match="leaves nothing"):
        split(buffer[:3], 0.2)


@pytest.fixture(scope="module")
def crowded():
    """More coordinates than 10000 dependent rows can tell: a small copy of the paper's logistic example."""
    world = mr.simulate.AutoregressiveLogistic(dim=120, slow=50, seed=0)
    return world, world.buffer(1500, seed=1)


def test_a_block_is_held_out_where_the_exact_fit_overfits(crowded):
    world, record = crowded

    def error(x):
        return np.sum((x - world.solution) ** 2)

    result = mr.solve(world.problem, record)
    assert result.candidates is not None
    assert "Chosen from 10 candidates" in str(result.status)
    ridges = [error(world.problem.fit_exactly(record, ridge)) for ridge in (0.03, 0.1, 0.3, 1.0)]
    assert error(world.problem.fit_exactly(record)) > 3 * min(ridges)  # it does overfit
    assert error(result.x) < 1.25 * min(ridges)
    values = [float(row["loss on the held-out block"]) for row in result.candidates.rows]
    assert "smallest" in result.candidates.rows[int(np.argmin(values))]["note"]


def test_holding_out_is_a_choice(crowded):
    world, record = crowded
    assert mr.solve(world.problem, record, holdout=None).candidates is None
    assert mr.solve(world.problem, record, passes=1).candidates is None
    assert mr.solve(world.problem, record, holdout=0.3, replay=mr.Shuffle(0)).candidates is not None


def test_without_a_loss_the_residual_decides():
    process = mr.simulate.paper_mrp(0.9)
    result = mr.solve(process.problem, process.buffer(4000, seed=0), holdout=0.25)
    assert "by the residual on the last 25%" in str(result.status)
    assert len(result.candidates.rows) == 10
    assert result.passes < 9


@pytest.mark.parametrize("holdout", [0, 1, -0.1, True, "some", [0.2]])
def test_bad_shares(crowded, holdout):
    with pytest.raises(mr.InputError, match="holdout must be a share"):
        mr.solve(crowded[0].problem, crowded[1], holdout=holdout)


def test_richardson_romberg_removes_most_of_the_bias_of_a_constant_step():
    rng = np.random.default_rng(0)
    star = np.array([1.0, -1.0, 0.5])
    errors = []
    for _ in range(4):
        A = rng.standard_normal((2**15, 3))
        y = (rng.random(2**15) < 1 / (1 + np.exp(-A @ star))).astype(float)
        buffer = mr.Buffer(features=A, targets=y)
        exact = mr.GLM("logistic").fit_exactly(buffer)
        answers = [
            mr.solve(mr.GLM("logistic"), buffer, update=update).x for update in (mr.Plain(), mr.RichardsonRomberg())
        ]
        errors.append([np.sum((x - exact) ** 2) for x in answers])
    plain, combined = np.mean(errors, axis=0)
    assert combined < plain / 3


def test_richardson_romberg_is_the_formula_and_needs_the_whole_space():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 2))
    buffer = mr.Buffer(features=A, targets=A @ [1.0, 2.0])
    short, long = (mr.solve(mr.GLM(), buffer, update=mr.Plain(), step=step).x for step in (0.01, 0.02))
    result = mr.solve(mr.GLM(), buffer, update=mr.RichardsonRomberg(), step=0.01)
    assert np.allclose(result.x, 2 * short - long, rtol=1e-12)
    assert result.passes == 2
    with pytest.raises(mr.InputError, match="needs the whole space"):
        mr.solve(mr.GLM(), buffer, update=mr.RichardsonRomberg(), constraint=mr.sets.Ball(1.0))
