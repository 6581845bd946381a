"""Policies: what may be given as one, the actors that act by them, and whether an action is one at all."""

from __future__ import annotations

import copy
import importlib
import inspect
import runpy
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.spaces import Array, gymnasium, row_of, short, sizes_of


class Batched:
    """A function of many observations at once: an array with one a row in, an array with one answer a row out.

    A policy or a feature function that is wrapped in it is called once for a block of observations, not once for each.

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


@dataclass(frozen=True)
class Actor:
    """Acts by a policy, with random numbers of its own: on one observation, and on a batch of them where it can."""

    act: Callable[[Any], Any]
    batch: Callable[[Any, int], Any] | None = None

    def act_many(self, observations: Any, each: Iterable[Any], count: int) -> Any:
        """The actions for a batch of `count` observations, which `each` gives one by one."""
        if self.batch is not None:
            return self.batch(observations, count)
        return [self.act(observation) for observation in each]


def as_actor(policy: Any, observations: Any, actions: Any, rng: np.random.Generator) -> Actor:
    """The actor for what was given as a policy, or an error that says what may be given."""
    if isinstance(policy, str):
        policy = policy_from_name(policy)
    if isinstance(policy, str):
        return _by_chance(actions, rng)
    if isinstance(policy, Batched):
        call = _guarded(policy.function, rng, lambda many: "a batch of observations")
        return Actor(
            lambda observation: np.asarray(call(np.asarray(observation)[None]))[0],
            lambda observations, count: np.asarray(call(observations)),
        )
    if isinstance(policy, Mapping):
        return _by_mapping(policy, observations)
    if isinstance(policy, np.ndarray | list | tuple):
        return _by_table(np.asarray(policy), observations, actions, rng)
    if callable(policy):
        return Actor(_guarded(policy, rng, lambda one: f"the observation {short(one)}"))
    raise InputError(
        "a policy is 'random', a function of an observation that returns an action, a table of actions or of their "
        f"probabilities, or 'module:function', not {policy!r}"
    )


def _by_chance(space: Any, rng: np.random.Generator) -> Actor:
    """Every action is as likely as any other; whole numbers are drawn in blocks, since one at a time is slow."""
    if not isinstance(space, gymnasium().spaces.Discrete):
        own = copy.deepcopy(space)  # the environment's own space keeps its random state
        own.seed(int(rng.integers(2**31)))
        return Actor(lambda observation: own.sample())
    first, end = int(space.start), int(space.start + space.n)
    drawn: list[int] = []

    def act(observation: Any) -> int:
        if not drawn:
            drawn.extend(rng.integers(first, end, size=1024).tolist())
        return drawn.pop()

    return Actor(act, lambda observations, count: rng.integers(first, end, size=count))


def _by_table(table: Array, observations: Any, actions: Any, rng: np.random.Generator) -> Actor:
    """An action for every discrete observation, or a row of probabilities."""
    spaces = gymnasium().spaces
    if not isinstance(observations, spaces.Discrete) or not isinstance(actions, spaces.Discrete):
        raise InputError(
            f"a table is a policy for Discrete observations and actions; here they are {observations} and {actions}"
        )
    first, first_action = int(observations.start), int(actions.start)
    if table.shape == (observations.n,):
        return Actor(lambda state: table[int(state) - first], lambda states, count: table[np.asarray(states) - first])
    if table.shape != (observations.n, actions.n):
        raise InputError(
            f"the policy's table has shape {table.shape}; it needs ({observations.n},), an action for every "
            f"observation, or ({observations.n}, {actions.n}), the probabilities of the actions"
        )
    chances = _cumulated(table)

    def act(state: Any) -> int:
        return first_action + int(np.searchsorted(chances[int(state) - first], rng.random(), side="right"))

    def act_many(states: Any, count: int) -> Array:
        drawn = chances[np.asarray(states) - first] <= rng.random((count, 1))
        return np.asarray(first_action + drawn.sum(axis=1))

    return Actor(act, act_many)


def _by_mapping(mapping: Mapping[Any, Any], observations: Any) -> Actor:
    """An action for every observation that is in a dictionary; tuples stand for rows of integers."""
    if sizes_of(observations) is None and not isinstance(observations, gymnasium().spaces.Tuple):
        raise InputError(f"a dictionary is a policy for discrete observations; here they are {observations}")

    def act(observation: Any) -> Any:
        array = np.asarray(observation)
        key = int(array) if array.ndim == 0 else tuple(array.tolist())
        if key not in mapping:
            raise InputError(f"the policy's dictionary has no action for the observation {key}")
        return mapping[key]

    return Actor(act)


def _guarded(
    function: Callable[..., Any], rng: np.random.Generator, named: Callable[[Any], str]
) -> Callable[[Any], Any]:
    """The user's function, with a generator if it takes one; an error in it names what it was called for."""
    extra = (rng,) if _arguments(function) == 2 else ()

    def call(argument: Any) -> Any:
        try:
            return function(argument, *extra)
        except Exception as error:
            raise InputError(f"the policy raised {type(error).__name__}: {error}, for {named(argument)}") from error

    return call


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
        if self.discrete and numbers and (self.first <= actions).all() and (actions <= self.last).all():
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


def policy_from_name(name: str) -> Any:
    """The policy of that name, as the command line takes it.

    Parameters
    ----------
    name : str
        "random", or "module:function" or "path/to/file.py:function". The module is looked for in the working
        directory too. What it names may be anything that `collect` takes as a policy. "random" stays as it is.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.rl.policy_from_name("operator:itemgetter")
    <class 'operator.itemgetter'>
    """
    return name if name == "random" else named_object(name, "policy", "give 'random'")


def named_object(name: str, kind: str, remedy: str) -> Any:
    """An object by its module, or file, and its name there."""
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise InputError(f"no {kind} {name!r}; {remedy}, or a function of yours as 'module:function'")
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        if where.endswith(".py") and not Path(where).is_file():
            raise FileNotFoundError(f"no file {where}")
        names = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    except Exception as error:
        raise InputError(f"the {kind} {name} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path[:] = before
    if attribute not in names:
        raise InputError(f"there is no {attribute} in {where}, which was given as the {kind} {name}")
    return names[attribute]
