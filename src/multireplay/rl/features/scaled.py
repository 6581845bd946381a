"""Features of the scaled observation: cosines, polynomials, and normalised radial functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from multireplay._check import Positions, Vector, whole_number
from multireplay.errors import InputError
from multireplay.rl.coding import stored
from multireplay.rl.features.base import ROWS_EACH, SPELT, BoundFeatures, Features, Matrix, refuse_many, room_for
from multireplay.rl.spaces import Array, Bounds, Scaling, per_dimension, scaling_of, some_of, width_of

HIGHEST = 3
"""Order and degree where there is room for it."""
CENTRES = 100
PLACED = 2
"""Numbers of a centre that are in the name of its feature."""
LOOKED_AT = 20_000
"""Observations, spread over the record, that centres are chosen from."""


def _highest(count: Callable[[int], float], room: int) -> int:
    """The highest of 3, 2 and 1 for which there is room; 0 if there is for none."""
    return next((order for order in range(HIGHEST, 0, -1) if count(order) <= room), 0)


def _why(chosen: int, room: int) -> str:
    """Why it is not the highest."""
    return f", for at most {room}" if chosen < HIGHEST else ""


@dataclass(frozen=True)
class Fourier(Features):
    """cos(π⟨c, s⟩) for every c in {0, …, order}^width, with s scaled to [0, 1] (Konidaris, Osentoski and Thomas 2011).

    (order + 1)^width features, the first of them the constant 1.

    Parameters
    ----------
    order : int, optional
        The highest frequency along a coordinate. By default the highest of 3, 2 and 1 that makes no more than 2000
        features, nor more than one for ten observations; where none does, 3 with one coordinate at a time.
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

    order: int | None = None
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.order is not None:
            whole_number("order", self.order, least=0)

    def bind(self, space: Any, observations: Array) -> BoundFourier:
        space = stored(space)
        width, room = width_of(space), room_for(observations)
        order = _highest(lambda order: (order + 1.0) ** width, room) if self.order is None else self.order
        chosen = f"order {order}{_why(order, room)}" if self.order is None else ""
        if order or self.order == 0:
            refuse_many(self, (order + 1.0) ** width, space, "use a lower order, or RBF(100) for 100 in all")
            frequencies = np.array(list(product(range(order + 1), repeat=width)), dtype=np.int64)
        else:
            chosen = f"order {HIGHEST} in one coordinate at a time, for at most {room}"
            refuse_many(self, 1 + HIGHEST * width, space, "RBF(100) makes 100 in all")
            each = np.eye(width, dtype=np.int64)
            frequencies = np.vstack([0 * each[:1], *(order * each for order in range(1, HIGHEST + 1))])
        return BoundFourier(space, scaling_of(space, observations, self.bounds), frequencies, chosen)


