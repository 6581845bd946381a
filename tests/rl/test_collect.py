from __future__ import annotations

import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from worlds_rl import Counting, Spoilt, Structured, by_parity, with_momentum

import multireplay as mr
from multireplay.errors import InputError

FIELDS = ("observations", "actions", "rewards", "terminated", "truncated", "next_observations", "starts")


def literal(env, policy, steps, seed):
    """The same record by a plain loop that copies everything."""
    rows = []
    state, _ = env.reset(seed=seed)
    state, start = np.array(state), True
    for _ in range(steps):
        action = policy(state)
        following, reward, terminated, truncated, _ = env.step(action)
        following = np.array(following)
        rows.append((state, action, reward, terminated, truncated, following, start))
        state, start = following, terminated or truncated
        if start:
            state = np.array(env.reset()[0])
    return [np.array(column) for column in zip(*rows, strict=True)]


def test_record_is_that_of_a_plain_loop():
    record = mr.rl.collect(Counting(), by_parity, 200, seed=3)
    for name, expected in zip(FIELDS, literal(Counting(), by_parity, 200, 3), strict=True):
        np.testing.assert_array_equal(getattr(record, name), expected, err_msg=name)
    assert record.terminated.any()
    assert record.truncated.any()
    assert (record.terminated & record.truncated).any()  # an end at the time limit is an end


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("copy", [True, False])
def test_vector_environment_is_its_parts_one_after_the_other(mode, copy):
    # in the mode SameStep, Gymnasium itself gives a final observation that the reset has overwritten if it is reused
    make = partial(Counting, copies=mode == AutoresetMode.SAME_STEP)
    parts = SyncVectorEnv([make] * 3, autoreset_mode=mode, copy=copy)
    record = mr.rl.collect(parts, by_parity, 100, seed=5)
    assert len(record) == 100
    assert 0 <= record.starts.sum() - record.episodes <= 3  # nothing but episodes, and an unfinished one of each part
    first = 0
    for part in range(3):
        expected = literal(Counting(), by_parity, 60, 5 + part)
        here = slice(first, None)
        length = next(
            n
            for n in range(60, 0, -1)
            if first + n <= 100
            and all(
                np.array_equal(getattr(record, name)[here][:n], column[:n])
                for name, column in zip(FIELDS, expected, strict=True)
            )
        )
        first += length
    assert first == 100


def test_reset_rows_of_the_fast_cartpole_are_left_out():
    parts = gymnasium.make_vec("CartPole-v1", 8, vectorization_mode="vector_entry_point")
    record = mr.rl.collect(parts, "random", 3000, seed=0)
    assert (record.rewards == 1).all()  # a row that only resets has reward 0
    same = record.next_observations[:-1] == record.observations[1:]
    np.testing.assert_array_equal(same.all(axis=1), ~record.starts[1:])
    assert (np.abs(record.observations[record.starts]) <= 0.05).all()


def test_time_limit_truncates_and_does_not_terminate():
    record = mr.rl.collect("MountainCar-v0", lambda state: 1, 450, seed=0)
    np.testing.assert_array_equal(np.flatnonzero(record.truncated), [199, 399])
    assert not record.terminated.any()
    assert "2 episodes (0 terminated, 2 truncated) and an unfinished one, mean return -200" in repr(record)


