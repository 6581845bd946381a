"""What a problem over batches is: F̃ on many rows at once, on arrays of any library, where they lie."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.foreign import (
    Array,
    ForeignColumn,
    Namespace,
    array_of,
    as_numpy,
    block_bytes,
    describe,
    like,
    multiplies_halves,
    numpy_type,
    rows_of,
)
from multireplay.errors import InputError
from multireplay.problems.base import Problem, picked


class OverBatches(Problem):
    """A problem whose operator takes a row of X and a row of the record for every lane.

    It is F̃ = spread(residuals), in two parts because the residuals of a regression are one number a lane: they are
    what a step is multiplied with, and what is watched for divergence. The columns stay where they lie.
    """

    xp: Namespace
    home: Array
    """Some row of the record, which tells where the columns lie."""
    plain: Problem
    """The problem it was made of, on NumPy arrays, for what is not worked out in batches."""

    @abstractmethod
    def residuals(self, X: Array, batch: Any) -> Array:
        """What F̃ is made of: an array of shape (lanes,) or (lanes, dim)."""

    @abstractmethod
    def spread(self, residuals: Array, batch: Any) -> Array:
        """F̃, or a multiple of it, from residuals or a multiple of them: an array of shape (lanes, dim)."""

    @abstractmethod
    def stretch_sums(self, points: Vector, columns: Columns, bounds: Positions) -> Vector: ...

    def pull(self, X: Array) -> Array | None:
        """The part of F̃ that is the same on every sample: λX of a ridge, None without one."""
        return None

    on_host = False
    is_slow = False

    @property
    def block_bytes(self) -> int:  # type: ignore[override]
        return block_bytes(self.home)

    @property
    def quick_products(self) -> bool:  # type: ignore[override]
        return multiplies_halves(self.home)

    def evaluable(self, x: Vector) -> Vector:
        return x.astype(numpy_type(self.home)).astype(np.float64)

    def column(self, buffer: Buffer, name: str) -> Any:
        return ForeignColumn(buffer[name])

    def check(self, columns: Columns) -> None:
        given = {name: array_of(column) for name, column in columns.items()}
        first, array = next(iter(given.items()))
        for name, other in given.items():
            if describe(other) != describe(array):
                raise InputError(
                    f"column {first!r} is an array of {describe(array)} and {name!r} of {describe(other)}; "
                    "all columns of a problem need one library and one device"
                )
        narrow = {
            name: (self.xp.astype(given[name], self.xp.float32) if column.dtype == np.bool_ else given[name])
            if column.ndim == 1
            else np.broadcast_to(np.zeros((), column.dtype), column.shape)
            for name, column in columns.items()
        }
        super().check(narrow)  # what it has to say on columns of rows is about their shapes and types

    def fit_exactly(self, buffer: Buffer, ridge: float = 0.0) -> Vector:
        return self.plain.fit_exactly(buffer, ridge)

    def operator(self, x: Vector, samples: Any, row: int) -> Vector:
        batch = part_of(samples, slice(row, row + 1))
        X = like(x[None, :], batch[0])
        value, pull = self.spread(self.residuals(X, batch), batch), self.pull(X)
        return np.asarray(as_numpy(value if pull is None else value + pull)[0], dtype=np.float64)

    def operator_sums(self, points: Vector, columns: Columns) -> Vector:
        return np.asarray(self.stretch_sums(points, columns, np.array([0, row_count(columns)]))[0])

    def energies(
        self, x: Vector, columns: Columns, starts: Positions, which: Positions | None = None
    ) -> tuple[Vector, Vector]:
        batch, count = self.samples(columns), row_count(columns)
        X = like(np.tile(x, (count, 1)), batch[0])
        squares = (as_numpy(self.spread(self.residuals(X, batch), batch)).astype(np.float64) ** 2).sum(axis=0)
        energies = np.ones((count, len(x)))
        if "features" in columns:
            energies = as_numpy(array_of(columns["features"])).astype(np.float64) ** 2
            if "weights" in columns:
                energies = energies * as_numpy(array_of(columns["weights"]))[:, None]
        return picked(squares, which), picked(np.add.reduceat(energies, starts, axis=0), which)

    def response(self, scores: Vector) -> Vector:
        return self.plain.response(scores)

    def operator_along(self, x: Vector, directions: Vector, columns: Columns) -> Vector:
        batch = self.samples(columns)
        X = self.xp.broadcast_to(like(x, batch[0]), (row_count(columns), len(x)))
        return as_numpy(self.spread(self.residuals(X, batch), batch) @ like(directions, batch[0])).astype(np.float64)

    def mean_operator(self, x: Vector, columns: Columns) -> Vector:
        mean = self.operator_sums(x[None, :], columns)[0] / row_count(columns)
        return np.asarray(mean + self.penalty_diagonal(len(x)) * x)


def part_of(samples: Any, rows: slice) -> Any:
    """Consecutive rows of packed samples."""
    return type(samples)(*(rows_of(field, rows) if hasattr(field, "shape") else field for field in samples))
