"""The record of a policy in an environment, or from a data set: transitions in the order of time, by episodes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from multireplay._write import completed
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.rl.coding import Coding, pack, unpack
from multireplay.rl.spaces import Array, required

if TYPE_CHECKING:
    from multireplay.rl.features.base import BoundFeatures, Features

Booleans = NDArray[np.bool_]


class Transition(NamedTuple):
    """One step, or columns of many: s_t, a_t, r_t, how it ended, s_{t+1}, and whether an episode starts with it."""

    observations: Any
    actions: Any
    rewards: Any
    terminated: Any
    truncated: Any
    next_observations: Any
    starts: Any


FIELDS = Transition._fields


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """Transitions of a policy, one a row, in the order of time.

    Row t is s_t, a_t, r_t and s_{t+1}. Every row is a step that was taken: what a reset does to a row is not in it.
    ``next_observations`` holds the observation that the step led to, also at the end of an episode, where the next
    row begins a new one. Of a vector environment, the rows of its first sub-environment come first, then those of the
    second, and so on.

    Attributes
    ----------
    observations, next_observations : ndarray
        s_t and s_{t+1}: integers for `Discrete`, rows for the rest. `Tuple` and `Dict` observations are stored as
        rows: integers where all parts are `Discrete`, else ``gymnasium.spaces.flatten`` of them.
    actions, rewards : ndarray
        a_t and r_t.
    terminated : ndarray of bool
        The episode ended in s_{t+1}, whose value is 0.
    truncated : ndarray of bool
        The episode was cut off at s_{t+1}, by a time limit for example; the value goes on from there. Where an
        episode is both, it terminated.
    starts : ndarray of bool
        Row t begins an episode, or the rows of another sub-environment.
    observation_space : gymnasium Space
        Where the stored observations lie.
    name : str
        The environment or data set it comes from.
    environment_space : gymnasium Space
        The environment's own observation space, where it is another: a `Dict` or `Tuple`.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("CartPole-v1", "random", steps=1000, seed=0)
    >>> record
    Trajectory(CartPole-v1: 1000 steps, 49 episodes (49 terminated, 0 truncated) and an unfinished one, mean return
    20.29 ± 1.2, observations (4,) float32)
    >>> record.buffer(mr.rl.Polynomial(2))
    Buffer(1000 rows: features (1000, 15) float64, next_features (1000, 15) float64, rewards (1000,) float64,
    terminated (1000,) bool)
    """

    observations: Array
    actions: Array
    rewards: NDArray[np.float64]
    terminated: Booleans
    truncated: Booleans
    next_observations: Array
    starts: Booleans
    observation_space: Any
    name: str = "a record"
    environment_space: Any = None

    def __post_init__(self) -> None:
        if self.environment_space is None:
            object.__setattr__(self, "environment_space", self.observation_space)
        lengths = {name: len(getattr(self, name)) for name in FIELDS}
        if len(set(lengths.values())) > 1:
            raise InputError(f"a trajectory's columns need one length, but {lengths}")
        if not len(self.rewards):
            raise InputError("a trajectory needs at least one step")
        if not self.starts[0]:
            raise InputError("the first row of a trajectory starts an episode: starts[0] must be True")

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def ends(self) -> Booleans:
        """Where the next row does not go on from this one: ends of episodes, and of what was recorded."""
        return np.append(self.starts[1:], True)

    @property
    def episodes(self) -> int:
        """Episodes that ended, by termination or truncation."""
        return int((self.terminated | self.truncated).sum())

    @property
    def returns(self) -> NDArray[np.float64]:
        """Sum of rewards of every episode that ended, not discounted."""
        sums = np.add.reduceat(self.rewards, np.flatnonzero(self.starts))
        return np.asarray(sums[(self.terminated | self.truncated)[self.ends]])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of every episode that ended."""
        steps = np.diff(np.append(np.flatnonzero(self.starts), len(self)))
        return np.asarray(steps[(self.terminated | self.truncated)[self.ends]])

    def buffer(self, features: Features | BoundFeatures | str) -> Buffer:
        """The record as `PolicyEvaluation` reads it: features, next_features, rewards, terminated.

        Parameters
        ----------
        features : Features or str
            The features of an observation, such as `RBF`, or their name. Those that need bounds or centres take
            them from this record.
        """
        from multireplay.rl.features.given import bound_to

        return bound_to(features, self.environment_space, self.observations).buffer_of(self)

    def save(self, path: str | Path) -> Path:
        """Write it to an ``.npz`` file, which `load` reads, and return the path; an older file stays until then."""
        path = Path(path)
        if path.suffix != ".npz":
            path = path.with_name(path.name + ".npz")
        columns: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        spaces = {"space": self.observation_space, "environment": self.environment_space}
        columns |= {f"{kind}_{key}": value for kind, space in spaces.items() for key, value in pack(space).items()}
        with completed(path) as file:
            np.savez_compressed(file, name=np.array(self.name), **columns)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as kept:
                arrays = {name: kept[name] for name in kept.files}
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
            raise InputError(f"{path} cannot be read as a trajectory: {error}") from None
        missing = [name for name in FIELDS if name not in arrays]
        if missing:
            raise InputError(f"{path} is no saved trajectory: it has no {missing[0]}")
        space, own = (
            {key.removeprefix(kind): value for key, value in arrays.items() if key.startswith(kind)}
            for kind in ("space_", "environment_")
        )
        fields = {name: arrays[name] for name in FIELDS}
        return cls(
            **fields, observation_space=unpack(space), name=str(arrays["name"]), environment_space=unpack(own or space)
        )

    def __repr__(self) -> str:
        kind = f"{self.observations.shape[1:]} {self.observations.dtype}"
        return f"Trajectory({self.name}: {summary(self)}, observations {kind})"