class BoundBasis(BoundFeatures):
    """A function for each row of whole numbers, one of them a coordinate; the first row is 0, and its function 1."""

    def __init__(self, space: Any, scaling: Scaling, powers: Positions, chosen: str) -> None:
        self.space, self.scaling, self.powers, self.chosen = space, scaling, powers, chosen
        self.dim = len(powers)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of a function of few numbers s0, s1, … of the observation spell it out."""
        named = (
            (number, [(int(row[i]), f"s{i}") for i in np.flatnonzero(row)]) for number, row in enumerate(self.powers)
        )
        return tuple(
            "constant" if not parts else f"{self.kind} {number}" if len(parts) > SPELT else self._spelt(parts)
            for number, parts in named
        )

    def _spelt(self, parts: list[tuple[int, str]]) -> str:
        """The function of these whole numbers and coordinates."""
        raise NotImplementedError


class BoundFourier(BoundBasis):
    """Cosines of given frequencies."""

    kind = "Fourier"

    def _spelt(self, parts: list[tuple[int, str]]) -> str:
        return f"cos π({' + '.join(name if factor == 1 else f'{factor}·{name}' for factor, name in parts)})"

    def rows(self, observations: Array) -> Matrix:
        return np.cos(np.pi * self.scaling.clipped(observations) @ self.powers.T)


@dataclass(frozen=True)
class Polynomial(Features):
    """All polynomials up to a total degree, as products of Legendre polynomials of the coordinates on [−1, 1].

    They can show the same functions as the monomials 1, s_1, s_2, s_1 s_2, …, from which a step method learns badly
    because they are so alike. binom(width + degree, degree) features, none beyond ±1, the first the constant 1.

    Parameters
    ----------
    degree : int, optional
        The highest total degree. By default the highest of 3, 2 and 1 that makes no more than 2000 features, nor more
        than one for ten observations; 1 where none does.
    bounds : (low, high), optional
        The range that is scaled to [−1, 1], if not the one that was visited; what is outside is moved to its border.

    Examples
    --------
    >>> import multireplay as mr
    >>> record = mr.rl.collect("CartPole-v1", "random", steps=500, seed=0)
    >>> mr.rl.Polynomial(2).bind(record.observation_space, record.observations).dim
    15
    """

    degree: int | None = None
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.degree is not None:
            whole_number("degree", self.degree, least=0)

    def bind(self, space: Any, observations: Array) -> BoundPolynomial:
        space = stored(space)
        width, room, degree, chosen = width_of(space), room_for(observations), self.degree, ""
        if degree is None:
            degree = max(1, _highest(lambda degree: comb(width + degree, degree), room))
            chosen = f"degree {degree}{_why(degree, room)}"
        refuse_many(self, comb(width + degree, degree), space, "use a lower degree, or RBF")
        factors = combinations_with_replacement(range(width + 1), degree)  # the last stands for no coordinate
        powers = sorted(([one.count(i) for i in range(width)] for one in factors), key=lambda row: (sum(row), row))
        return BoundPolynomial(space, scaling_of(space, observations, self.bounds), np.array(powers), chosen)


class BoundPolynomial(BoundBasis):
    """Products of Legendre polynomials, as they are: scaled to mean square 1, the rows in corners are far too long."""

    kind = "polynomial"

    def _spelt(self, parts: list[tuple[int, str]]) -> str:
        return "·".join(f"P{degree}({name})" for degree, name in parts)

    def rows(self, observations: Array) -> Matrix:
        units = 2 * self.scaling.clipped(observations) - 1
        degree = int(self.powers.max())
        ladder = np.polynomial.legendre.legvander(units, degree)
        values = np.ones((len(units), self.dim))
        for coordinate in range(units.shape[1]):
            values *= ladder[:, coordinate, self.powers[:, coordinate]]
        return values


@dataclass(frozen=True)
class RBF(Features):
    """ψ_i(s) in proportion to exp(−‖s − c_i‖²/2w²), and adding up to 1 (normalised radial basis functions).

    Distances are in units of the range that was visited. A constant is among what they can show, since they add up
    to 1; the same makes them far better conditioned than plain radial functions.

    Parameters
    ----------
    centres : int or tuple of int, optional
        An int is that many centres in all, spread over the visited observations so that each next one is the
        farthest from those before. A tuple is a grid, with that many along every coordinate. By default 100 in all, or
        one for ten observations where that is fewer.
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

    centres: int | tuple[int, ...] | None = None
    width: float = 0.75
    bounds: Bounds = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.centres, tuple | list | None):
            whole_number("centres", self.centres, least=2)
        if not isinstance(self.width, int | float | np.number) or not 0 < self.width < np.inf:
            raise InputError(f"width must be a positive number, not {self.width!r}")

    def bind(self, space: Any, observations: Array) -> BoundRBF:
        space = stored(space)
        scaling, count = scaling_of(space, observations, self.bounds), self.centres
        if count is None:
            count = min(CENTRES, max(2, room_for(observations)))
        if isinstance(count, tuple | list):
            counts = per_dimension("centres", count, width_of(space))
            refuse_many(self, float(prod(counts)), space, "use fewer, or centres=100 for 100 in all")
            centres = np.array(list(product(*(np.linspace(0, 1, n) if n > 1 else [0.5] for n in counts))))
        else:
            centres = covering(scaling.unit(some_of(observations, LOOKED_AT)), count)
        bound = BoundRBF(space, scaling, centres, self.width)
        if self.centres is None and bound.dim < CENTRES:
            bound.chosen = f"one for {ROWS_EACH} observations"
        return bound


class BoundRBF(BoundFeatures):
    """Normalised radial functions around given centres."""

    kind = "RBF"

    def __init__(self, space: Any, scaling: Scaling, centres: Vector, width: float) -> None:
        self.space, self.scaling, self.centres = space, scaling, centres
        self.dim = len(centres)
        nearest = KDTree(centres).query(centres, k=2)[0][:, 1] if len(centres) > 1 else np.ones(1)
        self.width = width * float(nearest.mean())

    @property
    def names(self) -> tuple[str, ...]:
        """With where the centre is, in units of the observation."""
        low, size = self.scaling.low[:PLACED], (self.scaling.high - self.scaling.low)[:PLACED]
        more = ", …" * (self.centres.shape[1] > PLACED)
        return tuple(
            f"RBF {number} ({', '.join(f'{value:.2g}' for value in centre)}{more})"
            for number, centre in enumerate((low + self.centres[:, :PLACED] * size).tolist())
        )

    def rows(self, observations: Array) -> Matrix:
        units = self.scaling.unit(observations)
        squares = (units**2).sum(axis=1)[:, None] - 2 * units @ self.centres.T + (self.centres**2).sum(axis=1)
        squares -= squares.min(axis=1, keepdims=True)  # far from all centres, the nearest one takes it
        squares *= -0.5 / self.width**2
        values = np.exp(squares, out=squares)
        return np.asarray(np.divide(values, values.sum(axis=1, keepdims=True), out=values))


def covering(points: Vector, count: int) -> Vector:
    """Up to `count` of these points, each next one the farthest from those before; fewer if there are fewer."""
    if not len(points):
        raise InputError("centres are chosen from observations, and there are none; give a grid such as RBF((8, 8))")
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
