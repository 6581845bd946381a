from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from worlds_rl import Counting, by_parity

import multireplay as mr
from multireplay.errors import InputError
from multireplay.rl.chance import Totals, errors_of
from multireplay.rl.check import compare, horizon_of, impossible, monte_carlo
from multireplay.rl.sampling import reference
from multireplay.rl.seen import Subject, discounted
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
    check = monte_carlo(limited, by_parity, Subject(true_value, GAMMA), rollouts=50, seed=0)
    assert check.rollouts == 50
    assert check.filled == 0
    np.testing.assert_allclose(check.estimates, check.returns)
    assert all(group.errors_apart == 0 for group in check.groups)
    assert "agrees with it wherever rollouts got to: it is within 3 standard errors" in str(check)
    wrong = monte_carlo(limited, by_parity, Subject(lambda states: true_value(states) + 1, GAMMA), rollouts=50, seed=0)
    assert wrong.start.difference == pytest.approx(1.0)
    assert wrong.start.errors_apart > 100
    assert "further away than chance explains for the states at the start, of low value" in str(wrong)


def test_wrong_shape_is_seen_though_the_mean_is_right():
    mean = true_value(Counting().reset(seed=1)[0][None])
    record = mr.rl.collect(Counting(limit=10**6), by_parity, 300, seed=0)
    flat = compare(record, Subject(lambda states: np.full(len(states), mean[0]) + 1e-3 * states[:, 0], GAMMA), 100)
    low, high = flat.groups[1], flat.groups[-1]
    assert max(low.errors_apart, high.errors_apart) > 5


def test_standard_error_counts_a_rollout_as_one():
    record = mr.rl.collect("CartPole-v1", "random", 5000, seed=0)
    check = compare(record, Subject(lambda states: np.full(len(states), 10.0) + states[:, 2], 0.95), 10**6)
    low = check.groups[1]
    returns, _ = discounted(record, np.where(record.terminated, 0.0, 10.0), 0.95)
    assert low.error > 1.5 * returns.std() / np.sqrt(low.count)  # as if all states of a rollout were independent
    starts = returns[record.starts] - check.estimates
    assert check.start.error == pytest.approx(starts.std(ddof=1) / np.sqrt(len(starts)), rel=1e-6)


def test_rollouts_that_the_environment_cuts_are_said_to_be_filled_in():
    nothing = Subject(lambda states: 0 * states[:, 0], GAMMA)
    check = monte_carlo(Counting(end=10**6, limit=5), by_parity, nothing, 20, seed=0)
    assert check.filled == 20
    assert "20 rollouts were cut before they ended, by the environment itself" in check.sentence
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
        compare(record, Subject(true_value, GAMMA), 10)


def test_horizon_without_a_discount_is_as_long_as_there_is_patience_for():
    assert [horizon_of(gamma) for gamma in (0, 0.5, 0.99, 0.99999, 1)] == [1, 10, 688, 20_000, 20_000]


def test_a_reward_that_no_rollout_saw_is_no_proof_that_there_is_none():
    """One episode in 70 pays 1, and none of 100 rollouts did: their own spread is 0, that of the record is not."""
    none = Totals(np.full(100, 1 / 70), np.ones(100, dtype=np.int64))
    record = Totals(1 / 70 - (np.arange(7000) % 70 == 0), np.ones(7000, dtype=np.int64))
    assert errors_of([none], 0.0) == (0.0, 0.0)
    error, limit = errors_of([none, record], 0.0)
    assert error == pytest.approx(np.sqrt(1 / 70 * 69 / 70 / 100), rel=0.02)
    assert 0.05 - 1 / 70 < limit < 0.07  # five such rollouts in a hundred come too often to be called far
    with_own = errors_of([none, record], error)
    assert with_own[0] == pytest.approx(np.sqrt(2) * error)
    assert limit < with_own[1] < 2 * limit


@pytest.mark.parametrize(
    ("values", "rewards", "gamma", "said"),
    [
        (
            [-16342.0, 6806.0, 0.0, 0.0],
            [-10.0, 20.0],
            0.99,
            "is wrong: on 50 % of the record's steps it is what rewards",
        ),
        ([-10.0, -1.0], [-1.0, -1.0], 0.9, ""),
        ([-10.4, 0.4], [-1.0, -1.0], 0.9, ""),
        ([-10.0, 1.0], [-1.0, -1.0], 0.9, "to -1 cannot add up to at gamma 0.9, which is -10 to 0; it goes from"),
        ([-3.0, 40.0], [1.0, 1.0], 1.0, "cannot add up to at gamma 1, which is 0 to inf"),
        ([0.0, 40.0], [1.0, 1.0], 1.0, ""),
        ([-7.0, 40.0], [-1.0, 1.0], 1.0, ""),
    ],
)
def test_values_that_rewards_cannot_add_up_to(values, rewards, gamma, said):
    found = impossible(np.array(values), np.array(rewards), gamma)
    assert said in found
    assert bool(said) == bool(found)


