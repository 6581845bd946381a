from __future__ import annotations

import pickle

import gymnasium
import numpy as np
import pytest
from small_disk import small_disk
from worlds_rl import Counting, Structured, by_parity

import multireplay as mr
from multireplay.errors import InputError


@pytest.fixture(scope="module")
def record():
    return mr.rl.collect(Counting(), by_parity, 105, seed=1)


def test_returns_and_lengths_by_hand(record):
    returns, lengths, total, steps = [], [], 0.0, 0
    for reward, ended in zip(record.rewards, record.terminated | record.truncated, strict=True):
        total, steps = total + reward, steps + 1
        if ended:
            returns.append(total)
            lengths.append(steps)
            total, steps = 0.0, 0
    assert steps > 0  # the last episode is unfinished, and not counted
    np.testing.assert_array_equal(record.returns, returns)
    np.testing.assert_array_equal(record.lengths, lengths)
    assert record.episodes == len(returns)


def test_buffer_has_the_features_of_both_observations(record):
    features = mr.rl.Function(lambda state: [1.0, state[0], state[1] ** 2])
    buffer = record.buffer(features)
    for name, states in (("features", record.observations), ("next_features", record.next_observations)):
        np.testing.assert_array_equal(buffer[name], [[1.0, state[0], state[1] ** 2] for state in states.astype(float)])
    np.testing.assert_array_equal(buffer["rewards"], record.rewards)
    np.testing.assert_array_equal(buffer["terminated"], record.terminated)


def test_only_termination_stops_bootstrapping(record):
    """LSTD by its formula: the value goes on from a truncated row's last observation, and not from a terminal one."""
    gamma = 0.9
    features = mr.rl.Polynomial(2).bind(record.observation_space, record.observations)
    now, then = features(record.observations), features(record.next_observations)
    matrix = now.T @ (now - gamma * (1 - record.terminated[:, None]) * then)
    expected = np.linalg.lstsq(matrix, now.T @ record.rewards, rcond=None)[0]
    found = mr.PolicyEvaluation(gamma).fit_exactly(record.buffer(features))
    np.testing.assert_allclose(now @ found, now @ expected, rtol=1e-8)


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1", "CartPole-v1", Structured(), "binary"])
def test_saved_and_loaded(env, tmp_path):
    if env == "binary":
        env = gymnasium.wrappers.TransformObservation(
            gymnasium.make("CartPole-v1"), lambda state: (state > 0).astype(np.int8), gymnasium.spaces.MultiBinary(4)
        )
    record = mr.rl.collect(env, "random", 60, seed=0)
    again = mr.rl.Trajectory.load(record.save(tmp_path / "record"))
    assert again.observation_space == record.observation_space
    assert repr(again) == repr(record)
    for name in ("observations", "actions", "rewards", "terminated", "truncated", "next_observations", "starts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(record, name))
        assert getattr(again, name).dtype == getattr(record, name).dtype


def test_what_is_no_saved_trajectory(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(InputError, match="is no saved trajectory: it has no observations"):
        mr.rl.Trajectory.load(tmp_path / "other.npz")
    with pytest.raises(InputError, match="cannot be read as a trajectory"):
        mr.rl.Trajectory.load(tmp_path / "nothing.npz")


def test_a_torn_file_and_a_pickle_are_refused(tmp_path):
    path = mr.rl.collect("CartPole-v1", "random", steps=50, seed=0).save(tmp_path / "record")
    whole = path.read_bytes()
    for content in (b"", whole[:-30], whole[:300], whole[:200] + b"x" * 40 + whole[240:], pickle.dumps({"x": 1})):
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as a trajectory"):
            mr.rl.Trajectory.load(path)


def test_a_full_disk_leaves_the_older_file(tmp_path, record):
    path = record.save(tmp_path / "record")
    before = path.read_bytes()
    longer = mr.rl.collect("CartPole-v1", "random", 3000, seed=0)
    with small_disk(4000), pytest.raises(OSError, match=r"record\.npz"):
        longer.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["record.npz"]
