"""Radial features: every observation is shared out among centres, the nearer the more."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from multireplay._check import Vector, whole_number
from multireplay.errors import InputError
from multireplay.rl.features.base import BoundFeatures, Features, Matrix, refuse_many
from multireplay.rl.features.scaling import Bounds, Scaling, per_dimension, scaling_of
from multireplay.rl.spaces import Array, width_of

LOOKED_AT = 20_000
"""Observations, spread over the record, that centres are chosen from."""


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
            refuse_many(
                self, float(np.prod(counts, dtype=np.float64)), space, "use fewer, or centres=100 for 100 in all"
            )
            centres = np.array(list(product(*(np.linspace(0, 1, n) if n > 1 else [0.5] for n in counts))))
        else:
            centres = covering(scaling.unit(observations), self.centres)
        return BoundRBF(space, scaling, centres, self.width)


class BoundRBF(BoundFeatures):
    """Normalised radial functions around given centres."""

    kind = "RBF"

    def __init__(self, space: Any, scaling: Scaling, centres: Vector, width: float) -> None:
        self.space, self.scaling, self.centres = space, scaling, centres
        self.dim = len(centres)
        nearest = KDTree(centres).query(centres, k=2)[0][:, 1] if len(centres) > 1 else np.ones(1)
        self.width = width * float(nearest.mean())

    def constant(self, observations: Array) -> Vector:
        return np.ones(self.dim)

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
