"""Environments: what may be given as one, and the same one without its time limit."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from multireplay.errors import InputError
from multireplay.rl.extra import gymnasium


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
    made = _make(env)
    try:
        yield made
    finally:
        made.close()


def _make(name: str) -> Any:
    gym = gymnasium()
    try:
        return gym.make(name, disable_env_checker=True)
    except (gym.error.Error, ImportError, AttributeError) as error:
        raise InputError(f"the environment {name!r} cannot be made: {error}") from None


def is_vector(env: Any) -> bool:
    """Whether it is many environments in one."""
    return isinstance(env, gymnasium().vector.VectorEnv)


def name_of(env: Any) -> str:
    """Its id, or its class where it has none."""
    spec = getattr(env, "spec", None)
    if spec is None and is_vector(env) and getattr(env.unwrapped, "envs", None):
        spec = env.unwrapped.envs[0].spec
    return str(spec.id) if spec is not None else type(env.unwrapped).__name__


def without_time_limit(env: Any) -> Any:
    """The same environment without its `TimeLimit`; wrappers around that are copied, and nothing is changed."""
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
    made = makers[0]()
    try:
        yield made
    finally:
        made.close()
