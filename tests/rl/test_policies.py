from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from worlds_rl import Structured

import multireplay as mr
from multireplay.errors import InputError
from multireplay.rl.policies import as_actor

STATES, ACTIONS = spaces.Discrete(5, start=2), spaces.Discrete(3, start=-1)


def act(policy, observation, count=1, seed=0):
    actor = as_actor(policy, STATES, ACTIONS, np.random.default_rng(seed))
    return [actor.act(observation) for _ in range(count)]


def test_table_of_actions_counts_from_the_first_observation():
    assert act(np.array([1, 0, -1, 0, 1]), 4) == [-1]
    assert act([1, 0, -1, 0, 1], 2) == [1]


@pytest.mark.parametrize("many", [False, True])
def test_table_of_probabilities_is_followed(many):
    table = np.array([[0.2, 0.5, 0.3]] * 4 + [[0.5, 0.5, 0.0]])
    actor = as_actor(table, STATES, ACTIONS, np.random.default_rng(0))
    states = np.repeat([3, 6], 20_000)
    drawn = np.asarray(actor.act_many(states, iter(states), 40_000) if many else [actor.act(state) for state in states])
    for half, row in zip((drawn[:20_000], drawn[20_000:]), (table[1], table[4]), strict=True):
        shares = np.bincount(half + 1, minlength=3) / 20_000
        np.testing.assert_allclose(shares, row, atol=4 * np.sqrt(0.25 / 20_000))
    assert (drawn[20_000:] < 1).all()  # an action of probability 0 is never taken


@pytest.mark.parametrize("space", [ACTIONS, spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])])
def test_random_actions_are_all_of_the_space_and_follow_the_seed(space):
    def draw(seed):
        actor = as_actor("random", STATES, space, np.random.default_rng(seed))
        return [actor.act(None) for _ in range(50)] + list(actor.act_many(None, iter(()), 50))

    assert all(space.contains(action) for action in map(space.dtype.type if space is ACTIONS else np.asarray, draw(0)))
    np.testing.assert_array_equal(draw(0), draw(0))
    assert not np.array_equal(draw(0), draw(1))


def test_environments_own_space_is_not_touched():
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(3)
    expected = [env.action_space.sample() for _ in range(20)]
    env.action_space.seed(3)
    mr.rl.collect(env, "random", 50)
    assert [env.action_space.sample() for _ in range(20)] == expected


def test_function_of_two_arguments_gets_a_generator():
    drawn = act(lambda state, rng: int(rng.integers(-1, 2)), 3, count=200)
    assert set(drawn) == {-1, 0, 1}
    assert drawn == act(lambda state, rng: int(rng.integers(-1, 2)), 3, count=200)
    assert act(lambda state, deterministic=True: 1 if deterministic else 0, 3) == [1]


def test_batched_function_sees_all_parts_at_once_and_one_alone():
    shapes = []

    def falling(states):
        shapes.append(states.shape)
        return (states[:, 2] > 0).astype(int)

    parts = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync")
    several = mr.rl.collect(parts, mr.rl.Batched(falling), 60, seed=0)
    one = mr.rl.collect("CartPole-v1", mr.rl.Batched(falling), 60, seed=0)
    assert set(shapes) == {(3, 4), (1, 4)}
    for record in (several, one):
        np.testing.assert_array_equal(record.actions, record.observations[:, 2] > 0)


def test_box_actions_of_vector_environments():
    parts = gymnasium.vector.SyncVectorEnv([Structured] * 2)
    record = mr.rl.collect(parts, lambda observation: [observation["place"][0]], 20)
    np.testing.assert_allclose(record.rewards, record.actions[:, 0])


def test_policy_by_the_name_of_a_module_or_a_file(tmp_path, monkeypatch):
    (tmp_path / "my_policies.py").write_text("def left(state):\n    return 0\n\ntable = [0] * 16\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    for name in ("my_policies:left", "my_policies.py:left", str(tmp_path / "my_policies.py") + ":left"):
        assert mr.rl.policy_from_name(name)(None) == 0
    assert sys.path == before
    assert (mr.rl.collect("FrozenLake-v1", "my_policies:table", 20).actions == 0).all()
    monkeypatch.delitem(sys.modules, "my_policies")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fast", "no policy 'fast'; give 'random'"),
        (":left", "no policy ':left'"),
        ("no_such_module:left", "policy no_such_module:left cannot be imported: ModuleNotFoundError"),
        ("no_such.py:left", "cannot be imported: FileNotFoundError: no file no_such.py"),
        ("json:left", "there is no left in json"),
    ],
)
def test_name_of_no_policy(name, message):
    with pytest.raises(InputError, match=message):
        mr.rl.policy_from_name(name)
