"""The coarse epoch: samples spread evenly over the record, fitted exactly, and the Jacobian there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.record import Record
from multireplay.problems.base import Problem
from multireplay.problems.residual import Penalty, dense_products
from multireplay.updates.base import Unsuitable

COARSE = 2**13
"""Samples of the coarse epoch, unless more are needed."""
DEPENDABLE = 0.3
"""The epoch is doubled while its two halves disagree about the Jacobian by more than this share of it."""
HOPELESS = 10.0
"""And where they still do by more than this many times it, corrections lead away from the fit at first."""
CHEAP = 2e9
"""Multiplications for a Jacobian that are always allowed: about a tenth of a second."""
PASSES_WORTH = 32
"""And otherwise as many as this many passes over the record need."""
STEPS = 50
CLOSE = 1e-10
"""Newton steps below this share of the point are rounding."""
SHORTEST = 1e-4
SINGULAR = 1e11
SLIGHTLY = 1e-13


@dataclass(frozen=True, eq=False)
class Coarse:
    """The exact fit x of 2^k samples spread evenly over the record, and F̂'s Jacobian J there.

    `matrix` is J in the units of `scale`, one over the root mean square of the features, in which it is well scaled;
    `half` is half the difference between the Jacobians of the odd and the even samples, which is as large as the error
    of J itself. `root` is R with RᵀR the second moments of the features: ‖Rz‖ is the root mean square of predictions.
    """

    x: Vector
    matrix: Vector
    half: Vector
    scale: Vector
    root: Vector
    rows: int

    @cached_property
    def _factors(self) -> tuple[Vector, NDArray[np.int32]]:
        return scipy.linalg.lu_factor(self.matrix)  # type: ignore[no-any-return]

    def solve(self, values: Vector) -> Vector:
        """J⁻¹ times each row, in the units of `scale`."""
        return np.asarray(scipy.linalg.lu_solve(self._factors, (values * self.scale).T).T)

    def size(self, moves: Vector) -> float:
        """Root mean square of the change in predictions."""
        return float(np.linalg.norm(self.root @ moves))

    @cached_property
    def disagreement(self) -> float:
        """‖J⁻¹ · half‖: how much of an error is expected to survive a correction. By power iteration: O(d²)."""
        vector, size = np.ones(len(self.half)) / np.sqrt(len(self.half)), 0.0
        for _ in range(8):
            moved = scipy.linalg.lu_solve(self._factors, self.half @ vector)
            size = float(np.linalg.norm(moved))
            if not size:
                break
            vector = self.half.T @ scipy.linalg.lu_solve(self._factors, moved / size, trans=1)
            vector /= np.linalg.norm(vector) or 1.0
        return size


def coarse_fit(record: Record) -> Coarse:
    """The coarse epoch, as long as it has to be.

    Where even a quarter of the record says next to nothing about some direction, as with features that are seldom
    active, the epoch is all of the record if that is cheap.
    Raises `Unsuitable` where this problem, its data or its size is not for Newton corrections.
    """
    length, dim = record.length, record.dim
    rows = min(length, COARSE)
    most = max(CHEAP, PASSES_WORTH * length * dim) / dim**2
    if rows > most:
        raise Unsuitable(f"a Jacobian of {dim} coordinates costs more than {PASSES_WORTH} passes over the record")
    if not _is_enough(record, rows):
        raise Unsuitable(f"{rows} rows are fewer than 4 for each of {dim} coordinates")
    fit = _fit(record, rows)
    while fit.disagreement > DEPENDABLE and 2 * rows <= min(most, length // 4):
        rows *= 2
        fit = _fit(record, rows)
    if fit.disagreement > HOPELESS and rows < length:
        if length > most or record.on_disk:
            raise Unsuitable("rows spread over the record do not agree about the Jacobian")
        return _fit(record, length)
    return fit


def _is_enough(record: Record, rows: int) -> bool:
    """Whether so many samples settle the answer: 4 a coordinate, or all there are where a penalty settles the rest."""
    penalty: Penalty | None = getattr(record.problem, "penalty", None)
    return rows >= 4 * record.dim or (rows == record.length >= 2 and penalty is not None and penalty.ridge > 0)


def _fit(record: Record, rows: int) -> Coarse:
    problem, columns = record.problem, record.spread(rows)
    if problem.jacobian(np.zeros(record.dim), {name: column[:1] for name, column in columns.items()}) is None:
        raise Unsuitable("the problem has no Jacobian")
    even, odd = ({name: column[first::2] for name, column in columns.items()} for first in (0, 1))
    features = problem.samples(columns).features
    moments = (features.T @ features if type(features) is np.ndarray else dense_products(features, features)) / rows
    sizes = np.sqrt(np.diag(moments))
    if rows < record.length and not sizes.all():  # a feature that occurs elsewhere, perhaps
        raise Unsuitable(f"a feature is 0 in all {rows} rows spread over the record")
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    x = scale * _root(problem, columns, scale)
    first, second = problem.jacobian(x, even), problem.jacobian(x, odd)
    assert first is not None
    assert second is not None
    units = np.outer(scale, scale)
    matrix = units * (first + second) / 2
    if _is_singular(matrix):
        raise Unsuitable("some features are combinations of others")
    almost = units * moments + SLIGHTLY * len(scale) * np.eye(len(scale))  # so that it has a root whatever the rounding
    return Coarse(x, matrix, units * (first - second) / 2, scale, np.asarray(np.linalg.cholesky(almost).T), rows)


def _root(problem: Problem, columns: Columns, scale: Vector) -> Vector:
    """The z with F̂(scale · z) = 0 on these rows, by Newton steps that are halved until F̂ falls."""
    z, linear = (
        np.zeros_like(scale),
        problem.moments({name: column[:1] for name, column in columns.items()}) is not None,
    )
    value = scale * problem.mean_operator(scale * z, columns)
    for _ in range(STEPS):
        slope = problem.jacobian(scale * z, columns)
        assert slope is not None
        try:
            move = -np.linalg.solve(scale[:, None] * slope * scale, value)
        except np.linalg.LinAlgError:
            raise Unsuitable("some features are combinations of others") from None
        if linear:
            return z + move
        share, size = 1.0, np.abs(value).max()
        while share > SHORTEST:
            trial = z + share * move
            with np.errstate(all="ignore"):
                after = scale * problem.mean_operator(scale * trial, columns)
            if np.abs(after).max() <= (1 - 1e-4 * share) * size:
                break
            share /= 2
        if np.abs(move).max() <= CLOSE * np.abs(z).max() or share <= SHORTEST:
            return z
        z, value = trial, after
    raise Unsuitable(f"{len(z)} features of rows spread over the record have no exact fit")


def _is_singular(matrix: Vector) -> bool:
    """Whether the condition number is beyond any use, by LAPACK's estimate: O(d²) beside the factors."""
    factors, _, _ = scipy.linalg.lapack.dgetrf(matrix)
    reciprocal, _ = scipy.linalg.lapack.dgecon(factors, np.linalg.norm(matrix, 1))
    return not reciprocal > 1 / SINGULAR
