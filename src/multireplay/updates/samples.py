"""Rows spread evenly over a record, in units in which their features are of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.foreign import Array, ForeignColumn, array_of, as_numpy
from multireplay.buffer.record import MemoryRecord, Record, spread_rows
from multireplay.problems.base import Problem
from multireplay.problems.residual import refuse_overflow
from multireplay.updates.inverse import mean_there
from multireplay.updates.slope import Slope

COARSE = 2**13
"""Samples of a coarse epoch, unless there are many coordinates."""
STEPS, CLOSE = 30, 0.3
"""Steps of L-BFGS on the samples, and the share of a mean gradient's noise at which they end."""
SHORTEST = 1e-4
"""A Newton step is not halved below this share of it."""
ELSEWHERE = 2**16
"""So many of the samples on a device are enough to see a Jacobian change."""
ALIKE = 16.0
"""Dense features stay as they are where their sizes are between this and its inverse."""
PART, CACHED, AT_HAND = 2**11, 2**20, 2**18
"""Rows that are worked on at once, numbers, so that they stay in the cache, and numbers that are copied at a time."""
THREADED = 2**20
"""Numbers from which on a second thread is worth starting."""
SMALL = 1e-30
"""Mean squares from this to its inverse are safe in single precision."""


class Samples:
    """The samples of a coarse epoch, as functions of z = x / scale.

    Dense features are brought to one precision, and to these units if they are far from them; otherwise, and where they
    are of other kinds, they stay as they are, and what is made of them is brought there by `units`.
    """

    def __init__(self, problem: Problem, columns: Columns, squares: Vector, precision: Any) -> None:
        self.problem, self.columns, self.never = problem, columns, int((squares == 0).sum())
        self.scale: Vector = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
        self.penalty = problem.penalty_diagonal(len(self.scale)) * self.scale**2
        dense = isinstance(self.features, np.ndarray | ForeignColumn)
        self.precision: Any = precision if dense else np.float64
        stays = bool(((self.scale > 1 / ALIKE) & (self.scale < ALIKE)).all())
        self.units = self.scale if stays or not dense else np.ones_like(self.scale)
        self.count, self.rough = row_count(columns), False
        if dense:
            by = self.scale / self.units
            self.columns = {name: _in_units(column, by, precision) for name, column in columns.items()}

    @classmethod
    def spread(cls, record: Record, count: int, precision: Any) -> Samples:
        """So many rows of a record. `never` features are 0 in all of them."""
        here = isinstance(record, MemoryRecord) and _can_be_parted(record.columns) and record.problem.by_feature
        columns = record.columns if here else record.spread(count)  # type: ignore[attr-defined]
        if precision == np.float32 and _can_be_parted(columns) and record.problem.by_feature:
            rows = spread_rows(record.length, count) if here else np.arange(row_count(columns))
            narrow, squares = _in_parts(columns, rows)
            if ((squares == 0) | ((squares > SMALL) & (squares < 1 / SMALL))).all():
                return cls(record.problem, narrow, squares, precision)
        columns = record.spread(count) if here else columns
        squares = mean_squares(record.problem, columns)
        if not np.isfinite(squares).all():
            refuse_overflow(record.problem.rows(columns))  # type: ignore[attr-defined]
        return cls(record.problem, columns, squares, precision)

    @property
    def features(self) -> Any:
        """The column of features, where x has a coordinate for each of them."""
        return self.columns.get("features") if self.problem.by_feature else None

    @property
    def _are_many(self) -> bool:
        """Whether a second thread is worth starting."""
        return isinstance(self.features, np.ndarray) and self.features.size >= THREADED

    def blocks(self, rows: int = 0, columns: Columns | None = None) -> Iterator[Columns]:
        """The samples in blocks of an even number of rows, where they are dense arrays here; otherwise all at once."""
        columns = self.columns if columns is None else columns
        if not isinstance(self.features, np.ndarray):
            yield columns
            return
        rows = rows or max(2, min(PART, CACHED // len(self.scale)) // 2 * 2)
        for start in range(0, row_count(columns), rows):
            yield {name: column[start : start + rows] for name, column in columns.items()}

    @cached_property
    def some(self) -> Columns:
        """Samples that are enough to see, on a device, how a Jacobian changes, and how heavy features are."""
        return self._every(max(1, self.count // ELSEWHERE))

    def _every(self, step: int) -> Columns:
        return {name: column[::step] for name, column in self.columns.items()} if step > 1 else self.columns

    def place(self, z: Vector) -> Vector:
        """The point at which the problem is evaluated for z."""
        return np.asarray(self.units * z, dtype=self.precision)

    def mean(self, z: Vector) -> Vector:
        """F̂ on the samples at z."""
        total = self.problem.operator_sums(self.place(z)[None, :], self.columns)[0]
        return np.asarray(self.units * total / self.count + self.penalty * z)

    def jacobians(self, z: Vector) -> tuple[Array, Array]:
        """The Jacobian on the even and on the odd samples, each on a thread of its own."""

        sums = self.problem.rough_jacobian_sum if self.rough else self.problem.jacobian_sum

        def part(first: int) -> Array:
            total, count = None, (self.count + 1 - first) // 2
            for block in self.blocks(max(PART, 4 * len(self.scale))):  # adding a matrix is little beside making it
                rows = {name: column[first::2] for name, column in block.items()}
                found = sums(self.place(z), rows)
                total = found if total is None else np.add(total, found, out=total)
            if not isinstance(total, np.ndarray):
                return mean_there(total, count, self.units, self.penalty)
            found = total.astype(self.precision, copy=False)  # and nothing large is there twice
            units = (self.units / np.sqrt(count)).astype(self.precision)
            found *= units
            found *= units[:, None]
            found[np.diag_indices_from(found)] += self.penalty.astype(self.precision)
            return found

        if self.problem.users_code or not self.problem.on_host:  # a thread of one's own costs a device milliseconds
            return part(0), part(1)
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(part, (0, 1))
        return first, second

    def start(self, z0: Vector) -> Vector:
        """A point close to the root: 0 for a linear operator, by L-BFGS where there is a loss, else by Newton steps."""
        zero = np.zeros_like(self.scale)
        if self.problem.is_linear:
            return zero
        enough = max(COARSE, 8 * len(self.scale)) if self.problem.on_host else self.count
        rows = self._every(max(1, self.count // enough))
        taken = row_count(rows)
        begun = self._descent(zero, rows)
        if np.isnan(begun[0]):
            return self._newton(z0)
        ridge = self.penalty + self.heaviness / self.count / 4

        def value(z: Vector) -> tuple[float, Vector]:
            loss, total = self._descent(z, rows) if z.any() else begun
            return loss / taken + float(ridge @ z**2) / 2, self.units * total / taken + ridge * z

        close = {"maxiter": STEPS, "gtol": CLOSE / np.sqrt(self.count), "ftol": 0.0}
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(minimize(value, zero, jac=True, method="L-BFGS-B", options=close).x)

    def _descent(self, z: Vector, rows: Columns) -> tuple[float, Vector]:
        """The loss over some of the samples and its gradient; NaN where there is none."""
        place = self.place(z)

        @np.errstate(over="ignore", invalid="ignore")
        def part(block: Columns) -> Vector:
            loss, total = self.problem.descent(place, block) or (np.nan, np.full_like(z, np.nan))
            return np.append(total, loss)

        found = self.added(part, self.blocks(0, rows))
        return float(found[-1]), found[:-1]

    def effective(self, z: Vector) -> float:
        """Rows that the Jacobian's worst known diagonal entry is as good as: (Σ w a²)² / Σ (w a²)², at z."""
        if not isinstance(self.features, np.ndarray):
            return np.inf

        @np.errstate(all="ignore")
        def powers(block: Columns) -> Vector:
            squares, slopes = block["features"] ** 2, self.problem.slopes(self.place(z), block)
            slopes = np.ones(len(squares)) if slopes is None else slopes
            slopes = slopes.astype(squares.dtype, copy=False)
            first = np.dot(slopes, squares)
            return np.array([first, np.dot(slopes**2, np.square(squares, out=squares))], dtype=np.float64)

        sums = self.added(powers, self.blocks())
        with np.errstate(all="ignore"):
            return float(np.nan_to_num(sums[0] ** 2 / sums[1], nan=0.0).min())

    def ageing(self, z: Vector, then: Vector) -> float:
        """By what share the diagonal of J changes at most from z to `then`; NaN where it is lost."""
        if self.problem.is_linear or not isinstance(self.features, np.ndarray | ForeignColumn):
            return 0.0
        if self.problem.on_host:
            return self._change(z, then, self.blocks())
        found = self._change(z, then, [self.some])
        return self._change(z, then, [self.columns]) if np.isnan(found) else found  # a feature may be in others only

    def _change(self, z: Vector, then: Vector, blocks: Iterable[Columns]) -> float:
        @np.errstate(all="ignore")
        def diagonals(block: Columns) -> Vector:
            here, there = (self.problem.slopes(self.place(point), block) for point in (z, then))
            if here is None or there is None:
                return np.ones((2, len(z)))
            squares = array_of(block["features"]) ** 2
            return np.array([as_numpy(slopes @ squares) for slopes in (here, there)], dtype=np.float64)

        before, after = self.added(diagonals, blocks)
        with np.errstate(all="ignore"):
            return float(np.abs(after / before - 1).max())

    @cached_property
    def heaviness(self) -> Vector:
        """The mean fourth power of the features, about 3 for most and large for those that are seldom active."""
        features: Any = self.some.get("features") if self.problem.by_feature else None
        if isinstance(features, ForeignColumn):
            found = features.mean_power(4) * self.units**4
            return np.where(found > 0, found, self.count)  # which is the most, of a feature that is in others only
        if not isinstance(features, np.ndarray):
            return np.full(len(self.scale), 3.0)

        def fourth(block: Columns) -> Vector:
            squares = block["features"] ** 2
            return np.asarray(np.einsum("ij,ij->j", squares, squares), dtype=np.float64)

        return np.asarray(self.units**4 * self.added(fourth, self.blocks()) / self.count)

    def added(self, part: Callable[[Columns], Vector], blocks: Iterable[Columns]) -> Vector:
        """The sum of something over blocks of samples, by two threads where that is worth it."""
        if not self._are_many:
            return np.asarray(sum(map(part, blocks)))
        with ThreadPoolExecutor(2) as pool:
            return np.asarray(sum(pool.map(part, blocks)))

    def _newton(self, z: Vector) -> Vector:
        """Newton steps from z, each halved until F̂ falls."""
        value = self.mean(z)
        for _ in range(STEPS):
            first, second = self.jacobians(z)
            slope = Slope((first + second) / 2, self.scale)
            if not slope.dependable:
                return z
            move, share = slope.divide(value[:, None])[:, 0], 1.0
            while share > SHORTEST:
                after = self.mean(z - share * move)
                if np.abs(after).max() < (1 - 1e-4 * share) * np.abs(value).max():
                    break
                share /= 2
            if share <= SHORTEST or np.abs(move).max() <= SHORTEST * np.abs(z).max():
                return z
            z, value = z - share * move, after
        return z


def _can_be_parted(columns: Columns) -> bool:
    """Whether all columns are arrays here whose rows can be taken without a copy of the whole."""
    return "features" in columns and all(isinstance(c, np.ndarray) and c.flags.c_contiguous for c in columns.values())


def _in_parts(given: Columns, rows: Positions) -> tuple[Columns, Vector]:
    """These rows of columns in single precision, and the mean square of every feature, by two threads.

    Part after part, because memory that is new to the process is slow: nothing large is there twice.
    """
    found = {
        name: np.empty((len(rows), *column.shape[1:]), np.bool_ if column.dtype.kind == "b" else np.float32)
        for name, column in given.items()
    }

    step = max(16, min(PART // 4, AT_HAND // given["features"].shape[1]))

    def part(start: int) -> Vector:
        here = slice(start, start + step)
        squares: Vector = np.zeros(0)
        for name, column in given.items():
            taken = column[rows[here]]
            with np.errstate(over="ignore"):
                found[name][here] = taken
                if name == "features":
                    squares = np.einsum("ij,ij->j", taken, taken, dtype=np.float64)
        return squares

    with ThreadPoolExecutor(2) as pool:
        return found, np.asarray(sum(pool.map(part, range(0, len(rows), step))) / len(rows))


def _in_units(column: Any, scale: Vector, precision: Any) -> Any:
    if column.dtype.kind == "b":
        return column
    if isinstance(column, ForeignColumn):
        return (column.times(scale) if column.ndim == 2 and (scale != 1).any() else column).astype(precision)
    if column.ndim == 1:
        return np.ascontiguousarray(column, dtype=precision)
    out = column if column.dtype == precision == np.float32 else np.empty(column.shape, precision)
    return np.multiply(column, scale.astype(out.dtype), out=out, casting="unsafe")


def mean_squares(problem: Problem, columns: Columns) -> Vector:
    """The mean square of every feature."""
    if "features" not in columns and "states" not in columns:  # an operator of one's own, in its own units
        return np.ones(problem.dim(columns))
    rows = problem.rows(columns)  # type: ignore[attr-defined]
    if not problem.by_feature:
        origin = np.zeros(problem.dim(columns))
        return np.asarray(problem.energies(origin, columns, np.zeros(1, dtype=np.int64))[1][0] / len(rows))
    if isinstance(rows, ForeignColumn):
        return rows.mean_power(2)
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->j", rows, rows, dtype=np.float64) / len(rows))
    return np.asarray(np.diag(problem.second_moments(columns)) / rows.shape[0])