def test_no_false_alarm_and_no_alarm_missed_on_frozen_lake():
    """One-hot features can show the value exactly: what differs is noise, of rollouts and of the record."""
    alarms, start = 0, []
    for seed in range(20):
        found = mr.rl.evaluate("FrozenLake-v1", "random", gamma=0.99, steps=5000, seed=seed)
        alarms += any(group.far for group in found.check.groups)
        start.append(found.check.start)
        assert start[-1].error > start[-1].own_error > 0
    assert alarms <= 1
    assert np.mean([abs(group.difference) > 2 * group.error for group in start]) <= 0.15
    assert any(group.monte_carlo == 0 for group in start)  # no rollout saw a reward, and that was no alarm


@pytest.mark.parametrize("wrong", [lambda x: x + 0.5, lambda x: 10 * x, lambda x: x * (-1) ** np.arange(16) * 30])
def test_what_is_far_off_is_said_to_be(wrong):
    record = mr.rl.collect("FrozenLake-v1", "random", 20_000, seed=3)
    found = mr.rl.estimate(record, "one-hot", 0.99)
    exact = reference(found.features, record, 0.99)
    subject = Subject(lambda states: wrong(found.x)[states], 0.99, record, exact)
    check = monte_carlo(gymnasium.make("FrozenLake-v1"), "random", subject, 100, seed=5)
    assert any(group.far for group in check.groups)
    assert "the estimate is wrong" in check.sentence
    assert check.unsolved
    assert "the solver is not done" in check.sentence


class Corridor(gymnasium.Env):
    """From 0 to the right until 9; a reset may start it elsewhere the first time, and never again."""

    def __init__(self, first=0):
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(2)
        self.first = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.first = self.first, 0
        return self.state, {}

    def step(self, action):
        self.state += 1
        return self.state, float(action), self.state == 9, False, {}


def test_states_that_no_rollout_got_to_or_the_record_does_not_know():
    subject = Subject(lambda states: 0.5 * (9 - states), 1.0, mr.rl.collect(Corridor(), "random", 900, seed=0))
    whole = monte_carlo(Corridor(), "random", subject, 50, seed=1)
    assert not whole.notes
    assert not whole.unreached
    late = monte_carlo(LateStart(6), "random", subject, 50, seed=1)
    assert late.unreached == ("of middle value", "of high value")
    assert "no rollout got there" in str(late.table())
    assert (
        "No rollout got there, or was seen to its end, for the states of middle value, of high value" in late.sentence
    )
    assert "No rollout got to 6 of the record's 9 states" in late.sentence
    part = mr.rl.collect(LateStart(4), "random", 900, seed=0)
    found = mr.rl.estimate(part, "one-hot", 1.0)
    unknown = Subject(found.values, 1.0, part, reference(found.features, part, 1.0))
    check = monte_carlo(Corridor(), "random", unknown, 50, seed=1)
    assert "44 % of the steps were from states that the record has no step from" in check.sentence
    assert "at the start" in check.unreached
    assert not any(group.far for group in check.groups)
    assert np.isnan(check.start.estimate)


class LateStart(Corridor):
    def reset(self, *, seed=None, options=None):
        self.kept = getattr(self, "kept", self.first)
        self.first = self.kept
        return super().reset(seed=seed)


def test_late_states_are_not_chosen_by_how_it_ended():
    """A walk that ends by chance: to trust late rows only where it ended soon after would make returns too high."""

    class Waiting(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.np_random.random(1).astype(np.float32), {}

        def step(self, action):
            return self.np_random.random(1).astype(np.float32), -1.0, self.np_random.random() < 0.02, False, {}

    true = Subject(lambda states: np.full(len(states), -1 / (1 - 0.9 * 0.98)) + 1e-6 * states[:, 0], 0.9)
    check = monte_carlo(Waiting(), "random", true, 400, seed=0)
    assert len(check.groups) == 4
    assert all(group.errors_apart < 3 for group in check.groups)
