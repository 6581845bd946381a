"""What the answer says of the rows of the record beside what they say: from rows spread over it, and one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import correlate

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.record import Record
from multireplay.engine.sums import BlockSum, Folding, Part, batch_bounds, fold
from multireplay.inference.longrun import BatchMeans
from multireplay.inference.uncertainty import FEW
from multireplay.problems.glm import PROBABILITIES
from multireplay.problems.multinomial import Multinomial
from multireplay.problems.residual import ResidualProblem
from multireplay.report.rivals import Missing

PIECES = 64
"""Consecutive pieces of the record that sums are kept of: half a batch each."""
LOOKED_AT = 2**15
"""Rows spread over the record that are looked at one by one, unless they take more than …"""
MOST_BYTES = 2**27
"""… so many bytes."""
BINS = 10
"""Groups of rows of about the same number, by what is fitted."""
STRETCHES, STRETCH = 16, 2**12
"""Autocorrelations of a long record are from so many stretches of so many rows."""
FEWEST_LAGS, MOST_LAGS = 24, 400
MOST_CLASSES = 100
"""Of more classes nothing is summed one by one."""


class SeenRows(NamedTuple):
    """Of some rows: what is fitted, what was observed, and what they weigh."""

    fitted: Vector
    actual: Vector
    weight: Vector

    def cut(self, part: slice | NDArray[np.int64]) -> SeenRows:
        """Some of the rows."""
        return SeenRows(*(values[part] for values in self))


class Pieces(NamedTuple):
    """Sums over consecutive pieces of the record, a row each."""

    scores: Vector
    """F̂ at the answer, without the penalty."""
    rows: Vector
    weight: Vector
    residual: Vector
    """The mean of actual − fitted."""
    spread: float
    """Standard deviation of a row's residual over the whole record."""
    explained: float
    """The share of the variance of what was observed that residuals do not have; NaN if that does not vary."""


class Bins(NamedTuple):
    """Rows in groups by what is fitted: means of that and of what was observed, its interval, and who is doubtful."""

    fitted: Vector
    actual: Vector
    half: Vector
    """Half of the interval under dependence; NaN where it cannot be told."""
    visits: Vector
    """Independent visits of the group."""

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """Where too little was seen for the interval to be relied on."""
        return np.asarray(~(self.visits >= FEW))


class ByClass(NamedTuple):
    """Of several classes: what rows of each are taken for, by weight, and groups of rows by the probability of each."""

    confusion: Vector
    """A row an observed class, a column the most probable one."""
    bins: tuple[Bins, ...] = ()


class Correlation(NamedTuple):
    """Autocorrelations of the residuals by lag, from lag 0 on, and the number of rows they are from."""

    values: Vector
    rows: int


@dataclass(frozen=True, eq=False)
class FittedActual:
    """Fitted against actual, and what is left."""

    what: str
    """"values" in policy evaluation, "probabilities", "counts", "rates", "responses", or "classes" where there are
    several: then the probability of the most probable one is fitted, and 1 observed where a row is of it."""
    spread: SeenRows
    pieces: Pieces
    bins: Bins
    correlation: Correlation
    classes: ByClass | None = None
    level: float = 0.95
    """Of the intervals of groups."""


def look(record: Record, x: Vector, threads: int, level: float = 0.95) -> FittedActual | Missing:
    """Look at the residuals of a record at a point: at rows spread over it, some stretches, and in one pass over all.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> from multireplay.buffer.record import as_record
    >>> A = np.random.default_rng(0).standard_normal((4096, 2))
    >>> record = as_record(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0]))
    >>> found = look(record, np.array([1.0, 0.0]), 1)
    >>> found.what, round(found.pieces.explained, 3), len(found.bins.fitted)
    ('responses', 1.0, 10)
    """
    problem = record.problem
    if not isinstance(problem, ResidualProblem | Multinomial):
        return Missing("This problem has no features that a response is fitted by: there is no fitted against actual.")
    rows = record.spread(spread_count(record))
    seen = at_rows(problem, x, rows)
    if not (np.isfinite(seen.fitted).all() and np.isfinite(seen.actual).all()):
        return Missing("What is fitted is beyond the range of numbers at this answer.")
    classes = (
        list(_of_classes(problem, x, rows))
        if isinstance(problem, Multinomial) and problem.classes < MOST_CLASSES
        else []
    )
    edges = [_edges(part.fitted) for part in (seen, *classes)]
    bounds = batch_bounds(record.length, record.dim, PIECES)
    totals = fold(record, _Residuals(problem, x, edges), bounds, Folding(threads))
    scores, sums, groups, *by_class = (np.array(parts) for parts in zip(*totals, strict=True))
    pieces = _pieces(scores, sums, np.diff(bounds))
    mean = float(sums[:, 1].sum() / sums[:, 0].sum())
    told = None
    if by_class:
        told = ByClass(by_class[0].sum(axis=0), tuple(_bins(one, level) for one in np.moveaxis(by_class[1], 1, 0)))
    correlation = _correlation(record, problem, x, mean)
    return FittedActual(_what(problem, seen.actual), seen, pieces, _bins(groups, level), correlation, told, level)


