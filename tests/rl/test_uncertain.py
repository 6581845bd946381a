"""Intervals of values, at observations and where episodes start."""

from __future__ import annotations

import pickle

import gymnasium
import numpy as np
import pytest

import multireplay as mr
from multireplay.inference import BatchMeans
from multireplay.rl.uncertain import start_value

GAMMA = 0.9
WORTH = np.array([4.0, 1.0, -2.0])


def episodes(rows, seed, starts=(0.5, 0.3, 0.2), sticky=0.0, noise=0.5):
    """Episodes that start in one of three states, each with its own mean reward, stay there, and end by chance."""
    rng = np.random.default_rng(seed)
    states, rewards, over, first = np.zeros((4, rows), dtype=np.int64)
    fresh, state = True, 0
    for t in range(rows):
        if fresh and not (t and rng.random() < sticky):
            state = rng.choice(3, p=starts)
        states[t], first[t] = state, fresh
        fresh = over[t] = rng.random() < 0.2
    rewards = WORTH[states] + noise * rng.standard_normal(rows)
    nothing = np.zeros(rows, dtype=bool)
    return mr.rl.Trajectory(
        states, states, rewards, over.astype(bool), nothing, states, first.astype(bool), gymnasium.spaces.Discrete(4)
    )


def truth(starts=(0.5, 0.3, 0.2)):
    return WORTH / (1 - GAMMA * 0.8), float(np.dot(starts, WORTH) / (1 - GAMMA * 0.8))


def test_one_observation_and_many():
    found = mr.rl.estimate(episodes(4000, 0), "one-hot", GAMMA)
    low, high = found.interval(1, level=0.9)
    assert isinstance(low, float)
    assert low < found.value(1) < high
    many = found.interval([0, 1, 2], level=0.9)
    assert many.shape == (3, 2)
    assert (many[1] == [low, high]).all()
    assert many == pytest.approx(found.result.interval(0.9, of=np.eye(4)[:3]))
    with pytest.warns(mr.UncertaintyWarning, match="too little of observation 1 to rely on its interval"):
        assert found.interval([0, 3])[1].tolist() == [-np.inf, np.inf]  # no step was taken from there
    assert found.interval(np.zeros(0, dtype=np.int64)).shape == (0, 2)
    wide = mr.rl.estimate(episodes(4000, 0), mr.rl.Function(lambda s: [1.0, float(s == 0), float(s == 1)]), GAMMA)
    assert wide.interval([0, 1, 2], level=0.9) == pytest.approx(many, rel=1e-5)


def test_blocks_of_observations_change_nothing(monkeypatch):
    found = mr.rl.estimate(episodes(4000, 1), "one-hot", GAMMA)
    whole = found.interval(found.trajectory.observations[:50])
    monkeypatch.setattr("multireplay.rl.features.base.NUMBERS", 28)
    assert np.array_equal(found.interval(found.trajectory.observations[:50]), whole)


def test_the_value_at_the_start_has_the_error_of_x_and_of_the_starts():
    """By batches: what each moves the mean over the starts by, whichever of the two it moves."""
    record = episodes(3200, 2)
    found = mr.rl.estimate(record, "one-hot", GAMMA)
    value, low, high = found.start_value
    assert value == pytest.approx(found.values(record.observations[record.starts]).mean())
    rows, first = np.eye(4)[record.observations][:, :3], record.starts
    then = np.where(record.terminated[:, None], 0.0, rows)
    x = found.x[:3]
    scores = rows * (rows @ x - record.rewards - GAMMA * then @ x)[:, None]
    matrices = np.einsum("bti,btj->bij", rows.reshape(32, 100, 3), (rows - GAMMA * then).reshape(32, 100, 3))
    sums, whole = scores.reshape(32, 100, 3).sum(axis=1), matrices.sum(axis=0)
    without = np.array([31 * np.linalg.solve(whole - S, v) for S, v in zip(matrices, sums, strict=True)])
    of_starts = (first * (rows @ x - value) / first.mean()).reshape(32, 100).mean(axis=1)
    spread = BatchMeans().spread((of_starts - without @ rows[first].mean(axis=0))[:, None])
    assert (high - low) / 2 == pytest.approx(float(np.sqrt(spread.variance[0]) * spread.quantile(0.95)), rel=1e-6)
    alone = found.result.interval(of=np.append(rows[first].mean(axis=0), 0.0))[0]
    assert high - low > 1.4 * (alone[1] - alone[0])  # what the starts leave open is more than half the variance here


