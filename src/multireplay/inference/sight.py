"""How much of each feature a record has seen, and how large its scores are: what effective sample sizes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.foreign import as_numpy
from multireplay.buffer.record import Record
from multireplay.engine.sums import BlockSum, Folding, Part, batch_bounds, fold, operator_batches
from multireplay.inference.events import independent_events
from multireplay.inference.images import Images
from multireplay.inference.longrun.batch_means import mean_and_variance
from multireplay.inference.slow import ROWS, looks_long
from multireplay.problems.residual import ResidualProblem

SPREAD = 2048
"""Rows spread over the record that are looked at first."""
ENOUGH = 100.0
"""A feature that these have visited so often is known; others are looked for in all rows."""

CLOSER = 512
"""Of them, those that tell how many features are active at once."""
ROUNDING = 1e-20
"""A score whose variance is below this share of the terms that it is made of is rounding: the record has no noise."""
FAR, APART, STEADY = 0.1, 0.04, 1 - 1e-12
"""Shares of its mean square that the square of a feature's mean is above if it is far from 0, and below if it is 0."""
START = np.zeros(1, dtype=np.int64)


class Sight(NamedTuple):
    """Of every coordinate: the effective sample size of its score, and the visits of its feature.

    A score that is rounding counts all rows. `crowded` are features that are active at once for each independent row,
    by the median of visits. 0 where spread rows say that visits are many, as they are nearly independent then, and
    there are more; and where it is below what matters even if all features are active at once. `events` are those of
    a rare outcome, see `independent_events`.
    """

    effective: Vector
    visits: Vector
    crowded: float
    events: float = np.inf
    slow: bool = False
    """Whether memory may be longer than batches can show, see `looks_long`."""


