"""One feature for every discrete observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import eye_array

from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import PolicyEvaluation
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.spaces import Array, sizes_of

if TYPE_CHECKING:
    from multireplay.rl.trajectory import Trajectory


@dataclass(frozen=True)
class OneHot(Features):
    """One feature for every discrete observation, so that the value of each is a number of its own.

    For `Discrete` observations, and for rows of them (`MultiDiscrete`, a `Tuple` of `Discrete`), where there is one
    for every combination. The value of a state that the record never leaves, a terminal one or one never visited, is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> record = mr.rl.collect("FrozenLake-v1", "random", steps=100, seed=0)
    >>> features = mr.rl.OneHot().bind(record.observation_space, record.observations)
    >>> features([0, 15])[:, [0, 1, 15]]
    array([[1., 0., 0.],
           [0., 0., 1.]])
    """

    def require(self, space: Any) -> None:
        sizes = sizes_of(space)
        if sizes is None:
            raise InputError(f"OneHot is for discrete observations, not for {space}; RBF or TileCoding may do")
        refuse_many(self, float(np.prod(sizes[0], dtype=np.float64)), space, "TileCoding or a Function may do")

    def bind(self, space: Any, observations: Array) -> BoundOneHot:
        self.require(space)
        return BoundOneHot(space)


class BoundOneHot(BoundFeatures):
    """One feature a state; ``states`` gives its position."""

    kind = "one-hot"

    def __init__(self, space: Any) -> None:
        found = sizes_of(space)
        assert found is not None
        self.space = space
        self.sizes, self.first = found
        self.dim = int(np.prod(self.sizes))

    def constant(self, observations: Array) -> NDArray[np.float64]:
        ones = np.zeros(self.dim)  # a state that was never seen may well be a terminal one, which is worth 0
        ones[self.states(observations)] = 1.0
        return ones

    def buffer_of(self, record: Trajectory) -> Buffer:
        """The columns states, next_states, rewards and terminated of a record."""
        now, then = self.states(record.observations), self.states(record.next_observations)
        return Buffer(states=now, next_states=then, rewards=record.rewards, terminated=record.terminated)

    def problem_of(self, gamma: float) -> PolicyEvaluation:
        """The problem that reads those columns, with the identity for a table, kept sparse."""
        return PolicyEvaluation(gamma, table=eye_array(self.dim, format="csr"))

    def states(self, observations: Array) -> NDArray[np.int64]:
        """The number of every observation, from 0 to dim − 1."""
        places = observations.reshape(len(observations), -1) - self.first
        if places.dtype.kind not in "iu":
            places = _whole(places)
        bad = np.flatnonzero(((places < 0) | (places >= self.sizes)).any(axis=1))
        if bad.size:
            raise InputError(f"the observation {observations[bad[0]]} is not in {self.space}")
        return np.asarray(np.ravel_multi_index(tuple(places.T), tuple(self.sizes)), dtype=np.int64)

    def rows(self, observations: Array) -> Matrix:
        hot = np.zeros((len(observations), self.dim))
        hot[np.arange(len(observations)), self.states(observations)] = 1.0
        return hot


def _whole(places: Array) -> NDArray[np.int64]:
    whole = places.astype(np.int64)
    if (whole != places).any():
        raise InputError("discrete observations must be whole numbers")
    return whole
