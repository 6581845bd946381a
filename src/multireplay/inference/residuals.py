"""The record's mean operator at a point, and how well the record knows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.record import MemoryRecord, Record
from multireplay.engine.sums import Batches, Folding, operator_batches
from multireplay.problems import Problem
from multireplay.sets import Set, WholeSpace

WELL_BELOW = 0.1
"""A mean operator shorter than this share of its own standard error is noise: more passes would fit that."""


@dataclass(frozen=True)
class Residual:
    """The record's mean operator F̂(x) at a point, and what is left of it on the feasible set."""

    mean: Vector
    size: float
    """‖x − Proj(x − F̂(x))‖, which is ‖F̂(x)‖ on the whole space."""
    error: float
    """Standard error of that residual under dependence, from 32 consecutive batches, or 8 for a very long x."""

    @property
    def is_noise(self) -> bool:
        """Whether it is well below its own standard error."""
        return self.size <= WELL_BELOW * self.error


def standard_errors(images: Vector) -> Vector:
    """Standard errors by coordinate of the mean of these images of the batches, a row each; NaN of a single one."""
    if len(images) < 2:
        return np.full(images.shape[1], np.nan)
    return np.asarray(np.sqrt(images.var(axis=0, ddof=1) / len(images)))


ROUNDING = 1e-10
"""A move below this share of the point itself is rounding: there is nothing left where a record has no noise."""


def distance_of(move: Vector, error: Vector, x: Vector, scale: Vector) -> float:
    """The largest |move| by coordinate in its standard errors; 0 where it is rounding, or the error infinite.

    What is rounding depends on all coordinates together, in units of `scale`, in which they are of one size.
    """
    if not np.isfinite(move).all():
        return np.inf
    rounding = ROUNDING * scale * np.abs(x / scale).max(initial=0.0)
    known = ~np.isinf(error) & (np.abs(move) > rounding)
    with np.errstate(divide="ignore"):
        return float(np.nan_to_num(np.abs(move[known]) / error[known], nan=np.inf).max(initial=0.0))


def standard_error_of_length(images: Vector) -> float:
    """Standard error of the mean of these images of the batches, in the Euclidean norm."""
    return float(np.linalg.norm(standard_errors(images)))


def residual_of(batches: Batches, feasible: Set, x: Vector) -> Residual:
    """What is left of F̂(x) on the feasible set, and its standard error."""
    left, parts = batches.mean, batches.means
    if not isinstance(feasible, WholeSpace):
        left = x - feasible.projected(x - left)
        parts = np.array([x - feasible.projected(x - mean) for mean in parts])
    return Residual(batches.mean, float(np.linalg.norm(left)), standard_error_of_length(parts))


def residual_at(record: Record, feasible: Set, x: Vector, threads: int = 1) -> Residual:
    """F̂(x), what is left of it on the feasible set, and its standard error, in one pass over the record in order."""
    return residual_of(operator_batches(record, [x], Folding(threads))[0], feasible, x)


def measure(problem: Problem, columns: Columns, feasible: Set, x: Vector) -> Residual:
    """F̂(x) of some rows in memory, as `residual_at` gives it for a record."""
    return residual_at(MemoryRecord(problem, columns), feasible, x)