@pytest.mark.parametrize("sticky", [0.0, 0.5])
def test_the_interval_at_the_start_contains_the_truth(sticky):
    _, mean = truth()
    inside = []
    for seed in range(120):
        _, low, high = mr.rl.estimate(episodes(1600, 1000 + seed, sticky=sticky), "one-hot", GAMMA).start_value
        inside.append(low <= mean <= high)
    assert 0.9 <= np.mean(inside) <= 0.995


def test_a_printed_estimate_says_it_with_its_doubts():
    text = str(mr.rl.estimate(episodes(4000, 3), "one-hot", GAMMA))
    assert "Value at the start: " in text
    assert ", 95 % from " in text
    assert "Note: " not in text.splitlines()[1]
    few = mr.rl.estimate(episodes(60, 4), "one-hot", GAMMA)
    assert "do not rely on this interval" in str(few).splitlines()[1]
    single = mr.rl.estimate(episodes(4000, 5, starts=(1.0, 0.0, 0.0)), "one-hot", GAMMA)
    assert single.start_value.low < WORTH[0] / (1 - GAMMA * 0.8) < single.start_value.high
    assert tuple(single.start_value[1:]) == pytest.approx(single.interval(0))


def test_where_there_are_no_standard_errors_it_says_so():
    with pytest.warns(mr.errors.DivergenceWarning):
        found = mr.rl.estimate(episodes(4000, 6), "one-hot", GAMMA, replay=mr.Serial(), step=1e9)
    assert found.result.status.code == "diverged"
    assert np.isnan(found.start_value.low)
    assert "no interval: the run diverged." in str(found)
    with pytest.raises(mr.InputError, match="the run diverged"):
        found.interval(0)


def test_what_is_doubtful_of_the_start_is_a_field_of_it():
    few = mr.rl.estimate(episodes(60, 4), "one-hot", GAMMA)
    value, low, high = few.start_value
    assert "do not rely on this interval" in few.start_value.doubt
    assert few.start_value.doubt in str(few)
    assert pickle.loads(pickle.dumps(few.start_value)).doubt == few.start_value.doubt
    assert repr(few.start_value).startswith(f"StartValue(value={value}, low={low}, high={high}, doubt=")
    many = mr.rl.estimate(episodes(4000, 3), "one-hot", GAMMA)
    assert many.start_value.doubt == ""
    assert "doubt" not in repr(many.start_value)
    narrow = start_value(many, 0.5)
    assert many.start_value.low < narrow.low < narrow.value < narrow.high < many.start_value.high
    assert f", 50 % from {narrow.low:.4g}" in many.told(0.5)


def test_states_go_by_their_names_and_have_a_table():
    found = mr.rl.estimate(episodes(4000, 3), "one-hot", GAMMA)
    assert found.result.run.names == ("state 0", "state 1", "state 2", "state 3")
    assert "'state 3' is never active" in str(found.result.status)
    assert "x[" not in str(found)
    with pytest.warns(mr.UncertaintyWarning, match="too little of state 3"):
        table = found.summary(0.9)
    assert [row["name"] for row in table.rows] == list(found.result.run.names)
    low, high = found.interval(1, 0.9)
    assert (table.rows[1]["low"], table.rows[1]["high"]) == pytest.approx((low, high))
    text = str(table)
    assert "Value at the start: " in text
    assert ", 90 % from " in text
    assert "at gamma 0.9, 4 one-hot features on 4,000 rows" in text
