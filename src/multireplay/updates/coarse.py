"""The coarse epoch: samples spread evenly over the record, fitted, and the Jacobian there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.foreign import Array, ForeignColumn, array_of, as_numpy, like
from multireplay.buffer.record import Record
from multireplay.problems.base import Problem
from multireplay.problems.residual import refuse_overflow
from multireplay.updates.base import Unsuitable
from multireplay.updates.inverse import mean_there
from multireplay.updates.slope import Slope

COARSE = 2**13
"""Samples of the coarse epoch, …"""
PER_COORDINATE = {True: 8, False: 16}
"""… and at least so many for each coordinate, fewer where the operator is a gradient: J⁻¹ of so many rows is right to
about a third, and a TD operator's J is a difference of which more rows are needed."""
MULTIPLIED = 6_500_000
"""And where it is not one, as many as this over the coordinates, up to 2^15: their matrix costs about a pass then."""
ELSEWHERE = 2**16
"""Samples on a device, where products of matrices cost less beside reading."""
MOST_NUMBERS = 2**28
"""Numbers that the samples of a coarse epoch may have at most: a gigabyte in single precision."""
STEPS = 30
"""Steps of L-BFGS on the samples, which need to be right to their own noise only."""
SHORTEST = 1e-4
"""A Newton step is not halved below this share of it."""
SETTLING = 4
SETTLED = 0.05
"""Corrections on the samples end when one is below this share of the first."""
POWER_STEPS = 4
DOUBTFUL = 0.7
"""A coarse epoch whose halves disagree about the Jacobian by this share of it is not to be relied on, …"""
FEW = 400.0
"""… nor one that has fewer rows than this, in effect, for some feature."""


@dataclass(frozen=True, eq=False)
class Coarse:
    """A fit x of samples spread evenly over the record, and F̂'s Jacobian close to it.

    `half` is half the difference between the Jacobians of the odd and the even samples, in units of ``slope.scale``,
    which is as large as the error of J itself.
    """

    x: Vector
    slope: Slope
    half: Array
    rows: int
    effective: float
    """Rows that the worst known feature is as good as, if it were about as large in all of them."""
    samples: Samples

    def is_doubtful(self, rate: float, rows: float) -> bool:
        """Whether the halves disagree by more than that rate, or some feature is known from fewer rows."""
        return self.rate > rate or self.effective < rows

    def ageing(self, x: Vector, move: Vector) -> float:
        """By what share the diagonal of J changes at most from x to x + move on the samples; NaN where it is lost."""
        features: Any = self.samples.columns.get("features")
        if self.samples.problem.is_linear or not isinstance(features, np.ndarray | ForeignColumn):
            return 0.0
        with np.errstate(all="ignore"):
            before, after = (self.samples.slopes(point / self.samples.scale) for point in (x, x + move))
            if before is None or after is None:
                return 0.0
            squares = (features if isinstance(features, np.ndarray) else features.array) ** 2
            change = (after @ squares) / (before @ squares) - 1
            return float(np.abs(change if isinstance(change, np.ndarray) else as_numpy(change)).max())

    def reach(self, x: Vector) -> float:
        """The largest score of the samples at x; infinite where they have no dense features to tell."""
        features: Any = self.samples.columns.get("features")
        if not isinstance(features, np.ndarray | ForeignColumn):
            return np.inf
        rows = array_of(features)
        scores = rows @ like(x / self.samples.scale, rows)
        return float(np.abs(scores if isinstance(scores, np.ndarray) else as_numpy(scores)).max())

    @cached_property
    def rate(self) -> float:
        """‖J⁻¹ · half‖: how much of an error may survive a correction. By power iteration: O(d²)."""
        return self.slope.factors.rate(self.half, POWER_STEPS)


