"""Newton corrections: a coarse epoch solved exactly, then put right by passes over the whole record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.record import Record
from multireplay.engine.checkpoint import Checkpoint
from multireplay.engine.ledger import Ledger
from multireplay.engine.residuals import Batches
from multireplay.errors import InputError
from multireplay.problems.features import dense_products
from multireplay.problems.penalty import Penalty
from multireplay.replay.multiscale import scattered
from multireplay.result import Epoch, Result
from multireplay.show.progress import step_bar
from multireplay.solving import sentences
from multireplay.tracking import Recorder, Track

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
SINGULAR = 1e11
SLIGHTLY = 1e-13
NEGLIGIBLE = 0.1
"""A correction expected to be below this share of its standard error is not worth a pass."""
ROUNDING = 1e-12
"""A correction below this share of the predictions is rounding: there is nothing left where a record has no noise."""
MOST = 5


@dataclass(frozen=True, eq=False)
class Coarse:
    """The exact fit of 2^k samples scattered evenly over the record, and F̂'s Jacobian J there.

    Attributes
    ----------
    x : ndarray
        The fit.
    matrix, half : ndarray
        J in the units of `scale`, and half the difference between the Jacobians of the odd and the even samples: as
        large as the error of J itself.
    scale : ndarray
        One over the root mean square of the features, the units in which J is well scaled.
    root : ndarray
        R with RᵀR the second moments of the features in those units: ‖Rz‖ is the root mean square of predictions.
    rows : int
        Number of samples.
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


