"""Policies: what may be given as one, and the actors that act by them."""

from __future__ import annotations

import copy
import importlib
import inspect
import runpy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.environments import short
from multireplay.rl.spaces import Array, gymnasium, sizes_of


class Batched:
    """A function of many observations at once: an array with one a row in, an array with one answer a row out.

    A policy or a feature function that is wrapped in it is called once for a block of observations, not once for each.

    Parameters
    ----------
    function : callable
        ``function(observations) -> array``.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> falling = mr.rl.Batched(lambda states: (states[:, 2] + 0.5 * states[:, 3] > 0).astype(int))
    >>> falling(np.array([[0, 0, 0.1, 0], [0, 0, -0.1, 0]]))
    array([1, 0])
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise InputError(f"Batched needs a function, not {function!r}")
        self.function = function

    def __call__(self, observations: Any) -> Any:
        return self.function(observations)

    def __repr__(self) -> str:
        return f"Batched({self.function!r})"


class Actor(ABC):
    """Acts by a policy, with random numbers of its own."""

    @abstractmethod
    def act(self, observation: Any) -> Any:
        """The action for one observation."""

    def act_many(self, observations: Any, each: Iterable[Any], count: int) -> Any:
        """The actions for a batch of `count` observations, which `each` gives one by one."""
        return [self.act(observation) for observation in each]


class Randomly(Actor):
    """Every action is as likely as any other."""

    def __init__(self, space: Any, rng: np.random.Generator) -> None:
        self.space = copy.deepcopy(space)  # the environment's own space keeps its random state
        self.space.seed(int(rng.integers(2**31)))

    def act(self, observation: Any) -> Any:
        return self.space.sample()


class RandomlyFromFew(Actor):
    """Every one of the whole numbers is as likely as any other; drawn in blocks, since one at a time is slow."""

    def __init__(self, space: Any, rng: np.random.Generator) -> None:
        self.rng, self.first, self.end = rng, int(space.start), int(space.start + space.n)
        self.drawn: list[int] = []

    def act(self, observation: Any) -> Any:
        if not self.drawn:
            self.drawn = self.rng.integers(self.first, self.end, size=1024).tolist()
        return self.drawn.pop()

    def act_many(self, observations: Any, each: Iterable[Any], count: int) -> Any:
        return self.rng.integers(self.first, self.end, size=count)


class ByTable(Actor):
    """An action for every discrete observation, or a row of probabilities."""

    def __init__(self, table: Any, observations: Any, actions: Any, rng: np.random.Generator) -> None:
        spaces = gymnasium().spaces
        if not isinstance(observations, spaces.Discrete) or not isinstance(actions, spaces.Discrete):
            raise InputError(
                f"a table is a policy for Discrete observations and actions; here they are {observations} and {actions}"
            )
        self.rng, self.first, self.first_action = rng, int(observations.start), int(actions.start)
        self.table = np.asarray(table)
        self.chances = None
        if self.table.shape == (observations.n, actions.n):
            self.chances = _cumulated(self.table)
        elif self.table.shape != (observations.n,):
            raise InputError(
                f"the policy's table has shape {self.table.shape}; it needs ({observations.n},), an action for every "
                f"observation, or ({observations.n}, {actions.n}), the probabilities of the actions"
            )

    def act(self, observation: Any) -> Any:
        state = int(observation) - self.first
        if self.chances is None:
            return self.table[state]
        return self.first_action + int(np.searchsorted(self.chances[state], self.rng.random(), side="right"))

    def act_many(self, observations: Any, each: Iterable[Any], count: int) -> Any:
        states = np.asarray(observations) - self.first
        if self.chances is None:
            return self.table[states]
        return self.first_action + (self.chances[states] <= self.rng.random((len(states), 1))).sum(axis=1)


class ByMapping(Actor):
    """An action for every observation that is in a dictionary; tuples stand for rows of integers."""

    def __init__(self, mapping: Mapping[Any, Any], observations: Any) -> None:
        if sizes_of(observations) is None and not isinstance(observations, gymnasium().spaces.Tuple):
            raise InputError(f"a dictionary is a policy for discrete observations; here they are {observations}")
        self.mapping = mapping

    def act(self, observation: Any) -> Any:
        array = np.asarray(observation)
        key = int(array) if array.ndim == 0 else tuple(array.tolist())
        if key not in self.mapping:
            raise InputError(f"the policy's dictionary has no action for the observation {key}")
        return self.mapping[key]


class ByFunction(Actor):
    """The user's function of one observation, or of one observation and a generator."""

    def __init__(self, function: Callable[..., Any], rng: np.random.Generator) -> None:
        self.function = function
        self.extra = (rng,) if _arguments(function) == 2 else ()

    def act(self, observation: Any) -> Any:
        return self.call(observation, lambda: f"the observation {short(observation)}")

    def call(self, argument: Any, what: Callable[[], str]) -> Any:
        """What the function returns; an error in it is ours, and says for what it was called."""
        try:
            return self.function(argument, *self.extra)
        except Exception as error:
            raise InputError(f"the policy raised {type(error).__name__}: {error}, for {what()}") from error


