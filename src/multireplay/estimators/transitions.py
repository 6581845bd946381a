"""From the rows of a trajectory to transitions: which row follows which, and where none does."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from multireplay._check import Vector
from multireplay.errors import InputError

Flags = NDArray[np.bool_]


class Episodes(NamedTuple):
    """Rows of one record or several episodes in time order.

    Attributes
    ----------
    rows : array or sparse matrix of shape (rows, features)
        What was seen.
    rewards : ndarray of shape (rows,)
        What was given on leaving the row.
    terminated : ndarray of bool
        Where nothing comes after the row, for good.
    ended : ndarray of bool
        Where the next row belongs to another episode, or the row is the last one.
    """

    rows: Any
    rewards: Vector
    terminated: Flags
    ended: Flags

    @property
    def usable(self) -> Flags:
        """Rows whose successor is known: the next row, or none at all where the episode terminated."""
        return self.terminated | ~self.ended


def as_trajectory(rows: Any, rewards: Vector, terminated: Any, episode: Any) -> Episodes:
    """The trajectory, checked."""
    count = rows.shape[0]
    over = np.zeros(count, dtype=np.bool_)
    if terminated is not None:
        values = _one_a_row("terminated", terminated, count)
        if not np.isin(values, (0, 1)).all():
            bad = int(np.flatnonzero(~np.isin(values, (0, 1)))[0])
            raise InputError(
                f"terminated is {values[bad]} at row {bad} (counting from 0); it needs booleans, or zeros and ones"
            )
        over = values.astype(np.bool_)
    ended = np.ones(count, dtype=np.bool_)
    if episode is None:
        ended[:-1] = False
    else:
        names = _one_a_row("episode", episode, count)
        ended[:-1] = names[1:] != names[:-1]
    return Episodes(rows, rewards, over, ended)


def transitions(trajectory: Episodes) -> tuple[dict[str, Any], Vector]:
    """The columns of `PolicyEvaluation` without the rewards, and the rewards."""
    now = np.flatnonzero(trajectory.usable)
    rows, last = trajectory.rows, trajectory.rows.shape[0] - 1
    columns = {
        "features": rows[now],
        "next_features": rows[np.minimum(now + 1, last)],  # not read where the episode terminated
        "terminated": trajectory.terminated[now],
    }
    return columns, trajectory.rewards[now]


def returns(trajectory: Episodes, gamma: float, values: Vector) -> Vector:
    """Discounted sums of the rewards from every row on, with the value of the last row where an episode breaks off."""
    found = np.array(values, dtype=np.float64)
    stops = np.flatnonzero(trajectory.terminated | trajectory.ended)
    first = 0
    for stop in stops.tolist():
        known = stop + 1 if trajectory.terminated[stop] else stop
        rewards = trajectory.rewards[first:known][::-1]
        after = 0.0 if trajectory.terminated[stop] else values[stop]
        if len(rewards):
            found[first:known] = lfilter([1.0], [1.0, -gamma], rewards, zi=[gamma * after])[0][::-1]
        first = stop + 1
    return found


def _one_a_row(name: str, values: Any, count: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (count,):
        raise InputError(f"{name} has shape {array.shape}, but X has {count} rows: it needs ({count},)")
    return array
