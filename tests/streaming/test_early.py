"""What predicts where there are about as many coordinates as rows."""

from __future__ import annotations

import numpy as np
import pytest
from streaming.worlds import fed, part, regression, sticky, transitions

import multireplay as mr
from multireplay.streaming.early import CHAINS, EXACT, Early

WIDTH = 520


def test_a_gain_is_the_loss_that_is_spared():
    columns, _ = regression(0, 64, width=5)
    early, rng = Early(5), np.random.default_rng(0)
    early.points[:], early.made[:] = rng.standard_normal(early.points.shape), True
    best = early.points[early.best].copy()
    early.judge(mr.GLM(), columns, 64.0)
    loss = [0.5 * np.sum((columns["features"] @ x - columns["targets"]) ** 2) for x in early.points]
    assert np.allclose(early.gains, 0.5 * np.sum((columns["features"] @ best - columns["targets"]) ** 2) - loss)


def test_steps_in_order_are_stochastic_approximation():
    columns, _ = regression(1, 100, width=5)
    early = Early(5)
    early.made[EXACT + 1 :], early.step = True, 0.05
    early.judge(mr.GLM(), columns, 100.0)
    for number, share in enumerate(CHAINS):
        x = np.zeros(5)
        for a, y in zip(columns["features"], columns["targets"], strict=True):
            x = x - share * 0.05 * (a @ x - y) * a
        assert np.allclose(early.points[EXACT + 1 + number], x)


@pytest.mark.parametrize("rows", [260, 520, 1024, 3000])
def test_predictions_are_near_those_of_the_best_ridge(rows):
    """The exact fit's error is 17 times that of the best ridge where there are as many rows as coordinates."""
    columns, x = regression(2, rows, width=WIDTH)
    stream = fed(mr.Stream(mr.GLM()), columns)
    A, y = columns["features"], columns["targets"]
    ridges = [np.linalg.solve(A.T @ A + r * np.eye(WIDTH), A.T @ y) for r in 4.0 ** np.arange(8)]
    assert np.linalg.norm(stream.predictor - x) < 1.15 * min(np.linalg.norm(ridge - x) for ridge in ridges)


def test_rows_of_the_open_block_move_predictions_where_they_are_like_the_next():
    rng = np.random.default_rng(3)
    A, x = sticky(rng, (1200, WIDTH), 0.99), rng.standard_normal(WIDTH) / np.sqrt(WIDTH)
    stream = fed(mr.Stream(mr.GLM()), {"features": A[:1100], "targets": A[:1100] @ x})
    still, moving = stream.predictor.copy(), []
    for row in range(1100, 1200):
        moving.append(abs(stream.predict(A[row]) - A[row] @ x))
        stream.observe(features=A[row], targets=A[row] @ x)
    assert np.mean(moving) < 0.5 * np.mean(np.abs(A[1100:] @ (still - x)))
    again = mr.Stream.from_state(mr.GLM(), stream.state())
    assert np.array_equal(again.predictor, stream.predictor)


def test_values_are_predicted():
    columns = transitions(5, 2000, states=40, width=WIDTH)
    stream = fed(mr.Stream(mr.PolicyEvaluation(0.8)), part(columns, 0, 1500))
    values = columns["features"] @ stream.x
    assert np.linalg.norm(stream.predict(columns["features"]) - values) < 0.3 * np.linalg.norm(values)


def test_what_diverges_or_cannot_be_made_is_no_answer():
    early = Early(2)
    early.renew(mr.GLM(), mr.Buffer(features=np.zeros((8, 2)), targets=np.ones(8)), None)
    assert not early.made.any()
    assert np.array_equal(early.start().x, np.zeros(2))
    grows = mr.GLM("exp")
    early.renew(grows, mr.Buffer(features=np.full((8, 2), 40.0), targets=np.full(8, 1e300)), np.ones(2))
    assert np.isfinite(early.points[early.made]).all()
    columns = {"features": np.full((8, 2), 40.0), "targets": np.ones(8)}
    early.judge(grows, columns, 8.0)
    assert np.isfinite(early.points).all()
    assert not np.isnan(early.gains).any()
