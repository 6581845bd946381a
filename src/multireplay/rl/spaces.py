"""Environments and their spaces: what may be given as one, and its observations and actions as plain arrays."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.errors import InputError

Array = NDArray[Any]
Bounds = tuple[Any, Any] | None

NUMBERS = 2**24
"""Numbers of a record that are looked at to find its range: images are not copied as floats, all of them."""
TAIL = 0.001
"""Share of the observations beyond either bound: a few far ones must not squeeze the rest together."""


def gymnasium() -> Any:
    """Gymnasium, imported only where it is needed, or an error that says how to get it."""
    return required("gymnasium", "Gymnasium")


def required(module: str, name: str) -> Any:
    """A package of the extra `rl`, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != module:
            raise  # it is there, and something that it needs is not
        raise InputError(f"mr.rl needs {name}: pip install 'multireplay[rl]'") from None


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


def sizes_of(space: Any) -> tuple[Array, Array] | None:
    """How many values every coordinate of a discrete space has and where they start, or None for a `Box`."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        return np.array([space.n]), np.array([space.start])
    if isinstance(space, spaces.MultiDiscrete):
        return np.ravel(space.nvec), np.ravel(space.start)
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return np.full(count, 2), np.zeros(count, dtype=np.int64)
    return None


def limits_of(space: Any) -> tuple[Vector, Vector]:
    """The lowest and highest value of every coordinate, infinite where there is none."""
    sizes = sizes_of(space)
    if sizes is not None:
        return sizes[1].astype(np.float64), (sizes[1] + sizes[0] - 1).astype(np.float64)
    low, high = np.ravel(space.low).astype(np.float64), np.ravel(space.high).astype(np.float64)
    huge = 1e30  # some environments write the largest float for "no limit"
    return np.where(low < -huge, -np.inf, low), np.where(high > huge, np.inf, high)


def width_of(space: Any) -> int:
    """Numbers in one observation."""
    return int(np.prod(space.shape))


def as_vectors(observations: Array) -> Vector:
    """Observations as rows of numbers."""
    return observations.reshape(len(observations), int(np.prod(observations.shape[1:]))).astype(np.float64)


def some_of(observations: Array, most: int = 2**20) -> Array:
    """Observations spread over the record: no more than so many, nor than make some megabytes of numbers."""
    count = min(most, max(1, NUMBERS // max(1, int(np.prod(observations.shape[1:])))))
    return observations[:: max(1, -(-len(observations) // count))]


@dataclass(frozen=True, eq=False)
class Scaling:
    """s ↦ (s − low)/(high − low) by coordinate."""

    low: Vector
    high: Vector

    def unit(self, observations: Array) -> Vector:
        """Observations in units of the range; those beyond it are outside [0, 1]."""
        return np.asarray((as_vectors(observations) - self.low) / (self.high - self.low))

    def clipped(self, observations: Array) -> Vector:
        """Observations in units of the range, with what is outside moved to the border."""
        return np.clip(self.unit(observations), 0.0, 1.0)


def scaling_of(space: Any, observations: Array, bounds: Bounds) -> Scaling:
    """The scaling by the given bounds, by those of a discrete space, or by the range that was visited.

    Bounds of a `Box` are often far wider than what a policy visits (CartPole ends at half of them), and features that
    are never active help nobody; so the range is that of the observations, without the outer 0.1 % on each side. It is
    the one of the space where there are no observations.
    """
    low, high = limits_of(space)
    if bounds is not None:
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise InputError(f"bounds must be (low, high), not {bounds!r}")
        width, given = width_of(space), [np.asarray(bound, dtype=np.float64).ravel() for bound in bounds]
        for name, bound in zip(("low", "high"), given, strict=True):
            if bound.size not in (1, width):
                raise InputError(f"bounds: {name} has {bound.size} numbers, but an observation has {width}")
        low, high = (np.array(np.broadcast_to(bound, (width,))) for bound in given)
    elif sizes_of(space) is None and len(observations):
        low, high = np.quantile(as_vectors(some_of(observations)), [TAIL, 1 - TAIL], axis=0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise InputError(f"{space} has no bounds; give observations to take them from, or bounds=(low, high)")
    if (low > high).any():
        raise InputError(f"bounds must be (low, high) with low below high, not ({low}, {high})")
    flat = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))  # a coordinate that never moves
    return Scaling(low, np.where(flat, low + 1.0, high))


def per_dimension(name: str, value: Any, width: int) -> tuple[int, ...]:
    """A whole number for every coordinate, from one for all or one for each."""
    numbers = tuple(value) if isinstance(value, tuple | list | np.ndarray) else (value,) * width
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise InputError(f"{name} must be whole numbers of at least 1, not {value!r}")
    if len(numbers) != width:
        raise InputError(f"{name}={value!r} is for {len(numbers)} numbers, but an observation has {width}")
    return tuple(int(number) for number in numbers)


def row_of(batch: Any, row: int) -> Any:
    """One value of a batch as a vector environment makes them."""
    if isinstance(batch, dict):
        return {key: row_of(part, row) for key, part in batch.items() if not str(key).startswith("_")}
    if isinstance(batch, tuple):
        return tuple(row_of(part, row) for part in batch)
    return batch[row]


def short(value: Any) -> str:
    """An observation in an error message."""
    return np.array2string(np.asarray(value), precision=4, threshold=8, separator=", ").replace("\n", "")
