"""Trajectories from Minari data sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.spaces import Coding, required
from multireplay.rl.trajectory import Trajectory, Transition


def from_minari(dataset: Any) -> Trajectory:
    """The episodes of a Minari data set as one trajectory, in their order.

    `Dict` and `Tuple` observations are stored flat, as in `Trajectory`. An episode whose last step is neither
    terminated nor truncated counts as unfinished.

    Parameters
    ----------
    dataset : minari.MinariDataset or str
        The data set, or the id of one that was downloaded before.

    Returns
    -------
    Trajectory

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
    ...         "lake-v0", [episode], env="FrozenLake-v1", data_format="arrow",
    ...         algorithm_name="none", author="me", author_email="me@home", code_permalink="none",
    ...         description="three steps", eval_env="FrozenLake-v1",
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
            outcome = episode.rewards, episode.terminations, episode.truncations
            parts.append((seen[:-1], done, *map(np.asarray, outcome), seen[1:], np.arange(steps) == 0))
    if not parts:
        raise InputError(f"the Minari data set {data.id!r} has no steps")
    joined = Transition(*map(np.concatenate, zip(*parts, strict=True)))
    columns = joined._replace(
        rewards=joined.rewards.astype(np.float64),
        terminated=joined.terminated.astype(np.bool_),
        truncated=joined.truncated.astype(np.bool_),
    )
    return Trajectory(*columns, observation_space=observations.space, name=str(data.id))


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