def summary(record: Trajectory) -> str:
    """Steps, episodes and mean return, in words."""
    ended = record.episodes
    terminated = int(record.terminated.sum())
    kinds = f"{terminated} terminated, {ended - terminated} truncated"
    parts = f"{ended} episode{'s' * (ended != 1)} ({kinds})"
    unfinished = int(record.starts.sum()) - ended
    if unfinished:
        parts += " and an unfinished one" if unfinished == 1 else f" and {unfinished} unfinished ones"
    if ended:
        parts += f", mean return {record.returns.mean():.4g}"
    if ended > 1:
        parts += f" ± {record.returns.std(ddof=1) / np.sqrt(ended):.2g}"
    return f"{len(record)} steps, {parts}"


def from_minari(dataset: Any) -> Trajectory:
    """The episodes of a Minari data set as one trajectory, in their order.

    `Dict` and `Tuple` observations are stored flat, as in `Trajectory`. An episode whose last step is neither
    terminated nor truncated counts as unfinished.

    Parameters
    ----------
    dataset : minari.MinariDataset or str
        The data set, or the id of one that was downloaded before.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest import mock
    >>> import minari
    >>> from minari.data_collector import EpisodeBuffer
    >>> import multireplay as mr
    >>> episode = EpisodeBuffer(
    ...     observations=[0, 4, 8, 9], actions=[1, 1, 2], rewards=[0.0, 0.0, 1.0],
    ...     terminations=[False, False, True], truncations=[False, False, False],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, MINARI_DATASETS_PATH=folder):
    ...     dataset = minari.create_dataset_from_buffers(
    ...         "lake-v0", [episode], env="FrozenLake-v1", eval_env="FrozenLake-v1", data_format="arrow",
    ...         algorithm_name="none", author="me", author_email="me@home", code_permalink="none", description="short",
    ...     )
    ...     mr.rl.from_minari("lake-v0")
    Trajectory(lake-v0: 3 steps, 1 episode (1 terminated, 0 truncated), mean return 1, observations () int64)
    """
    data = _loaded(dataset)
    observations, actions = Coding(data.observation_space), Coding(data.action_space)
    parts = []
    for episode in data.iterate_episodes():
        steps = len(episode.rewards)
        if steps:
            seen, done = observations.many(episode.observations, steps + 1), actions.many(episode.actions, steps)
            ends = (np.asarray(flags, dtype=np.bool_) for flags in (episode.terminations, episode.truncations))
            rewards = np.asarray(episode.rewards, dtype=np.float64)
            parts.append((seen[:-1], done, rewards, *ends, seen[1:], np.arange(steps) == 0))
    if not parts:
        raise InputError(f"the Minari data set {data.id!r} has no steps")
    columns = Transition(*map(np.concatenate, zip(*parts, strict=True)))
    return Trajectory(
        *columns, observation_space=observations.space, name=str(data.id), environment_space=data.observation_space
    )


def _loaded(dataset: Any) -> Any:
    package = required("minari", "Minari")
    if isinstance(dataset, package.MinariDataset):
        return dataset
    if not isinstance(dataset, str):
        raise InputError(f"dataset must be a minari.MinariDataset or its id, not {dataset!r}")
    try:
        return package.load_dataset(dataset)
    except FileNotFoundError:
        raise InputError(
            f"there is no Minari data set {dataset!r} here; get it with: minari download {dataset}"
        ) from None
    except Exception as error:
        raise InputError(f"the Minari data set {dataset!r} cannot be read: {type(error).__name__}: {error}") from error