def test_seed_makes_it_the_same_and_another_one_not():
    records = [mr.rl.collect("MountainCar-v0", with_momentum, 300, seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(records[0].observations, records[1].observations)
    assert not np.array_equal(records[0].observations, records[2].observations)


def test_tuple_of_discrete_is_a_row_of_integers():
    record = mr.rl.collect("Blackjack-v1", dict.fromkeys(np.ndindex(32, 11, 2), 0), 50, seed=0)
    assert record.observations.shape == (50, 3)
    assert record.terminated.all()
    assert record.observation_space.nvec.tolist() == [32, 11, 2]


@pytest.mark.parametrize("vector", [False, True])
def test_dictionary_is_flattened_as_gymnasium_does_it(vector):
    seen = []

    def keep(observation):
        seen.append(observation)
        return np.array([0.5])

    env = SyncVectorEnv([Structured], autoreset_mode=AutoresetMode.SAME_STEP) if vector else Structured()
    record = mr.rl.collect(env, keep, 20, seed=0)
    space = Structured().observation_space
    expected = [gymnasium.spaces.flatten(space, one) for one in seen]
    np.testing.assert_allclose(record.observations, expected)
    inside = ~record.ends[:-1]
    np.testing.assert_allclose(record.next_observations[:-1][inside], record.observations[1:][inside])
    assert record.actions.shape == (20, 1)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda state: 3, r"returned 3 for the observation \[.*\]; the actions are the whole numbers 0 to 2"),
        (lambda state: 1.5, "returned 1.5 for the observation"),
        (lambda state: (1, None), "take the first: lambda observation: model.predict"),
        (lambda state: state[7], "the policy raised IndexError: index 7"),
        (mr.rl.Batched(lambda states: states[0]), "returned .* for the observation"),
    ],
)
def test_bad_action_names_it_and_keeps_what_was_collected(policy, message):
    calls = []

    def turns_bad(state):
        calls.append(state)
        return by_parity(state) if len(calls) <= 10 else policy(state)

    acting = turns_bad
    if isinstance(policy, mr.rl.Batched):
        acting = mr.rl.Batched(lambda states: [turns_bad(states[0])] if len(calls) < 10 else policy(states))
    with pytest.raises(mr.rl.CollectionError, match=message) as caught:
        mr.rl.collect(Counting(), acting, 100, seed=0)
    assert len(caught.value.trajectory) == 10
    assert "after 10 of 100 steps" in str(caught.value)


def test_action_outside_a_box():
    with pytest.raises(InputError, match=r"returned \[3.0\] .* clip it to these bounds") as caught:
        mr.rl.collect(Structured(), lambda observation: [3.0], 10)
    assert caught.value.trajectory is None


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ({"reward": np.nan}, "gave the reward nan, which is not finite"),
        ({"observation": np.inf}, "gave the observation .*inf.* not finite"),
        ({"error": ZeroDivisionError("oh")}, "the environment raised ZeroDivisionError: oh"),
    ],
)
@pytest.mark.parametrize("after", [1500, 40])
def test_what_the_environment_spoils_is_dropped_and_the_rest_kept(spoilt, message, after):
    with pytest.raises(mr.rl.CollectionError, match=message) as caught:
        mr.rl.collect(Spoilt(after, **spoilt), by_parity, 3000, seed=0)
    assert len(caught.value.trajectory) == after
    assert np.isfinite(caught.value.trajectory.next_observations).all()


def test_interrupt_propagates_and_keeps_what_was_collected():
    with pytest.raises(KeyboardInterrupt, match="after 12 of 100 steps") as caught:
        mr.rl.collect(Spoilt(12, error=KeyboardInterrupt()), by_parity, 100, seed=0)
    assert len(caught.value.trajectory) == 12


@pytest.mark.parametrize(
    ("env", "policy", "steps", "message"),
    [
        ("NoSuchCar-v0", "random", 10, "environment 'NoSuchCar-v0' cannot be made: .*doesn't exist"),
        ("nowhere:Car-v0", "random", 10, "cannot be made"),
        (7, "random", 10, "env must be the id"),
        ("CartPole-v1", "random", 0, "steps must be a whole number of at least 1, not 0"),
        ("CartPole-v1", 5, 10, "a policy is 'random', a function"),
        ("CartPole-v1", "best", 10, "no policy 'best'; give 'random', or a function of yours"),
        ("CartPole-v1", [0, 1], 10, "a table is a policy for Discrete observations"),
        ("FrozenLake-v1", [0, 1], 10, r"table has shape \(2,\); it needs \(16,\)"),
        ("FrozenLake-v1", np.ones((16, 4)), 10, "in row 0, which are no probabilities"),
        ("FrozenLake-v1", {}, 10, "no action for the observation 0"),
        ("CartPole-v1", {}, 10, "a dictionary is a policy for discrete observations"),
        ("CartPole-v1", "random", 10**14, "no room for steps=100000000000000"),
    ],
)
def test_bad_input(env, policy, steps, message):
    with pytest.raises(InputError, match=message):
        mr.rl.collect(env, policy, steps)


def test_progress_bar_is_on_standard_error(capsys):
    mr.rl.collect("CartPole-v1", "random", 50, progress=True)
    captured = capsys.readouterr()
    assert "collecting" in captured.err
    assert captured.out == ""


def test_package_does_not_import_gymnasium():
    code = "import sys, multireplay as mr; assert 'multireplay.rl' not in sys.modules; mr.rl; "
    code += "assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "rl" in dir(mr)
    with pytest.raises(AttributeError, match="no attribute 'r1'"):
        _ = mr.r1
