"""Global bases: cosines and polynomials of the scaled observation."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any

import numpy as np

from multireplay._check import Positions, whole_number
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.spaces import Array, Bounds, Scaling, scaling_of, width_of


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
