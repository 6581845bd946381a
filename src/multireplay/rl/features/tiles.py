"""Tile coding: grids over the scaled observation, each shifted a little, with a feature for every visited tile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from multireplay._check import Positions, Vector, whole_number
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError
from multireplay.rl.coding import stored
from multireplay.rl.features.base import SPELT, BoundFeatures, Features, Matrix, refuse_many, room_for
from multireplay.rl.spaces import Array, Bounds, Scaling, per_dimension, scaling_of, width_of

if TYPE_CHECKING:
    from multireplay.rl.trajectory import Trajectory

MOST_TILES = 8
"""Tiles along a coordinate where there is room for them."""


@dataclass(frozen=True)
class TileCoding(Features):
    """One feature for every visited tile of several grids, each shifted by a part of a tile.

    An observation lies in one tile of each grid; those features are 1/√tilings, so that a row has length 1, and the
    rest are 0; the columns of a buffer are kept sparse. Tiles that the record never visits have no feature. Grid t is
    shifted by t/tilings of a tile times 1, 3, 5, … along the coordinates (Miller and Glanz 1996), so that the tiles'
    edges do not line up.

    Parameters
    ----------
    tilings : int
        Number of grids.
    tiles : int or tuple of int, optional
        Tiles along every coordinate, within the range. By default as many as make no more than 2000 features, nor more
        than one for ten observations, and at most 8.
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
    tiles: int | tuple[int, ...] | None = None
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole_number("tilings", self.tilings, least=1)
        if not isinstance(self.tiles, tuple | list | None):
            whole_number("tiles", self.tiles, least=1)

    def bind(self, space: Any, observations: Array) -> BoundTiles:
        if not len(observations):
            raise InputError("tiles are those that observations lie in, and there are none")
        space = stored(space)
        scaling, room = scaling_of(space, observations, self.bounds), room_for(observations)
        for tiles in [self.tiles] if self.tiles is not None else range(MOST_TILES, 0, -1):
            sides = np.array(per_dimension("tiles", tiles, width_of(space)))
            if self.tilings * np.prod(sides + 1.0) >= 2**62:
                continue
            bound = BoundTiles(space, scaling, sides, self.tilings, observations)
            if self.tiles is not None:
                refuse_many(self, bound.dim, space, "use fewer tiles")
                return bound
            if bound.dim <= room:
                fewer = f", for at most {room}" if isinstance(tiles, int) and tiles < MOST_TILES else ""
                bound.chosen = f"{self.tilings} grids with {tiles} a side{fewer}"
                return bound
        raise InputError(
            f"{self!r} makes too many tiles of {width_of(space)} numbers an observation and {len(observations)} "
            "observations; use fewer tiles, or RBF(100) for 100 features in all"
        )


class BoundTiles(BoundFeatures):
    """All tiles of all grids, numbered, and a feature for every one in ``used``: those that were visited."""

    kind = "tile"

    def __init__(self, space: Any, scaling: Scaling, sides: Positions, tilings: int, visited: Array) -> None:
        self.space, self.scaling, self.sides, self.tilings = space, scaling, sides, tilings
        self.used = np.unique(self.tiles_of(visited))
        self.dim = len(self.used)

    @property
    def names(self) -> tuple[str, ...]:
        shape = tuple(self.sides + 1)
        grid, tile = np.divmod(self.used, int(np.prod(shape)))
        places = tile[:, None] if len(shape) > SPELT else np.column_stack(np.unravel_index(tile, shape))
        return tuple(
            f"grid {number} tile {place[0] if len(place) == 1 else tuple(place)}"
            for number, place in zip(grid.tolist(), places.tolist(), strict=True)
        )

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
        return np.asarray(self.sparse(observations).toarray())

    def values(self, observations: Array, x: Vector) -> Vector:
        return np.asarray(self.sparse(observations) @ x)

    def total(self, observations: Array) -> Vector:
        return np.asarray(self.sparse(observations).sum(axis=0)).ravel()

    def buffer_of(self, record: Trajectory) -> Buffer:
        """The columns features, next_features, rewards and terminated of a record, the first two sparse."""
        now, then = self.sparse(record.observations), self.sparse(record.next_observations)
        rest = {"rewards": record.rewards, "terminated": record.terminated}
        return Buffer(features=now, next_features=then, **rest, names=self.names)

    def sparse(self, observations: Array) -> csr_array:
        """ψ as a sparse matrix: as many numbers a row as there are grids."""
        tiles = self.tiles_of(observations)
        places = np.minimum(np.searchsorted(self.used, tiles), self.dim - 1)
        row, tiling = np.nonzero(self.used[places] == tiles)
        ones = np.full(len(row), 1 / np.sqrt(self.tilings))
        return csr_array((ones, (row, places[row, tiling])), shape=(len(tiles), self.dim))