@dataclass(frozen=True, eq=False)
class RecordAt:
    """The record and the point that images are of, for what is worked out only when asked for.

    A pickled one leaves the record behind.
    """

    record: Record | None
    x: Vector
    threads: int = 1
    images: Callable[[], Images] | None = None
    """What makes images of it anew, for those whose inverse Jacobian was too large to be kept."""

    def __getstate__(self) -> dict[str, Any]:
        return {"record": None, "x": self.x, "threads": 1, "images": None}

    def scores(self, pieces: int) -> Vector:
        """F̂ at the point on so many consecutive pieces of the record, fewer where there are fewer rows: one pass."""
        assert self.record is not None
        return operator_batches(self.record, [self.x], Folding(self.threads, pieces=pieces))[0].means

    def sight(self, images: Images, least: float) -> Sight:
        """Effective sample sizes of the scores of images, and visits: from spread rows, and all for what is rare there.

        The former are the variance of a row's score over that of the mean score under dependence. With w_t ψ_tj² as the
        energy of a row, the visits of a feature are the square of its mean over the variance of the mean under
        dependence: the number of independent rows that would know the mean energy as well, which for an event is the
        number of independent occasions on which it was seen; however it is coded, see `_recoded`. From `least` on it
        matters how crowded it is.
        """
        assert self.record is not None
        record, problem, total = self.record, self.record.problem, float(np.add.reduce(images.rows))
        columns = record.spread(SPREAD)
        bounds = batch_bounds(count := row_count(columns), record.dim)
        squares, energies = problem.energies(self.x, columns, bounds[:-1])
        energies /= (bounds[1:] - bounds[:-1])[:, None]
        variance, energy, spread = images.scores_beside(energies)
        rounding = energy * (ROUNDING * float(energy.dot(self.x * self.x)))
        squares, visits = squares / float(count), _visits(energy, spread)
        few = (~(visits >= ENOUGH)).nonzero()[0] if count < record.length else START[:0]
        if few.size:
            bounds = batch_bounds(record.length, record.dim)
            look = partial(problem.energies, self.x, starts=START, which=few)
            totals = fold(record, _Added(problem, look, few.size, (1, few.size)), bounds, Folding(self.threads))
            squares[few] = sum(total[0] for total in totals) / record.length
            energies = np.concatenate([total[1] for total in totals]) / np.diff(bounds)[:, None]
            visits[few] = _visits(*mean_and_variance(energies))
        centre = images.rows.dot(images.scores) / total - problem.penalty_diagonal(len(self.x)) * self.x
        each = squares - centre * centre
        noisy = (each > rounding) & (variance > 0)  # elsewhere there is nothing to be unsure of
        effective = np.minimum(np.divide(each, variance, out=np.full(len(each), total), where=noisy), total)
        ordered = sorted(visits.tolist())
        typical = (ordered[(len(visits) - 1) // 2] + ordered[len(visits) // 2]) / 2
        many = typical > SPREAD / 8 and record.length > SPREAD
        some = not many and len(visits) > least * typical > 0
        crowded = _active(columns.get("features")) / typical if some else 0.0
        visits = self._recoded(images, columns, energy, visits)
        events = independent_events(record, columns, self.threads) if record.length >= total else np.inf
        slow = False
        if record.length >= ROWS and isinstance(problem, ResidualProblem):
            errors = np.asarray(as_numpy(problem.residuals_at(self.x, columns)), dtype=np.float64)
            slow = looks_long(errors, images.scores, each, record.length)
        return Sight(effective, visits, crowded, events, slow)

    def _recoded(self, images: Images, columns: Columns, energy: Vector, visits: Vector) -> Vector:
        """Visits of features that are far from 0, as 1000 + an event, by the energies of (J⁻¹ψ_t)_j.

        That is ψ_tj less what others say of it, wherever it is counted from if these add up to a constant. Then it is 0
        on average; the fewest visits are taken, from 0, from its least and largest value.
        """
        record: Any = self.record
        known = isinstance(record.problem, ResidualProblem) and record.problem.is_gradient  # J is of features alone
        rows = record.problem.rows(columns) if known else None
        if not isinstance(rows, np.ndarray) or images.through is None or images.set_active:
            return visits
        weights = np.asarray(columns["weights"]) if "weights" in columns else np.ones(len(rows))
        total = np.add.reduce(weights) if "weights" in columns else len(rows)
        share = np.square(np.dot(weights, rows)) / (total * len(rows))
        far = ((share > FAR * energy) | (visits > len(rows))).nonzero()[0]
        if not far.size or (far.size == 1 and share[far[0]] > STEADY * energy[far[0]]):  # of a constant
            return visits
        steady = share[far] > STEADY * energy[far]  # or what is never seen to change in these rows
        basis, slopes = images.of(np.eye(len(visits))).T[far], record.problem.slopes(self.x, columns)
        each, slopes = np.dot(basis, rows.T), weights if slopes is None else slopes
        apart = np.square(each @ slopes) < APART * np.add.reduce(slopes) * (np.square(each) @ slopes)
        apart |= (again := steady & (np.add.reduce(steady) > 1))
        ends, bounds = (np.zeros(len(far)), each.min(axis=1), each.max(axis=1)), batch_bounds(len(rows), record.dim)
        found = _from_any(ends, _moments(each, weights, bounds[:-1]), bounds)
        if ((found < ENOUGH) & apart | again).any() and len(rows) < record.length:
            look, bounds = partial(_moments_in, record.problem, basis), batch_bounds(record.length, record.dim)
            totals = fold(
                record, _Added(record.problem, look, 1, (far.size, 1), (far.size, 1)), bounds, Folding(self.threads)
            )
            found = _from_any(ends, [np.concatenate(part, axis=-1) for part in zip(*totals, strict=True)], bounds)
        visits[far] = np.where(apart, np.minimum(visits[far], found), visits[far])
        return visits


class _Added(BlockSum):
    """What a function makes of every block, arrays of these shapes."""

    def __init__(self, problem: Any, function: Callable[[Columns], Part], *shapes: Any) -> None:
        self.problem, self.function, self.shapes = problem, function, shapes

    def zero(self) -> Part:
        return tuple(np.zeros(shape) for shape in self.shapes)

    def of(self, block: Columns) -> Part:
        return self.function(block)


def _moments(each: Vector, weights: Vector, starts: Positions) -> Part:
    heavy = each * weights
    return tuple(np.add.reduceat(some, starts, axis=-1) for some in (weights, heavy, heavy * each))


def _moments_in(problem: Any, basis: Vector, columns: Columns) -> Part:
    each = np.dot(basis, problem.rows(columns).T)
    return _moments(each, np.asarray(columns.get("weights", np.ones(each.shape[1]))), START)


def _from_any(ends: tuple[Any, ...], sums: Any, bounds: Positions) -> Vector:
    rows = np.diff(bounds)
    zeroth, first, second = (part / rows for part in sums)
    energies = [second - (2 * end)[:, None] * first + (end * end)[:, None] * zeroth for end in ends]
    return np.asarray(_visits(*mean_and_variance(np.concatenate(energies).T)).reshape(3, -1).min(axis=0))


def _active(rows: Any) -> float:
    """Features that are active at once in a row, on average: 1 of one-hot rows, about a third of dense ones.

    The mean of (Σ_j u_tj)²/Σ_j u_tj² over rows, with u_tj = ψ_tj² over its mean; 1 where features are not dense.
    """
    if not isinstance(rows, np.ndarray):
        return 1.0
    squares = np.square(rows[:: max(1, len(rows) // CLOSER)], dtype=np.float64)
    mean = np.ones(len(squares)).dot(squares)  # products take a tenth of the time of sums of short rows
    weights = 1.0 / np.where(mean > 0.0, mean, 1.0)
    total = np.square(squares.dot(weights))
    size = np.square(squares, out=squares).dot(weights * weights)
    seen = np.count_nonzero(size)
    return float(np.add.reduce(total / np.where(size > 0, size, 1.0))) / seen if seen else 1.0


def _visits(mean: Vector, variance: Vector) -> Vector:
    """By feature, of its mean energy; infinite where that is the same in all batches, and 0 where it is never seen."""
    square = mean * mean
    found = np.where(mean > 0.0, np.inf, 0.0)
    return np.asarray(np.divide(square, variance, out=found, where=variance > 1e-24 * square))
