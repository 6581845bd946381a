from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from worlds_rl import Counting, by_parity

import multireplay as mr
from multireplay.errors import InputError
from multireplay.rl.check import compare, discounted, monte_carlo
from multireplay.rl.spaces import without_time_limit

GAMMA = 0.9


def true_value(states):
    """The value of `Counting(end=7)` without a time limit under `by_parity`, by walking."""
    values = []
    for state in states:
        count, value, weight = int(state[0]), 0.0, 1.0
        while count < 7:
            count += (count % 3) % 2 + 1
            value, weight = value + weight * count, weight * GAMMA
        values.append(value)
    return np.array(values)


def test_discounted_returns_by_a_plain_sum():
    record = mr.rl.collect(Counting(), by_parity, 80, seed=0)
    after = np.where(record.terminated, 0.0, 5.0)
    returns, weights = discounted(record, after, GAMMA)
    for row in range(80):
        end = row + int(np.argmax(record.ends[row:]))
        rewards = record.rewards[row : end + 1]
        left = GAMMA ** len(rewards)
        expected = sum(GAMMA**i * reward for i, reward in enumerate(rewards)) + left * after[end]
        assert returns[row] == pytest.approx(expected)
        assert weights[row] == pytest.approx(0.0 if record.terminated[end] else left)


def test_the_true_value_agrees_and_a_wrong_one_does_not():
    limited = gymnasium.wrappers.TimeLimit(Counting(limit=10**6), 2)  # without this limit, the values would be others
    check = monte_carlo(limited, by_parity, true_value, GAMMA, rollouts=50, seed=0)
    assert check.rollouts == 50
    assert check.filled == 0
    np.testing.assert_allclose(check.estimates, check.returns)
    assert all(group.errors_apart == 0 for group in check.groups)
    assert "within 3 standard errors, or 1%, of it everywhere" in str(check)
    wrong = monte_carlo(limited, by_parity, lambda states: true_value(states) + 1, GAMMA, rollouts=50, seed=0)
    assert wrong.start.difference == pytest.approx(1.0)
    assert wrong.start.errors_apart > 100
    assert "more than 3 standard errors away for the states at the start, of low value" in str(wrong)


def test_wrong_shape_is_seen_though_the_mean_is_right():
    mean = true_value(Counting().reset(seed=1)[0][None])
    record = mr.rl.collect(Counting(limit=10**6), by_parity, 300, seed=0)
    flat = compare(record, lambda states: np.full(len(states), mean[0]) + 1e-3 * states[:, 0], GAMMA, horizon=100)
    low, high = flat.groups[1], flat.groups[-1]
    assert max(low.errors_apart, high.errors_apart) > 5


def test_standard_error_counts_a_rollout_as_one():
    record = mr.rl.collect("CartPole-v1", "random", 5000, seed=0)
    check = compare(record, lambda states: np.full(len(states), 10.0) + states[:, 2], 0.95, horizon=10**6)
    low = check.groups[1]
    returns, _ = discounted(record, np.where(record.terminated, 0.0, 10.0), 0.95)
    assert low.error > 1.5 * returns.std() / np.sqrt(low.count)  # as if all states of a rollout were independent
    starts = returns[record.starts] - check.estimates
    assert check.start.error == pytest.approx(starts.std(ddof=1) / np.sqrt(len(starts)), rel=1e-6)


def test_rollouts_that_the_environment_cuts_are_said_to_be_filled_in():
    check = monte_carlo(Counting(end=10**6, limit=5), by_parity, lambda states: 0 * states[:, 0], GAMMA, 20, seed=0)
    assert check.filled == 20
    assert "20 rollouts were cut short by the environment itself" in check.sentence
    assert [group.states for group in check.groups] == ["at the start"]  # nothing else was observed to its end


def test_time_limit_is_taken_off_below_other_wrappers_and_nothing_is_changed():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("MountainCar-v0"))
    free = without_time_limit(env)
    free.reset(seed=0)
    assert not any(free.step(1)[3] for _ in range(300))
    env.reset(seed=0)
    assert [env.step(1)[3] for _ in range(200)] == [False] * 199 + [True]


def test_one_rollout_is_too_few():
    record = mr.rl.collect(Counting(), by_parity, 2, seed=0)
    with pytest.raises(InputError, match="at least two rollouts"):
        compare(record, true_value, GAMMA, 10)
