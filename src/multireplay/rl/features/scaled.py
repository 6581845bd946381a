"""Features of the scaled observation: cosines, polynomials, tiles, and normalised radial functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from multireplay._check import Positions, Vector, whole_number
from multireplay.errors import InputError
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.spaces import Array, Bounds, Scaling, per_dimension, scaling_of, width_of

LOOKED_AT = 20_000
"""Observations, spread over the record, that centres are chosen from."""


@dataclass(frozen=True)
class Fourier(Features):
    """cos(π⟨c, s⟩) for every c in {0, …, order}^width, with s scaled to [0, 1] (Konidaris, Osentoski and Thomas 2011).

    (order + 1)^width features, the first of them the constant 1.

    Parameters
    ----------
    order : int
        The highest frequency along a coordinate.
    bounds : (low, high), optional
        The range that is scaled to [0, 1], if not the one that was visited; what is outside is moved to its border.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("MountainCar-v0", "random", steps=500, seed=0)
    >>> features = mr.rl.Fourier(3).bind(record.observation_space, record.observations)
    >>> features.dim, features(record.observations)[:2, 0]
    (16, array([1., 1.]))
    """

    order: int = 3
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole_number("order", self.order, least=0)

    def bind(self, space: Any, observations: Array) -> BoundFourier:
        width = width_of(space)
        refuse_many(self, float(self.order + 1) ** width, space, "use a lower order, or RBF(100) for 100 in all")
        frequencies = np.array(list(product(range(self.order + 1), repeat=width)), dtype=np.int64)
        return BoundFourier(space, scaling_of(space, observations, self.bounds), frequencies)


class BoundBasis(BoundFeatures):
    """A function for each row of whole numbers, one of them a coordinate; the first row is 0, and its function 1."""

    def __init__(self, space: Any, scaling: Scaling, powers: Positions) -> None:
        self.space, self.scaling, self.powers = space, scaling, powers
        self.dim, self.ones = len(powers), np.eye(1, len(powers))[0]


class BoundFourier(BoundBasis):
    """Cosines of given frequencies."""

    kind = "Fourier"

    def rows(self, observations: Array) -> Matrix:
        return np.cos(np.pi * self.scaling.clipped(observations) @ self.powers.T)


@dataclass(frozen=True)
class Polynomial(Features):
    """All polynomials up to a total degree, as products of Legendre polynomials of the coordinates on [−1, 1].

    They can show the same functions as the monomials 1, s_1, s_2, s_1 s_2, …, from which a step method learns badly
    because they are so alike. binom(width + degree, degree) features, none beyond ±1, the first the constant 1.

    Parameters
    ----------
    degree : int
        The highest total degree.
    bounds : (low, high), optional
        The range that is scaled to [−1, 1], if not the one that was visited; what is outside is moved to its border.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("CartPole-v1", "random", steps=500, seed=0)
    >>> mr.rl.Polynomial(2).bind(record.observation_space, record.observations).dim
    15
    """

    degree: int = 3
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole_number("degree", self.degree, least=0)

    def bind(self, space: Any, observations: Array) -> BoundPolynomial:
        width = width_of(space)
        refuse_many(self, comb(width + self.degree, self.degree), space, "use a lower degree")
        chosen = combinations_with_replacement(range(width + 1), self.degree)  # the last stands for no coordinate
        powers = sorted(([one.count(i) for i in range(width)] for one in chosen), key=lambda row: (sum(row), row))
        return BoundPolynomial(space, scaling_of(space, observations, self.bounds), np.array(powers))


class BoundPolynomial(BoundBasis):
    """Products of Legendre polynomials, as they are: scaled to mean square 1, the rows in corners are far too long."""

    kind = "polynomial"

    def rows(self, observations: Array) -> Matrix:
        units = 2 * self.scaling.clipped(observations) - 1
        degree = int(self.powers.max())
        ladder = np.polynomial.legendre.legvander(units, degree)
        values = np.ones((len(units), self.dim))
        for coordinate in range(units.shape[1]):
            values *= ladder[:, coordinate, self.powers[:, coordinate]]
        return values


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
