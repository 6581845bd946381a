"""What features are: described, then bound to the observations of an environment, and the plainest of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import eye_array

from multireplay._check import Positions, Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import PolicyEvaluation
from multireplay.rl.coding import stored
from multireplay.rl.spaces import Array, sizes_of, width_of

if TYPE_CHECKING:
    from multireplay.rl.trajectory import Trajectory

Matrix = NDArray[Any]

MOST_FEATURES = 20_000
"""More features than this cannot have been meant: a record of them does not fit into memory."""
NUMBERS = 2**22
"""Numbers of observations or features that are worked out at a time."""
AT_MOST = 2000
"""Features that there are at most where their number was not given: so many are fitted exactly in seconds."""
ROWS_EACH = 10
"""Observations that each feature has at least where their number was not given."""
SPELT = 4
"""Numbers of an observation up to which the name of a feature spells out where it is."""
LOOKED_AT = 4096
"""Observations, spread over the record, that the length of rows is taken from."""


class BoundFeatures(ABC):
    """Features of the observations of one environment: ψ(s) as a row of ``dim`` numbers."""

    kind: ClassVar[str]
    space: Any
    dim: int
    chosen: str = ""
    """What was chosen where it was not given, in words."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name a feature, all different."""
        return tuple(f"feature {i}" for i in range(self.dim))

    @abstractmethod
    def rows(self, observations: Array) -> Matrix:
        """ψ of observations that are known to have the right shape, (n, …) -> (n, dim)."""

    def __call__(self, observations: Any) -> Matrix:
        """ψ of many observations, one a row: (n, …) -> (n, dim)."""
        array = np.asarray(observations)
        if array.shape[1:] != tuple(self.space.shape) or array.ndim == 0:
            raise InputError(
                f"observations of shape {array.shape} are not rows of {self.space}: the shape must be (n, "
                f"{', '.join(map(str, self.space.shape))})"
            )
        found = np.empty((len(array), self.dim))
        for start, stop in self._blocks(array):
            found[start:stop] = self.rows(array[start:stop])
        return found

    def values(self, observations: Array, x: Vector) -> Vector:
        """⟨ψ(s), x⟩ of many observations; x may have several columns."""
        parts = [self.rows(observations[start:stop]) @ x for start, stop in self._blocks(observations)]
        return np.concatenate(parts or [np.zeros((0, *x.shape[1:]))])

    def total(self, observations: Array) -> Vector:
        """Σ ψ(s) over many observations."""
        parts = (self.rows(observations[start:stop]).sum(axis=0) for start, stop in self._blocks(observations))
        return np.asarray(sum(parts, np.zeros(self.dim)))

    def _blocks(self, observations: Array) -> Iterator[tuple[int, int]]:
        """Stretches of observations that make no more than some megabytes, of numbers and of features."""
        size = max(1, NUMBERS // max(self.dim, width_of(self.space)))
        return ((start, min(start + size, len(observations))) for start in range(0, len(observations), size))

    def buffer_of(self, record: Trajectory) -> Buffer:
        """The columns features, next_features, rewards and terminated of a record.

        An observation is the next one of the row before it, so its features are worked out once; only the last
        observations of episodes are extra.
        """
        now = self(record.observations)
        then = np.empty_like(now)
        then[:-1] = now[1:]
        then[record.ends] = self(record.next_observations[record.ends])
        rest = {"rewards": record.rewards, "terminated": record.terminated}
        return Buffer(features=now, next_features=then, **rest, names=self.names)

    def problem_of(self, gamma: float) -> PolicyEvaluation:
        """The problem that reads those columns."""
        return PolicyEvaluation(gamma)

    def __str__(self) -> str:
        chosen = f" ({self.chosen})" if self.chosen else ""
        return f"{self.dim} {self.kind} feature{'s' * (self.dim != 1)}{chosen}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dim} features)"


class Features(ABC):
    """A description of features; `bind` makes them for an environment. ``a + b`` puts those of both side by side."""

    def require(self, space: Any) -> None:
        """Raise `InputError` if observations of this space have no such features."""
        return

    @abstractmethod
    def bind(self, space: Any, observations: Array) -> BoundFeatures:
        """The features for a space, with bounds and centres from observations in it where the space has none.

        The space is the environment's own or that of what is stored of it; observations are as they are stored.
        """

    def __add__(self, other: Features) -> Features:
        if not isinstance(other, Features):
            return NotImplemented
        both = (one.parts if isinstance(one, Joined) else (one,) for one in (self, other))
        return Joined(tuple(chain(*both)))


@dataclass(frozen=True)
class Joined(Features):
    """The features of several descriptions side by side; ``a + b`` is shorter.

    Each part is scaled so that its longest row in the record has length 1; otherwise the part with the longest rows
    would set the step for all.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("CartPole-v1", "random", steps=500, seed=0)
    >>> both = mr.rl.RBF(50) + mr.rl.Polynomial(1)
    >>> both.bind(record.observation_space, record.observations).dim
    55
    """

    parts: tuple[Features, ...]

    def require(self, space: Any) -> None:
        for part in self.parts:
            part.require(space)

    def bind(self, space: Any, observations: Array) -> BoundFeatures:
        bound = tuple(part.bind(space, observations) for part in self.parts)
        some = observations[:: max(1, len(observations) // LOOKED_AT)]
        longest = [float(np.sqrt((part.rows(some) ** 2).sum(axis=1).max(initial=0.0))) or 1.0 for part in bound]
        return BoundJoined(stored(space), bound, tuple(1 / length for length in longest))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


class BoundJoined(BoundFeatures):
    """Features side by side, each part with its scale."""

    kind = "joined"

    def __init__(self, space: Any, parts: tuple[BoundFeatures, ...], scales: tuple[float, ...]) -> None:
        self.space, self.parts, self.scales = space, parts, scales
        self.dim = sum(part.dim for part in parts)

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))

    @property
    def names(self) -> tuple[str, ...]:
        found = [name for part in self.parts for name in part.names]
        if len(set(found)) < len(found):
            found = [f"{name} of part {place}" for place, part in enumerate(self.parts) for name in part.names]
        return tuple(found)

    def rows(self, observations: Array) -> Matrix:
        scaled = zip(self.parts, self.scales, strict=True)
        return np.hstack([scale * part.rows(observations).astype(np.float64, copy=False) for part, scale in scaled])


def room_for(observations: Array) -> int:
    """How many features to take where nobody said: a tenth of the observations, and at most 2000."""
    return min(AT_MOST, max(1, len(observations) // ROWS_EACH)) if len(observations) else AT_MOST


def refuse_many(description: Features, count: float, space: Any, remedy: str) -> None:
    """Raise where a description makes far too many features."""
    if count > MOST_FEATURES:
        raise InputError(
            f"{description!r} makes {count:.6g} features of {width_of(space)} numbers an observation; {remedy}"
        )


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
        self.require(stored(space))
        return BoundOneHot(stored(space))


class BoundOneHot(BoundFeatures):
    """One feature a state; ``states`` gives its position."""

    kind = "one-hot"

    def __init__(self, space: Any) -> None:
        found = sizes_of(space)
        assert found is not None
        self.space = space
        self.sizes, self.first = found
        self.dim = int(np.prod(self.sizes))

    @property
    def names(self) -> tuple[str, ...]:
        states = np.column_stack(np.unravel_index(np.arange(self.dim), tuple(self.sizes))) + self.first
        single = len(self.sizes) == 1
        return tuple(f"state {state[0] if single else tuple(state)}" for state in states.tolist())

    def values(self, observations: Array, x: Vector) -> Vector:
        return x[self.states(observations)]

    def total(self, observations: Array) -> Vector:
        return np.bincount(self.states(observations), minlength=self.dim).astype(np.float64)

    def buffer_of(self, record: Trajectory) -> Buffer:
        """The columns states, next_states, rewards and terminated of a record."""
        now, then = self.states(record.observations), self.states(record.next_observations)
        rest = {"rewards": record.rewards, "terminated": record.terminated}
        return Buffer(states=now, next_states=then, **rest, names=self.names)

    def problem_of(self, gamma: float) -> PolicyEvaluation:
        """The problem that reads those columns, with the identity for a table, kept sparse."""
        return PolicyEvaluation(gamma, table=eye_array(self.dim, format="csr"))

    def states(self, observations: Array) -> Positions:
        """The number of every observation, from 0 to dim − 1."""
        exact = observations.reshape(len(observations), len(self.sizes))
        exact = (exact.astype(np.int64) if exact.dtype.kind in "iub" else exact) - self.first
        places = exact.astype(np.int64)
        if (places != exact).any():
            raise InputError("discrete observations must be whole numbers")
        bad = np.flatnonzero(((places < 0) | (places >= self.sizes)).any(axis=1))
        if bad.size:
            raise InputError(f"the observation {observations[bad[0]]} is not in {self.space}")
        return np.asarray(np.ravel_multi_index(tuple(places.T), tuple(self.sizes)), dtype=np.int64)

    def rows(self, observations: Array) -> Matrix:
        return np.asarray(eye_array(self.dim, format="csr")[self.states(observations)].toarray())
