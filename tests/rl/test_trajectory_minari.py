from __future__ import annotations

from itertools import pairwise

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from worlds_rl import Structured, with_momentum

import multireplay as mr
from multireplay.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def episodes_of(record):
    """The episodes of a record as Minari takes them; the last one is unfinished."""
    bounds = [*np.flatnonzero(record.starts), len(record)]
    for first, end in pairwise(bounds):
        yield EpisodeBuffer(
            observations=np.concatenate([record.observations[first:end], record.next_observations[end - 1 : end]]),
            actions=record.actions[first:end],
            rewards=record.rewards[first:end].tolist(),
            terminations=record.terminated[first:end].tolist(),
            truncations=record.truncated[first:end].tolist(),
        )


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
@pytest.mark.parametrize(("env", "policy"), [("MountainCar-v0", with_momentum), ("FrozenLake-v1", "random")])
def test_record_comes_back(env, policy, data_format):
    record = mr.rl.collect(env, policy, 700, seed=0)
    buffers = list(episodes_of(record))
    dataset = minari.create_dataset_from_buffers("test/run-v0", buffers, env=env, data_format=data_format)
    for given in (dataset, "test/run-v0"):
        found = mr.rl.from_minari(given)
        assert found.name == "test/run-v0"
        assert found.observation_space == record.observation_space
        for name in ("observations", "actions", "rewards", "terminated", "truncated", "next_observations", "starts"):
            np.testing.assert_array_equal(getattr(found, name), getattr(record, name), err_msg=name)
    np.testing.assert_allclose(
        mr.rl.estimate(found, "auto", 0.9).x, mr.rl.estimate(record, "auto", 0.9).x, rtol=1e-6, atol=1e-9
    )


def test_dictionaries_are_flattened():
    env = Structured()
    space = env.observation_space
    seen = [space.sample() for _ in range(4)]
    episode = EpisodeBuffer(
        observations={
            "place": np.array([one["place"] for one in seen]),
            "colour": np.array([one["colour"] for one in seen]),
            "both": (np.array([one["both"][0] for one in seen]), np.array([one["both"][1] for one in seen])),
        },
        actions=np.zeros((3, 1), dtype=np.float32),
        rewards=[1.0, 2.0, 3.0],
        terminations=[False] * 3,
        truncations=[False, False, True],
    )
    dataset = minari.create_dataset_from_buffers(
        "structured-v0", [episode], observation_space=space, action_space=env.action_space
    )
    record = mr.rl.from_minari(dataset)
    flat = [gymnasium.spaces.flatten(space, one) for one in seen]
    np.testing.assert_allclose(record.observations, flat[:-1])
    np.testing.assert_allclose(record.next_observations, flat[1:])
    assert "1 episode (0 terminated, 1 truncated)" in repr(record)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("no/such-v0", "no Minari data set 'no/such-v0' here; get it with: minari download no/such-v0"),
        ("", "cannot be read|no Minari data set"),
        (3, "must be a minari.MinariDataset or its id, not 3"),
    ],
)
def test_what_is_no_dataset(dataset, message):
    with pytest.raises(InputError, match=message):
        mr.rl.from_minari(dataset)