def coarse_fit(record: Record) -> Coarse | None:
    """The coarse epoch, as long as it has to be; None where this problem or its size is not for Newton corrections.

    Where even a quarter of the record says next to nothing about some direction, as with features that are seldom
    active, the epoch is all of the record if that is cheap.
    """
    length, dim = record.length, record.dim
    rows = min(length, COARSE)
    most = max(CHEAP, PASSES_WORTH * length * dim) / dim**2
    if rows > most or not _is_enough(record, rows):
        return None
    fit = _fit(record, rows)
    while fit is not None and fit.disagreement > DEPENDABLE and 2 * rows <= min(most, length // 4):
        rows *= 2
        fit = _fit(record, rows)
    if fit is not None and fit.disagreement > HOPELESS and rows < length:
        return None if length > most or record.on_disk else _fit(record, length)
    return fit


def _is_enough(record: Record, rows: int) -> bool:
    """Whether so many samples settle the answer: 4 a coordinate, or all there are where a penalty settles the rest."""
    penalty: Penalty | None = getattr(record.problem, "penalty", None)
    return rows >= 4 * record.dim or (rows == record.length >= 2 and penalty is not None and penalty.ridge > 0)


def _fit(record: Record, rows: int) -> Coarse | None:
    problem, columns = record.problem, record.take(scattered(record.length, rows))
    even, odd = ({name: column[first::2] for name, column in columns.items()} for first in (0, 1))
    try:
        x = problem.fit_exactly(Buffer(**columns))
    except InputError:  # separable data, say: steps of bounded length are safer there
        return None
    first, second = problem.jacobian(x, even), problem.jacobian(x, odd)
    if first is None or second is None:
        return None
    features = problem.samples(columns).features
    moments = dense_products(features, features) / rows
    sizes = np.sqrt(np.diag(moments))
    if rows < record.length and not sizes.all():  # a feature that occurs elsewhere, perhaps
        return None
    scale = 1 / np.where(sizes > 0, sizes, 1.0)
    units = np.outer(scale, scale)
    matrix = units * (first + second) / 2
    if _is_singular(matrix):
        return None
    almost = units * moments + SLIGHTLY * len(scale) * np.eye(len(scale))  # so that it has a root whatever the rounding
    return Coarse(x, matrix, units * (first - second) / 2, scale, np.asarray(np.linalg.cholesky(almost).T), rows)


def _is_singular(matrix: Vector) -> bool:
    """Whether the condition number is beyond any use, by LAPACK's estimate: O(d²) beside the factors."""
    factors, _, _ = scipy.linalg.lapack.dgetrf(matrix)
    reciprocal, _ = scipy.linalg.lapack.dgecon(factors, np.linalg.norm(matrix, 1))
    return not reciprocal > 1 / SINGULAR


@dataclass(frozen=True, eq=False)
class Correction:
    """One pass: where it led, how long the correction was in units of its standard error, and that by coordinate."""

    x: Vector
    share: float
    standard_error: Vector


@dataclass(frozen=True, eq=False)
class Corrected:
    """All corrections, and why there were no more."""

    corrections: tuple[Correction, ...]
    note: str


def correct(coarse: Coarse, pass_over: Callable[[Vector], Batches], most: int, all_of_them: bool) -> Corrected:
    """x ← x − J⁻¹F̂(x) with the Jacobian of the coarse epoch, accelerated, until what is left is noise.

    Where J is not good enough for the plain correction to shrink, the corrections so far are combined to the point at
    which the next one is expected to be shortest (Anderson 1965); on a linear problem these are GMRES steps.

    Parameters
    ----------
    coarse : Coarse
        The fit to begin with, and its Jacobian.
    pass_over : callable
        F̂ at a point by batches: one pass over the record.
    most : int
        The most corrections.
    all_of_them : bool
        Whether to go on until then in any case.
    """
    z = coarse.x / coarse.scale
    points: list[Vector] = []
    moves: list[Vector] = []
    done: list[Correction] = []
    before = 0.0
    while True:
        batches = pass_over(z * coarse.scale)
        images = coarse.solve(batches.means)
        move = -np.average(images, axis=0, weights=batches.sizes)
        error, size = batches.spread(images @ coarse.root.T), coarse.size(move)
        points.append(z)
        moves.append(move)
        z = _combine(coarse.root, points, moves)
        share = size / error if error > 0 else np.inf if size else 0.0
        done.append(Correction(z * coarse.scale, share, coarse.scale * batches.spreads(images)))
        left = size * min(1.0, size / before) if before else size
        if all_of_them and len(done) == most:
            return Corrected(tuple(done), "")
        if left <= ROUNDING * coarse.size(z) and not all_of_them:
            return Corrected(tuple(done), "another correction would be rounding")
        if left <= NEGLIGIBLE * error and not all_of_them:
            expected = left / error if error else 0.0
            return Corrected(tuple(done), f"another correction would be about {expected:.1g} of its standard error")
        if len(done) == most:
            return Corrected(tuple(done), f"the last correction was {share:.2g} of its standard error")
        before = size


def _combine(root: Vector, points: list[Vector], moves: list[Vector]) -> Vector:
    """The next point from all corrections so far, by Anderson's acceleration."""
    z, move = points[-1], moves[-1]
    if len(moves) == 1:
        return z + move
    steps = np.diff(np.array(points), axis=0)
    changes = np.diff(np.array(moves), axis=0)
    weights = np.linalg.lstsq(root @ changes.T, root @ move, rcond=None)[0]
    return np.asarray(z + move - weights @ (steps + changes))


def solve_by_corrections(
    record: Record, most: int, all_of_them: bool, track: Track | None, checkpoint: Checkpoint | None, progress: bool
) -> Result | None:
    """The whole run; None where it is not for Newton corrections, see `coarse_fit`."""
    began = time.perf_counter()
    coarse = coarse_fit(record)
    if coarse is None:
        return None
    length, ledger = record.length, Ledger(checkpoint)

    def pass_over(x: Vector) -> Batches:
        with step_bar(length, "rows") if progress else nullcontext(lambda rows: None) as advanced:
            return ledger.batches(record, x, advanced)

    found = correct(coarse, pass_over, most, all_of_them)
    k = coarse.rows.bit_length() - 1
    epochs = [_epoch(k, length / coarse.rows, coarse.rows, coarse.x, track)]
    epochs += [_epoch(k + i, 1.0, length, part.x, track) for i, part in enumerate(found.corrections, start=1)]
    passes = sum(epoch.taken for epoch in epochs) / length
    return Result(
        x=found.corrections[-1].x.copy(),
        epochs=tuple(epochs),
        status=sentences.corrected(coarse.rows, length, len(found.corrections), passes, found.note),
        passes=passes,
        seconds=time.perf_counter() - began,
        chosen=len(epochs) - 1,
        standard_error=found.corrections[-1].standard_error,
    )


def _epoch(k: int, gap: float, length: int, x: Vector, track: Track | None) -> Epoch:
    curve = None
    if track is not None:
        recorder = Recorder(track, length, np.zeros_like(x))
        recorder.end(length, x, x)
        curve = recorder.curve(x, x)
    return Epoch(k, gap, length, 1.0, last=x, average=x, answer=x, taken=length, diverged=False, curve=curve)