def look_at_rows(what: str, fitted: Vector, actual: Vector, level: float = 0.95) -> FittedActual:
    """Look at the residuals of rows that are at hand, in their order, whatever has fitted them.

    Examples
    --------
    >>> import numpy as np
    >>> found = look_at_rows("responses", np.arange(100.0), np.arange(100.0) + 1)
    >>> found.pieces.residual.mean(), len(found.bins.actual)
    (np.float64(1.0), 10)
    """
    seen, edges = SeenRows(fitted, actual, np.ones(len(fitted))), _edges(fitted)
    bounds = np.linspace(0, len(fitted), min(PIECES, len(fitted)) + 1).astype(np.int64)
    parts = [slice(*ends) for ends in pairwise(bounds)]
    sums, groups = (np.array(found) for found in zip(*(_sums(seen.cut(part), edges) for part in parts), strict=True))
    pieces = _pieces(np.zeros((len(parts), 0)), sums, np.diff(bounds))
    left = actual - fitted
    some = [left[start : start + STRETCH] for start in _starts(len(left), min(STRETCH, len(left)), STRETCHES)]
    whole = [left] if len(left) <= STRETCHES * STRETCH else some
    correlation = _correlated(whole, left.mean())
    return FittedActual(what, seen.cut(_spread(len(fitted))), pieces, _bins(groups, level), correlation, None, level)


def _spread(rows: int) -> NDArray[np.int64]:
    return np.linspace(0, rows - 1, min(rows, LOOKED_AT)).astype(np.int64)