class ByBatch(ByFunction):
    """The user's function of many observations."""

    def act(self, observation: Any) -> Any:
        return self.act_many(np.asarray(observation)[None], (), 1)[0]

    def act_many(self, observations: Any, each: Iterable[Any], count: int) -> Any:
        return np.asarray(self.call(observations, lambda: "a batch of observations"))


def as_actor(policy: Any, observations: Any, actions: Any, rng: np.random.Generator) -> Actor:
    """The actor for what was given as a policy, or an error that says what may be given."""
    if isinstance(policy, str):
        policy = policy_from_name(policy)
    if isinstance(policy, str):
        few = isinstance(actions, gymnasium().spaces.Discrete)
        return RandomlyFromFew(actions, rng) if few else Randomly(actions, rng)
    if isinstance(policy, Batched):
        return ByBatch(policy.function, rng)
    if isinstance(policy, Mapping):
        return ByMapping(policy, observations)
    if isinstance(policy, np.ndarray | list | tuple):
        return ByTable(policy, observations, actions, rng)
    if callable(policy):
        return ByFunction(policy, rng)
    raise InputError(
        "a policy is 'random', a function of an observation that returns an action, a table of actions or of their "
        f"probabilities, or 'module:function', not {policy!r}"
    )


def policy_from_name(name: str) -> Any:
    """The policy of that name, as the command line takes it.

    Parameters
    ----------
    name : str
        "random", or "module:function" or "path/to/file.py:function". The module is looked for in the working
        directory too. What it names may be anything that `collect` takes as a policy.

    Returns
    -------
    policy
        What was named; "random" as it is.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.rl.policy_from_name("operator:itemgetter")
    <class 'operator.itemgetter'>
    """
    if name == "random":
        return name
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise InputError(f"no policy {name!r}; give 'random', or a function of yours as 'module:function'")
    return named_object(where, attribute, "policy")


def named_object(where: str, attribute: str, kind: str) -> Any:
    """An object by its module, or file, and its name there."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        if where.endswith(".py") and not Path(where).is_file():
            raise FileNotFoundError(f"no file {where}")
        names = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    except Exception as error:
        raise InputError(
            f"the {kind} {where}:{attribute} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path[:] = before
    if attribute not in names:
        raise InputError(f"there is no {attribute} in {where}, which was given as the {kind} {where}:{attribute}")
    return names[attribute]


def _cumulated(table: Array) -> Array:
    """Rows of probabilities, summed up from the left."""
    sums = table.sum(axis=1)
    bad = np.flatnonzero((table < 0).any(axis=1) | ~(np.abs(sums - 1) < 1e-6))
    if bad.size:
        raise InputError(f"the policy's table holds {short(table[bad[0]])} in row {bad[0]}, which are no probabilities")
    chances = np.cumsum(table, axis=1)
    chances[chances >= chances[:, -1:]] = np.inf  # no draw is beyond the last possible action, whatever rounding does
    return chances


def _arguments(function: Callable[..., Any]) -> int:
    """Number of positional arguments that must be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)
