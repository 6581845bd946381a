"""Local features, active at one observation or near it: one-hot, tiles, and normalised radial functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import eye_array
from scipy.spatial import KDTree

from multireplay._check import Positions, Vector, whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.problems import PolicyEvaluation
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.spaces import Array, Bounds, Scaling, per_dimension, scaling_of, sizes_of, width_of

if TYPE_CHECKING:
    from multireplay.rl.trajectory import Trajectory

LOOKED_AT = 20_000
"""Observations, spread over the record, that centres are chosen from."""


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

    def constant(self, observations: Array) -> Vector:
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

    def states(self, observations: Array) -> Positions:
        """The number of every observation, from 0 to dim − 1."""
        exact = observations.reshape(len(observations), -1) - self.first
        places = exact.astype(np.int64)
        if (places != exact).any():
            raise InputError("discrete observations must be whole numbers")
        bad = np.flatnonzero(((places < 0) | (places >= self.sizes)).any(axis=1))
        if bad.size:
            raise InputError(f"the observation {observations[bad[0]]} is not in {self.space}")
        return np.asarray(np.ravel_multi_index(tuple(places.T), tuple(self.sizes)), dtype=np.int64)

    def rows(self, observations: Array) -> Matrix:
        return np.asarray(eye_array(self.dim, format="csr")[self.states(observations)].toarray())


@dataclass(frozen=True)
class TileCoding(Features):
    """One feature for every visited tile of several grids, each shifted by a part of a tile.

    An observation lies in one tile of each grid; those features are 1/√tilings, so that a row has length 1, and the
    rest are 0. Tiles that the record never visits have no feature. Grid t is shifted by t/tilings of a tile times 1,
    3, 5, … along the coordinates (Miller and Glanz 1996), so that the tiles' edges do not line up.

    Parameters
    ----------
    tilings : int
        Number of grids.
    tiles : int or tuple of int
        Tiles along every coordinate, within the range.
    bounds : (low, high), optional
        The range, if not the one that was visited.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("MountainCar-v0", "random", steps=2000, seed=0)
    >>> features = mr.rl.TileCoding(tilings=8, tiles=4).bind(record.observation_space, record.observations)
    >>> rows = features(record.observations)
    >>> (rows > 0).sum(axis=1)[:3], (rows**2).sum(axis=1)[:3].round(6)
    (array([8, 8, 8]), array([1., 1., 1.]))
    """

    tilings: int = 8
    tiles: int | tuple[int, ...] = 8
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole_number("tilings", self.tilings, least=1)
        if not isinstance(self.tiles, tuple | list):
            whole_number("tiles", self.tiles, least=1)

    def bind(self, space: Any, observations: Array) -> BoundTiles:
        if not len(observations):
            raise InputError("tiles are those that observations lie in, and there are none")
        sides = np.array(per_dimension("tiles", self.tiles, width_of(space), least=1))
        if self.tilings * np.prod(sides + 1.0) >= 2**62:
            raise InputError(f"{self!r} has too many tiles of {len(sides)} numbers to count; use fewer tiles")
        scaling = scaling_of(space, observations, self.bounds)
        bound = BoundTiles(space, scaling, sides, self.tilings, observations)
        refuse_many(self, bound.dim, space, "use fewer tiles")
        return bound


class BoundTiles(BoundFeatures):
    """All tiles of all grids, numbered, and a feature for every one in ``used``: those that were visited."""

    kind = "tile"

    def __init__(self, space: Any, scaling: Scaling, sides: Positions, tilings: int, visited: Array) -> None:
        self.space, self.scaling, self.sides, self.tilings = space, scaling, sides, tilings
        self.used = np.unique(self.tiles_of(visited))
        self.dim = len(self.used)
        self.ones = np.full(self.dim, 1 / np.sqrt(tilings))

    def tiles_of(self, observations: Array) -> Positions:
        """The number of the tile of every grid that an observation lies in: (n, tilings)."""
        units = self.scaling.clipped(observations) * self.sides
        shape = tuple(self.sides + 1)
        each = int(np.prod(shape))
        shifts = np.arange(1, 2 * len(self.sides), 2)
        found = np.empty((len(units), self.tilings), dtype=np.int64)
        for tiling in range(self.tilings):
            places = np.floor(units + (tiling * shifts / self.tilings) % 1.0).astype(np.int64)
            places = np.minimum(places, self.sides - (tiling == 0))  # the upper edge belongs to the last tile
            found[:, tiling] = np.ravel_multi_index(tuple(places.T), shape) + tiling * each
        return found

    def rows(self, observations: Array) -> Matrix:
        tiles = self.tiles_of(observations)
        places = np.minimum(np.searchsorted(self.used, tiles), self.dim - 1)
        row, tiling = np.nonzero(self.used[places] == tiles)
        values = np.zeros((len(tiles), self.dim))
        values[row, places[row, tiling]] = 1 / np.sqrt(self.tilings)
        return values


@dataclass(frozen=True)
class RBF(Features):
    """ψ_i(s) in proportion to exp(−‖s − c_i‖²/2w²), and adding up to 1 (normalised radial basis functions).

    Distances are in units of the range that was visited. A constant is among what they can show, since they add up
    to 1; the same makes them far better conditioned than plain radial functions.

    Parameters
    ----------
    centres : int or tuple of int
        An int is that many centres in all, spread over the visited observations so that each next one is the
        farthest from those before. A tuple is a grid, with that many along every coordinate.
    width : float
        w, as a multiple of the mean distance of a centre from its nearest neighbour. Wider ones are smoother, and
        worse conditioned: 1.0 makes it 20 to 50 times worse than 0.75.
    bounds : (low, high), optional
        The range to scale by, if not the one that was visited.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("MountainCar-v0", "random", steps=2000, seed=0)
    >>> features = mr.rl.RBF(30).bind(record.observation_space, record.observations)
    >>> rows = features(record.observations)
    >>> rows.shape, rows.sum(axis=1)[:3]
    ((2000, 30), array([1., 1., 1.]))
    >>> mr.rl.RBF((8, 6)).bind(record.observation_space, record.observations).dim
    48
    """

    centres: int | tuple[int, ...] = 100
    width: float = 0.75
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.centres, tuple | list):
            whole_number("centres", self.centres, least=2)
        if not isinstance(self.width, int | float | np.number) or not 0 < self.width < np.inf:
            raise InputError(f"width must be a positive number, not {self.width!r}")

    def bind(self, space: Any, observations: Array) -> BoundRBF:
        scaling = scaling_of(space, observations, self.bounds)
        if isinstance(self.centres, tuple | list):
            counts = per_dimension("centres", self.centres, width_of(space), least=1)
            refuse_many(self, float(prod(counts)), space, "use fewer, or centres=100 for 100 in all")
            centres = np.array(list(product(*(np.linspace(0, 1, n) if n > 1 else [0.5] for n in counts))))
        else:
            centres = covering(scaling.unit(observations), self.centres)
        return BoundRBF(space, scaling, centres, self.width)


class BoundRBF(BoundFeatures):
    """Normalised radial functions around given centres."""

    kind = "RBF"

    def __init__(self, space: Any, scaling: Scaling, centres: Vector, width: float) -> None:
        self.space, self.scaling, self.centres = space, scaling, centres
        self.dim, self.ones = len(centres), np.ones(len(centres))
        nearest = KDTree(centres).query(centres, k=2)[0][:, 1] if len(centres) > 1 else np.ones(1)
        self.width = width * float(nearest.mean())

    def rows(self, observations: Array) -> Matrix:
        units = self.scaling.unit(observations)
        squares = (units**2).sum(axis=1)[:, None] - 2 * units @ self.centres.T + (self.centres**2).sum(axis=1)
        squares -= squares.min(axis=1, keepdims=True)  # far from all centres, the nearest one takes it
        squares *= -0.5 / self.width**2
        values = np.exp(squares, out=squares)
        return np.asarray(np.divide(values, values.sum(axis=1, keepdims=True), out=values))


def covering(units: Vector, count: int) -> Vector:
    """Up to `count` of these points, each next one the farthest from those before; fewer if there are fewer."""
    if not len(units):
        raise InputError("centres are chosen from observations, and there are none; give a grid such as RBF((8, 8))")
    points = units[:: max(1, len(units) // LOOKED_AT)]
    distances = ((points - np.median(points, axis=0)) ** 2).sum(axis=1)
    chosen = [int(distances.argmin())]
    distances = np.full(len(points), np.inf)
    for _ in range(count - 1):
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        farthest = int(distances.argmax())
        if not distances[farthest] > 0:
            break
        chosen.append(farthest)
    return np.asarray(points[chosen])
