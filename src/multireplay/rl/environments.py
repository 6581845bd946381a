"""Environments: what may be given as one, its actions, and one without its time limit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.spaces import gymnasium, row_of


@contextmanager
def opened(env: Any) -> Iterator[Any]:
    """The environment that was given, or the one of that name, which is closed at the end."""
    gym = gymnasium()
    if isinstance(env, gym.Env | gym.vector.VectorEnv):
        yield env
        return
    if not isinstance(env, str):
        raise InputError(
            "env must be the id of a Gymnasium environment such as 'MountainCar-v0', a gymnasium.Env or a "
            f"gymnasium.vector.VectorEnv, not {env!r}"
        )
    try:
        made = gym.make(env, disable_env_checker=True)
    except (gym.error.Error, ImportError, AttributeError) as error:
        raise InputError(f"the environment {env!r} cannot be made: {error}") from None
    with closing(made):
        yield made


def is_vector(env: Any) -> bool:
    """Whether it is many environments in one."""
    return isinstance(env, gymnasium().vector.VectorEnv)


def spaces_of(env: Any) -> tuple[Any, Any]:
    """The spaces of one observation and of one action."""
    if is_vector(env):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def name_of(env: Any) -> str:
    """Its id, or its class where it has none."""
    spec = getattr(env, "spec", None)
    if spec is None and is_vector(env) and getattr(env.unwrapped, "envs", None):
        spec = env.unwrapped.envs[0].spec
    return str(spec.id) if spec is not None else type(env.unwrapped).__name__


def without_time_limit(env: Any) -> Any:
    """An environment without its `TimeLimit`; wrappers around that are copied, and nothing is changed."""
    gym = gymnasium()
    if isinstance(env, gym.wrappers.TimeLimit):
        return without_time_limit(env.env)
    if isinstance(env, gym.Wrapper):
        inner = without_time_limit(env.env)
        if inner is not env.env:
            env = copy.copy(env)
            env.env = inner
    return env


@contextmanager
def single(env: Any) -> Iterator[Any | None]:
    """The environment, or one of the kind that a vector environment has many of; None if it does not say how to.

    A wrapper around a vector environment may change what its parts show, so that one of them would not be the same.
    """
    makers = getattr(env, "env_fns", None) if is_vector(env) and env.unwrapped is env else None
    if makers is None:
        yield None if is_vector(env) else env
        return
    with closing(makers[0]()) as made:
        yield made


class Legal:
    """Turns what a policy returns into an action of the space, or says what is wrong with it."""

    def __init__(self, space: Any) -> None:
        spaces = gymnasium().spaces
        self.space = space
        self.discrete = isinstance(space, spaces.Discrete)
        self.box = isinstance(space, spaces.Box)
        if self.discrete:
            self.first, self.last = int(space.start), int(space.start + space.n - 1)

    def one(self, action: Any, observation: Any) -> Any:
        """The action for one observation."""
        if self.discrete and isinstance(action, int | np.integer) and self.first <= action <= self.last:
            return int(action)  # nearly always, so it is quick
        legal: Any = None
        if self.discrete:
            array = np.asarray(action)
            legal = int(array.item()) if array.size == 1 and array.dtype.kind in "iub" else None
        elif self.box:
            with suppress(TypeError, ValueError):
                legal = np.asarray(action, dtype=self.space.dtype)
        else:
            legal = action
        if legal is None or not self.space.contains(legal):
            raise InputError(
                f"the policy returned {action!r} for the observation {short(observation)}; {self._wanted(action)}"
            )
        return legal

    def many(self, actions: Any, observations: Any, count: int) -> Any:
        """The batched actions for a batch of observations."""
        numbers = isinstance(actions, np.ndarray) and actions.shape == (count,) and actions.dtype.kind in "iu"
        if self.discrete and numbers:
            bad = np.flatnonzero((actions < self.first) | (actions > self.last))
            if bad.size:
                self.one(actions[bad[0]], row_of(observations, int(bad[0])))
            return actions
        if len(actions) != count:
            raise InputError(f"the policy returned {len(actions)} actions for {count} observations")
        legal = [self.one(action, row_of(observations, i)) for i, action in enumerate(actions)]
        utils = gymnasium().vector.utils
        return utils.concatenate(self.space, legal, utils.create_empty_array(self.space, count))

    def _wanted(self, action: Any) -> str:
        hint = ""
        if isinstance(action, tuple) and len(action) == 2 and action[1] is None:
            hint = ". If it returns (action, state), take the first: lambda observation: model.predict(observation)[0]"
        elif self.box and np.shape(action) == self.space.shape:
            hint = ": clip it to these bounds"
        if self.discrete:
            return f"the actions are the whole numbers {self.first} to {self.last}{hint}"
        return f"the actions are {self.space}{hint}"


def short(value: Any) -> str:
    """An observation in an error message."""
    return np.array2string(np.asarray(value), precision=4, threshold=8, separator=", ").replace("\n", "")