def usual_rows(record: Record) -> int:
    """Samples of the coarse epoch of a record in memory or on disk."""
    gradient, dim = record.problem.is_gradient, record.dim
    more = 0 if gradient or dim <= 64 else min(4 * COARSE, MULTIPLIED // dim)
    return min(record.length, max(COARSE, more, PER_COORDINATE[gradient] * dim))


def coarse_rows(record: Record) -> int:
    """Samples of the coarse epoch of a record; more of them on a device, where a pass costs more than their matrix."""
    if record.problem.on_host:
        return usual_rows(record)
    return min(record.length, max(ELSEWHERE, usual_rows(record)), MOST_NUMBERS // record.dim)


def coarse_fit(record: Record, x0: Vector) -> Coarse:
    """The coarse epoch: fitted well enough that corrections on the whole record begin close by.

    In single precision, and in double precision where that is not enough. An operator that is not linear is first
    brought close to its root by L-BFGS, with a weak pull of each coordinate to 0, so that there is something to go to
    whatever the samples are; then come corrections with the Jacobian there.
    Raises `Unsuitable` where the samples do not settle all coordinates.
    """
    rows = coarse_rows(record)
    if rows * record.dim > MOST_NUMBERS or rows < 2:
        raise Unsuitable(f"{rows} rows of {record.dim} coordinates are no coarse epoch")
    columns = record.spread(rows)
    sizes = np.sqrt(mean_squares(record.problem, columns))
    if not np.isfinite(sizes).all():
        refuse_overflow(record.problem.rows(columns))  # type: ignore[attr-defined]
    if not sizes.all():
        raise Unsuitable(f"{int((sizes == 0).sum())} of {len(sizes)} features are 0 in all of {rows} rows")
    for precision in (np.float32, np.float64):
        found = _fit(Samples(record.problem, columns, 1 / sizes, precision), x0 * sizes, rows, rows < record.length)
        if found.slope.dependable:
            return found
    raise Unsuitable("some features are all but combinations of others")


def coarse_start(record: Record, x0: Vector) -> Vector:
    """A point close to the exact fit, as far as rows spread over the record tell: where exact steps begin."""
    columns = record.spread(coarse_rows(record))
    sizes = np.sqrt(mean_squares(record.problem, columns))
    if not np.isfinite(sizes).all():
        refuse_overflow(record.problem.rows(columns))  # type: ignore[attr-defined]
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    return np.asarray(scale * Samples(record.problem, columns, scale, np.float64).start(x0 / scale))


class Samples:
    """The samples of a coarse epoch, as functions of z = x / scale.

    Dense features are brought to these units, and to one precision; those of other kinds stay as they are, and what
    is made of them is brought there by `units`.
    """

    def __init__(self, problem: Problem, columns: Columns, scale: Vector, precision: Any) -> None:
        self.problem, self.scale = problem, scale
        self.penalty = problem.penalty_diagonal(len(scale)) * scale**2
        dense = "features" in columns and isinstance(columns["features"], np.ndarray | ForeignColumn)
        self.precision: Any = precision if dense else np.float64
        self.units = np.ones_like(scale) if dense else scale
        self.columns: Columns = {
            name: _converted(column, scale, precision) if dense else column for name, column in columns.items()
        }
        self.count = int(next(iter(columns.values())).shape[0])

    def place(self, z: Vector) -> Vector:
        """The point at which the problem is evaluated for z."""
        return np.asarray(self.units * z, dtype=self.precision)

    def mean(self, z: Vector) -> Vector:
        """F̂ on the samples at z."""
        total = self.problem.operator_sums(self.place(z)[None, :], self.columns)[0]
        return np.asarray(self.units * total / self.count + self.penalty * z)

    def slopes(self, z: Vector) -> Any:
        """The derivative of every residual by its score at z."""
        return self.problem.slopes(self.place(z), self.columns)

    def jacobians(self, z: Vector) -> tuple[Array, Array]:
        """The Jacobian on the even and on the odd samples, each on a thread of its own."""

        def part(first: int) -> Array:
            rows = {name: column[first::2] for name, column in self.columns.items()}
            total = self.problem.jacobian_sum(self.place(z), rows)
            count = next(iter(rows.values())).shape[0]
            if not isinstance(total, np.ndarray):
                return mean_there(total, count, self.penalty)
            found = self.units[:, None] * total * self.units / count + np.diag(self.penalty)
            return np.asarray(found, dtype=self.precision)

        with ThreadPoolExecutor(2 if self.problem.on_host and not self.problem.users_code else 1) as pool:
            first, second = pool.map(part, (0, 1))
        return first, second

    def start(self, z0: Vector) -> Vector:
        """A point close to the root: 0 for a linear operator, by L-BFGS where there is a loss, else by Newton steps."""
        zero = np.zeros_like(self.scale)
        if self.problem.is_linear:
            return zero
        every = max(1, self.count // max(COARSE, 8 * len(self.scale))) if self.problem.on_host else 1
        rows = {name: column[::every] for name, column in self.columns.items()} if every > 1 else self.columns
        taken = next(iter(rows.values())).shape[0]
        if self.problem.descent(self.place(zero), rows) is None:
            return self._newton(z0)
        ridge = self.penalty + self.heaviness / self.count / 4

        def value(z: Vector) -> tuple[float, Vector]:
            loss, total = self.problem.descent(self.place(z), rows) or (0.0, zero)
            return loss / taken + float(ridge @ z**2) / 2, self.units * total / taken + ridge * z

        close = {"maxiter": STEPS, "gtol": 0.05 / np.sqrt(self.count), "ftol": 0.0}
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(minimize(value, zero, jac=True, method="L-BFGS-B", options=close).x)

    def effective(self, z: Vector) -> float:
        """Rows that the Jacobian's worst known diagonal entry is as good as: (Σ w a²)² / Σ (w a²)², at z."""
        features, slopes = self.columns.get("features"), self.slopes(z)
        if not isinstance(features, np.ndarray):
            return np.inf
        squares = features**2
        if slopes is not None:
            squares *= slopes[:, None].astype(squares.dtype, copy=False)
        with np.errstate(all="ignore"):
            found = squares.sum(axis=0) ** 2 / np.einsum("ij,ij->j", squares, squares)
        return float(np.nan_to_num(found, nan=0.0).min())

    @cached_property
    def heaviness(self) -> Vector:
        """The mean fourth power of the features, about 3 for most and large for those that are seldom active."""
        features: Any = self.columns.get("features")
        if isinstance(features, ForeignColumn):
            return features.mean_power(4)
        if not isinstance(features, np.ndarray):
            return np.full(len(self.scale), 3.0)
        squares = features**2
        return np.asarray(np.einsum("ij,ij->j", squares, squares) / self.count, dtype=np.float64)

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


def _fit(samples: Samples, z0: Vector, rows: int, some: bool) -> Coarse:
    linear, z = samples.problem.is_linear, samples.start(z0)
    first, second = samples.jacobians(z)
    effective = samples.effective(z) if some else np.inf
    slope = Slope((first + second) / 2, samples.scale, rows if some else None)
    found = Coarse(samples.scale * z, slope, (first - second) / 2, rows, effective, samples)
    if not found.slope.dependable or (found.is_doubtful(DOUBTFUL, FEW) and not linear):
        return found
    sizes: list[float] = []
    for _ in range(1 if linear else SETTLING):
        move = found.slope.divide(samples.mean(z)[:, None])[:, 0].astype(np.float64)
        sizes.append(float(np.linalg.norm(move)))
        if not sizes[-1] <= min(sizes):
            break
        z = z - move
        if sizes[-1] <= SETTLED * sizes[0] and not linear:
            break
    return replace(found, x=samples.scale * z)


def _converted(column: Any, scale: Vector, precision: Any) -> Any:
    if column.dtype.kind == "b":
        return column
    if isinstance(column, ForeignColumn):
        return (column.times(scale) if column.ndim == 2 else column).astype(precision)
    if column.ndim == 1:
        return np.ascontiguousarray(column, dtype=precision)
    return np.multiply(column, scale, out=np.empty(column.shape, precision), casting="unsafe")


def mean_squares(problem: Problem, columns: Columns) -> Vector:
    """The mean square of every feature."""
    if "features" not in columns and "states" not in columns:  # an operator of one's own, in its own units
        return np.ones(problem.dim(columns))
    rows = problem.rows(columns)  # type: ignore[attr-defined]
    if isinstance(rows, ForeignColumn):
        return rows.mean_power(2)
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->j", rows, rows, dtype=np.float64) / len(rows))
    return np.asarray(np.diag(problem.second_moments(columns)) / rows.shape[0])