def _edges(fitted: Vector) -> Vector:
    """Between the groups of rows."""
    edges = np.unique(np.quantile(fitted, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.asarray(edges[edges > fitted.min()])


def spread_count(record: Record) -> int:
    """Rows that may be looked at one by one."""
    room = MOST_BYTES if record.budget is None else min(MOST_BYTES, record.budget // 8)
    return int(max(256, min(LOOKED_AT, room // record.row_bytes)))


def at_rows(problem: ResidualProblem | Multinomial, x: Vector, columns: Columns) -> SeenRows:
    """What is fitted at these rows, and what was observed: in policy evaluation r + γV(s'), by the same V."""
    if isinstance(problem, Multinomial):
        chances = problem.chances(x, columns["features"])
        right = (chances.argmax(axis=1) == columns["targets"]).astype(np.float64)
        return SeenRows(chances.max(axis=1), right, columns.get("weights", np.ones_like(right)))
    plain = {name: column for name, column in columns.items() if name != "weights"}
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = problem.response(np.asarray(problem.rows(plain) @ x, dtype=np.float64))
        actual = fitted - np.asarray(problem.residuals_at(x, plain), dtype=np.float64)
    weight = columns.get("weights")
    return SeenRows(fitted, actual, np.ones_like(fitted) if weight is None else np.asarray(weight, dtype=np.float64))


def _of_classes(problem: Multinomial, x: Vector, columns: Columns) -> Iterator[SeenRows]:
    """The probability of every class at these rows, and whether they are of it."""
    for number, chances in enumerate(problem.chances(x, columns["features"]).T):
        mine = (columns["targets"] == number).astype(np.float64)
        yield SeenRows(chances, mine, columns.get("weights", np.ones_like(mine)))


class _Residuals(BlockSum):
    """Σ_t F̃(x, ξ_t); Σ_t w_t(1, e_t, e_t², y_t, y_t²) of residuals e and outcomes y; Σ_t w_t(1, fitted, y) by bin.

    Of several classes, whose edges come after those of the most probable one, also what rows of each are taken for, and
    the last of these sums by class.
    """

    def __init__(self, problem: Any, x: Vector, edges: Sequence[Vector]) -> None:
        self.problem, self.x, self.edges, self.by_class = problem, x, edges[0], edges[1:]

    def zero(self) -> Part:
        found = np.zeros(len(self.x)), np.zeros(5), np.zeros((len(self.edges) + 1, 3))
        count = len(self.by_class)
        return (*found, np.zeros((count, count)), np.zeros((count, BINS, 3))) if count else found

    def of(self, block: Columns) -> Part:
        seen = at_rows(self.problem, self.x, block)
        found = (self.problem.operator_sums(self.x[None, :], block)[0], *_sums(seen, self.edges))
        if not self.by_class:
            return found
        confusion, groups = self.zero()[3:]
        taken_for = self.problem.chances(self.x, block["features"]).argmax(axis=1)
        np.add.at(confusion, (block["targets"].astype(np.intp), taken_for), seen.weight)
        for group, part, edges in zip(groups, _of_classes(self.problem, self.x, block), self.by_class, strict=True):
            group[: len(edges) + 1] = _sums(part, edges)[1]
        return *found, confusion, groups


def _sums(seen: SeenRows, edges: Vector) -> tuple[Vector, Vector]:
    """What is summed of rows: over all of them, and by bin."""
    fitted, actual, weight = seen
    residual, place = actual - fitted, np.searchsorted(edges, fitted, side="right")
    sums = np.array([weight, weight * residual, weight * residual**2, weight * actual, weight * actual**2])
    groups = [np.bincount(place, part, len(edges) + 1) for part in (weight, weight * fitted, weight * actual)]
    return sums.sum(axis=1), np.array(groups, dtype=np.float64).T


def _pieces(scores: Vector, sums: Vector, rows: Vector) -> Pieces:
    weight, residual, squares, actual, actual_squares = sums.sum(axis=0)
    weight = weight or 1.0
    left = squares / weight - (residual / weight) ** 2
    whole = actual_squares / weight - (actual / weight) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums[:, 1] / sums[:, 0]
        explained = float(1 - left / whole) if whole > 1e-24 * actual_squares else float("nan")
    return Pieces(scores / rows[:, None], rows, sums[:, 0], means, float(np.sqrt(max(left, 0.0))), explained)


def _bins(groups: Vector, level: float) -> Bins:
    """Of sums by piece and bin; pieces are put together in batches, which show how dependent rows vary."""
    groups = grouped(groups[:, groups[:, :, 0].sum(axis=0) > 0], BatchMeans.pieces)
    weight, fitted, actual = np.moveaxis(groups.sum(axis=0), -1, 0)
    mean = actual / weight
    if len(groups) < 2:
        return Bins(fitted / weight, mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    off = (groups[:, :, 2] - mean * groups[:, :, 0]) * len(groups) / weight
    found, seen = BatchMeans().spread(off), BatchMeans().spread(groups[:, :, 0])
    with np.errstate(divide="ignore"):
        visits = groups[:, :, 0].mean(axis=0) ** 2 / seen.variance
    return Bins(fitted / weight, mean, found.quantile(level) * np.sqrt(found.variance), visits)


def grouped(pieces: Vector, count: int) -> Vector:
    """Sums over consecutive pieces, so that at most `count` are left."""
    count = min(count, len(pieces))
    return np.asarray(np.add.reduceat(pieces, np.linspace(0, len(pieces), count + 1).astype(int)[:-1], axis=0))


def _correlation(record: Record, problem: ResidualProblem | Multinomial, x: Vector, mean: float) -> Correlation:
    """Of residuals without their mean over the record: of all rows, or of stretches at even spaces."""
    whole = record.length <= STRETCHES * STRETCH
    room = spread_count(record) * (2 if whole else 1)
    size = min(record.length if whole else STRETCH, room)
    count = 1 if size == record.length else min(STRETCHES, record.length // size)
    seen = (at_rows(problem, x, record.take(start + np.arange(size))) for start in _starts(record.length, size, count))
    return _correlated((rows.actual - rows.fitted for rows in seen), mean)


def _starts(rows: int, size: int, count: int) -> NDArray[np.int64]:
    """Where stretches of that size begin, at even spaces."""
    return np.linspace(0, rows - size, count).astype(np.int64)


def _correlated(stretches: Iterable[Vector], mean: float) -> Correlation:
    """Of stretches of residuals, all of one length."""
    total, rows = np.zeros(1), 0
    for left in stretches:
        left, size = left - mean, len(left)
        most = min(MOST_LAGS, size // 4)
        total = total + correlate(left, left, method="fft")[size - 1 : size + most] / (size - np.arange(most + 1))
        rows += size
    values = np.asarray(total / total[0] if total[0] > 0 else np.zeros(len(total)))
    return Correlation(values[: _lags(values, rows) + 1], rows)


def _lags(values: Vector, rows: int) -> int:
    """Lags that are worth showing: twice as far as autocorrelations are beyond what independent rows show."""
    beyond = np.flatnonzero(np.abs(values) > 3 / np.sqrt(rows))
    gaps = np.flatnonzero(np.diff(beyond) > FEWEST_LAGS)  # one that stands alone far out is chance
    last = int(beyond[gaps[0]] if gaps.size else beyond[-1]) if beyond.size else 0
    return min(len(values) - 1, max(FEWEST_LAGS, 2 * last))


def _what(problem: ResidualProblem | Multinomial, actual: Vector) -> str:
    if isinstance(problem, Multinomial):
        return "classes"
    link = getattr(getattr(problem, "link", None), "name", None)
    if link is None:
        return "values"
    if not getattr(problem, "check_targets", True):
        return "responses"
    if link == "exp":  # counts over an exposure are rates
        return "counts" if np.allclose(actual, np.round(actual), atol=1e-6) else "rates"
    return "probabilities" if link in PROBABILITIES else "responses"
