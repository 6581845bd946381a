"""The record's mean operator at a point, and how well the record knows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.problems import Problem
from multireplay.sets import Set

BATCHES = 32
FEWEST_BATCHES = 8
BATCH_NUMBERS = 2**22
"""Where the means of 32 batches would be more numbers than this, fewer batches are taken, but at least 8."""
WELL_BELOW = 0.1
"""A mean operator shorter than this share of its own standard error is noise: more passes would fit that."""


@dataclass(frozen=True)
class Residual:
    """The record's mean operator F̂(x) at a point, and what is left of it on the feasible set.

    Attributes
    ----------
    mean : ndarray
        F̂(x).
    size : float
        ‖x − Proj(x − F̂(x))‖, which is ‖F̂(x)‖ on the whole space.
    error : float
        Standard error of that residual under dependence, from 32 consecutive batches, or 8 for a very long x.
    """

    mean: Vector
    size: float
    error: float

    @property
    def is_noise(self) -> bool:
        """Whether it is well below its own standard error."""
        return self.size <= WELL_BELOW * self.error


@dataclass(frozen=True)
class Batches:
    """F̂ on each of up to 32 consecutive batches of the record, a row each, and their numbers of samples."""

    means: Vector
    sizes: NDArray[np.int64]

    @property
    def mean(self) -> Vector:
        """F̂ over the whole record."""
        return np.asarray(np.average(self.means, axis=0, weights=self.sizes))

    def spreads(self, images: Vector) -> Vector:
        """Standard errors by coordinate of the mean of these images of the batches."""
        if len(self.sizes) < 2:
            return np.full(images.shape[1], np.inf)
        return np.asarray(np.sqrt(images.var(axis=0, ddof=1) / len(self.sizes)))

    def spread(self, images: Vector) -> float:
        """The same in the Euclidean norm."""
        return float(np.linalg.norm(self.spreads(images)))


def batch_means(
    problem: Problem, columns: Columns, points: Vector, advanced: Callable[[int], object] = lambda rows: None
) -> list[Batches]:
    """F̂ at each of the points by batches, in one pass over the record in order; `advanced` is told the rows of each."""
    bounds = batch_bounds(row_count(columns), points.shape[1])
    means = []
    for start, stop in pairwise(bounds.tolist()):
        means.append(problem.mean_operators(points, {name: column[start:stop] for name, column in columns.items()}))
        advanced(stop - start)
    sizes = np.diff(bounds)
    return [Batches(np.array([batch[index] for batch in means]), sizes) for index in range(len(points))]


def batch_bounds(length: int, dim: int) -> NDArray[np.int64]:
    """Where the batches of a record of that length begin and end, for means of `dim` coordinates."""
    batches = min(BATCHES, length, max(FEWEST_BATCHES, BATCH_NUMBERS // dim))
    return np.linspace(0, length, batches + 1).astype(np.int64)


def residual_of(batches: Batches, feasible: Set, x: Vector) -> Residual:
    """What is left of F̂(x) on the feasible set, and its standard error."""
    left = x - feasible.projected(x - batches.mean)
    parts = np.array([x - feasible.projected(x - mean) for mean in batches.means])
    return Residual(batches.mean, float(np.linalg.norm(left)), batches.spread(parts))


def measure(problem: Problem, columns: Columns, feasible: Set, x: Vector) -> Residual:
    """F̂(x), what is left of it on the feasible set, and its standard error, in one pass over the record in order."""
    return residual_of(batch_means(problem, columns, x[None])[0], feasible, x)
