"""Tile coding: several shifted grids, and one feature for every tile that was visited."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import whole_number
from multireplay.errors import InputError
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.features.scaling import Bounds, Scaling, per_dimension, scaling_of
from multireplay.rl.spaces import Array, width_of

Integers = NDArray[np.int64]


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
        grid = Grid(scaling_of(space, observations, self.bounds), sides, self.tilings)
        used = np.unique(grid.tiles_of(observations))
        refuse_many(self, len(used), space, "use fewer tiles")
        return BoundTiles(space, grid, used)


@dataclass(frozen=True, eq=False)
class Grid:
    """All tiles of all grids, numbered."""

    scaling: Scaling
    sides: Integers
    tilings: int

    def tiles_of(self, observations: Array) -> Integers:
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


class BoundTiles(BoundFeatures):
    """A feature for every tile in ``used``."""

    kind = "tile"

    def __init__(self, space: Any, grid: Grid, used: Integers) -> None:
        self.space, self.grid, self.used = space, grid, used
        self.dim = len(used)

    def constant(self, observations: Array) -> NDArray[np.float64]:
        return np.full(self.dim, 1 / np.sqrt(self.grid.tilings))

    def rows(self, observations: Array) -> Matrix:
        tiles = self.grid.tiles_of(observations)
        places = np.minimum(np.searchsorted(self.used, tiles), self.dim - 1)
        row, tiling = np.nonzero(self.used[places] == tiles)
        values = np.zeros((len(tiles), self.dim))
        values[row, places[row, tiling]] = 1 / np.sqrt(self.grid.tilings)
        return values
