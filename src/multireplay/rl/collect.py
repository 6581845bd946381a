"""Collecting a trajectory: a policy acts in an environment, and every step is recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from multireplay._check import whole_number
from multireplay.errors import InputError
from multireplay.rl.coding import Coding
from multireplay.rl.policies import Actor, Legal, as_actor
from multireplay.rl.spaces import Array, gymnasium, is_vector, name_of, opened, row_of, spaces_of
from multireplay.rl.trajectory import Trajectory, Transition
from multireplay.show.progress import step_bar

FIRST_ROOM = 2**14
"""Rows that there is room for at first where it is not known how many there will be."""
CHECKED = 1024
"""Rows between two checks that observations and rewards are finite, and two moves of the progress bar."""


class WithTrajectory(BaseException):
    """The end of a collection before its time, with what was collected."""

    def __init__(self, message: str, trajectory: Trajectory | None = None) -> None:
        super().__init__(message)
        self.trajectory = trajectory


class CollectionError(WithTrajectory, InputError):
    """Collecting a trajectory failed; ``error.trajectory`` has the steps before that, or None if there are none."""


class CollectionInterrupted(WithTrajectory, KeyboardInterrupt):
    """Ctrl-C during a collection; ``error.trajectory`` has the steps before that, or None if there are none."""


def collect(env: Any, policy: Any, steps: int, seed: int = 0, *, progress: bool = False) -> Trajectory:
    """Let a policy act in an environment and record its steps.

    Parameters
    ----------
    env : str, gymnasium.Env or gymnasium.vector.VectorEnv
        The environment or its id. A vector environment may reset its parts in the next step, in the same step, or not
        at all (its ``autoreset_mode``): rows that only reset are left out, and the last observation of an episode is
        the real one.
    policy : "random", callable, table or "module:function"
        What acts. A function gets one observation as the environment gives it, or an observation and a
        `numpy.random.Generator` if it takes two arguments, and returns an action; wrapped in `Batched` it gets
        those of all sub-environments at once. For `Discrete` observations it may be an array with an action for
        every observation, an array with a row of probabilities for every observation, or a dictionary.
    steps : int
        Number of steps to record, over all sub-environments together.
    seed : int
        Seed of the environment and of the policy's generator.
    progress : bool
        Show a progress bar.

    Raises
    ------
    CollectionError, CollectionInterrupted
        An action that is not one of the environment's, a reward or observation that is not finite, or an error in the
        policy or the environment; and Ctrl-C. ``error.trajectory`` has the steps before it.

    Examples
    --------
    >>> import multireplay as mr
    >>> def with_momentum(state):
    ...     return 2 if state[1] >= 0 else 0
    >>> record = mr.rl.collect("MountainCar-v0", with_momentum, steps=2000, seed=0)
    >>> record
    Trajectory(MountainCar-v0: 2000 steps, 16 episodes (16 terminated, 0 truncated) and an unfinished one, mean return
    -118.8 ± 1.1, observations (2,) float32)
    >>> record.observations.shape, record.actions[:4], record.rewards[:2]
    ((2000, 2), array([2, 2, 2, 2]), array([-1., -1.]))
    """
    steps, seed = whole_number("steps", steps, least=1), whole_number("seed", seed, least=0)
    with opened(env) as world, step_bar(steps, "collecting") if progress else nullcontext() as advanced:
        return run(world, policy, seed, Collection(world, steps, advanced=advanced))


def run(env: Any, policy: Any, seed: int, collection: Collection) -> Trajectory:
    """Act until the collection is full."""
    actions = collection.action_coding.original
    actor = as_actor(policy, collection.coding.original, actions, np.random.default_rng([seed, 1]))
    walk = _walk_many if is_vector(env) else _walk
    try:
        walk(env, actor, Legal(actions), collection, seed)
    except (Exception, KeyboardInterrupt) as raised:
        error = collection.unsound() or raised  # what is not finite may well be why a policy fails
        kept, where = collection.trajectory(), f"after {collection.rows} of {collection.steps} steps"
        if isinstance(raised, KeyboardInterrupt):
            message = f"interrupted {where}, which are in the error's trajectory"
            raise CollectionInterrupted(message, kept) from None
        own = isinstance(error, InputError)
        what = str(error) if own else f"the environment raised {type(error).__name__}: {error}"
        where += "" if kept is None else "; the steps before it are in the error's trajectory"
        raise CollectionError(f"{what} ({where})", kept) from error
    found = collection.trajectory()
    assert found is not None
    return found


def _walk(env: Any, actor: Actor, legal: Legal, collection: Collection, seed: int) -> None:
    """One environment, which is reset here where an episode ends."""
    encode, encode_action = collection.coding.one, collection.action_coding.one
    observation, _ = env.reset(seed=seed)
    now, start = np.array(encode(observation)), True
    while not collection.full:
        action = legal.one(actor.act(observation), observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        row, ends = collection.rows, (bool(terminated), bool(truncated))
        collection.add(Transition(now, encode_action(action), float(reward), *ends, encode(observation), start))
        now, start = collection.columns.next_observations[row], any(ends)  # the copy: it may reuse its array
        if start and not collection.full:
            observation, _ = env.reset()
            now = np.array(encode(observation))


def _walk_many(env: Any, actor: Actor, legal: Legal, collection: Collection, seed: int) -> None:
    """A vector environment, which resets its parts in the next step, in the same step, or when it is told to."""
    count, mode = env.num_envs, autoreset_mode(env)
    iterate = gymnasium().vector.utils.iterate
    observations, _ = env.reset(seed=seed)
    now = collection.coding.many(observations, count)
    start, resetting = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    while not collection.full:
        each = iterate(env.observation_space, observations)
        actions = legal.many(actor.act_many(observations, each, count), observations, count)
        observations, rewards, terminated, truncated, infos = env.step(actions)
        rewards, terminated, truncated = map(np.asarray, (rewards, terminated, truncated))
        ended = terminated | truncated
        following = collection.coding.many(observations, count)
        then = following.copy()
        if mode == "SameStep" and ended.any():
            last = infos.get("final_obs", infos.get("final_observation"))
            if last is None:
                raise InputError(
                    "the vector environment resets in the same step, but gives no info['final_obs'] to go on from"
                )
            for part in np.flatnonzero(ended):
                then[part] = collection.coding.one(row_of(last, int(part)))
        chosen = collection.action_coding.many(actions, count)
        collection.add_many(Transition(now, chosen, rewards, terminated, truncated, then, start), ~resetting)
        if mode == "Disabled" and ended.any():
            observations, _ = env.reset(options={"reset_mask": ended})
            following = collection.coding.many(observations, count)
        start = resetting if mode == "NextStep" else ended
        resetting = ended & (mode == "NextStep")
        now = following


def autoreset_mode(env: Any) -> str:
    """ "NextStep", "SameStep" or "Disabled"; a vector environment that does not say resets in the next step."""
    mode = env.metadata.get("autoreset_mode", "NextStep")
    name = str(getattr(mode, "value", mode))
    if name not in ("NextStep", "SameStep", "Disabled"):
        raise InputError(
            f"the vector environment's autoreset mode is {mode!r}; only NextStep, SameStep and Disabled are known"
        )
    return name


class Collection:
    """Columns that are filled row by row, or a row for every sub-environment at a time.

    Up to `steps` rows, or until so many episodes have ended; there is room for all steps at once unless it is
    the episodes that are counted.
    """

    def __init__(
        self, env: Any, steps: int, episodes: float = np.inf, advanced: Callable[[int], None] | None = None
    ) -> None:
        self.steps, self.wanted, self.name, self.advanced = steps, episodes, name_of(env), advanced
        self.coding, self.action_coding = map(Coding, spaces_of(env))
        room = steps if episodes == np.inf else min(steps, FIRST_ROOM)
        try:
            now, then = self.coding.empty(room), self.coding.empty(room)
            done = self.action_coding.empty(room)
            terminated, truncated, starts = (np.empty(room, dtype=np.bool_) for _ in range(3))
            self.columns = Transition(now, done, np.empty(room), terminated, truncated, then, starts)
            self.which = np.zeros(steps, dtype=np.int32)
        except (MemoryError, ValueError):
            raise InputError(
                f"there is no room for steps={steps} with observations of shape {self.coding.shape}"
            ) from None
        self.rows = self.checked = self.ended = 0

    @property
    def full(self) -> bool:
        """Whether all steps, or all episodes, that were asked for are there."""
        return self.rows == self.steps or self.ended >= self.wanted

    def add(self, transition: Transition) -> None:
        """One transition."""
        self._make_room(self.rows + 1)
        for column, value in zip(self.columns, transition, strict=True):
            column[self.rows] = value
        self.ended += transition.terminated or transition.truncated
        self._count(1)

    def add_many(self, transitions: Transition, taken: Array) -> None:
        """One transition of every sub-environment where `taken`; those beyond the wanted steps are left out."""
        which = np.flatnonzero(taken)[: self.steps - self.rows]
        rows = slice(self.rows, self.rows + len(which))
        self._make_room(rows.stop)
        for column, values in zip(self.columns, transitions, strict=True):
            column[rows] = values[which]
        self.which[rows] = which
        self.ended += int((transitions.terminated | transitions.truncated)[which].sum())
        self._count(len(which))

    def _make_room(self, rows: int) -> None:
        """Twice the room where there is none for so many rows."""
        while (room := len(self.columns.rewards)) < rows:
            more = min(room, self.steps - room)
            self.columns = Transition(
                *(
                    np.concatenate([column, np.empty_like(column[:1], shape=(more, *column.shape[1:]))])
                    for column in self.columns
                )
            )

    def _count(self, rows: int) -> None:
        self.rows += rows
        error = self.unsound() if self.rows - self.checked >= CHECKED or self.full else None
        if error is not None:
            raise error

    def unsound(self) -> InputError | None:
        """What is wrong with the first new row that is not finite, which is dropped with those after it; or None."""
        first, found = self.rows, ""
        for name in ("rewards", "observations", "next_observations"):
            values = getattr(self.columns, name)[self.checked : self.rows]
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                row = self.checked + int(np.argwhere(~np.isfinite(values))[0, 0])
                if row < first:
                    first, found = row, name
        if found:
            value, self.rows = getattr(self.columns, found)[first], first
            kind = "reward" if found == "rewards" else "observation"
            return InputError(f"the environment gave the {kind} {value}, which is not finite")
        if self.advanced is not None:
            self.advanced(self.rows - self.checked)
        self.checked = self.rows
        return None

    def trajectory(self) -> Trajectory | None:
        """What is there, sub-environment after sub-environment; None if nothing is."""
        if not self.rows:
            return None
        which = self.which[: self.rows]
        order: Any = np.argsort(which, kind="stable") if which.any() else slice(0, self.rows)
        columns = Transition(*(column[: self.rows][order] for column in self.columns))
        sorted_which = which[order]
        columns.starts[1:] |= sorted_which[1:] != sorted_which[:-1]
        columns.starts[0] = True
        spaces = {"observation_space": self.coding.space, "environment_space": self.coding.original}
        return Trajectory(*columns, **spaces, name=self.name)
