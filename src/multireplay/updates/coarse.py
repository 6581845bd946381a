"""The coarse epoch: samples spread evenly over the record, fitted, and the Jacobian there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.foreign import WIDE, Array, ForeignColumn, array_of, like, namespace
from multireplay.buffer.record import Record
from multireplay.updates.base import Unsuitable
from multireplay.updates.products import EVEN, Products
from multireplay.updates.samples import COARSE, Samples
from multireplay.updates.slope import POWER_STEPS, Slope

PER_COORDINATE = {True: 8, False: 16}
"""Samples of the coarse epoch for each coordinate, or `COARSE` if that is more. Fewer where the operator is a gradient:
J⁻¹ of so many rows is right to about a third, and a TD operator's J is a difference of which more rows are needed."""
MULTIPLIED = 6_500_000
"""And where it is not one, as many as this over the coordinates, up to 2^15: their matrix costs about a pass then."""
ELSEWHERE = 2**16
"""Samples on a device, where products of matrices cost less beside reading, and up to …"""
MORE, NUMBERS = 2**18, 2**26
"""… so many, if they are no more than so many numbers. Where products of halves are quick, as many as …"""
SHARE = 6
"""… a row of so many, …"""
SEVERAL = 3 * 2**16
"""… but these at most where there are many coordinates and the operator is no gradient: more save no pass."""
MOST_NUMBERS = 2**28
"""Numbers that the samples of a coarse epoch may have at most: a gigabyte in single precision."""
SETTLING = 4
SETTLED = 0.05
"""Corrections on the samples end when one is below this share of the first."""
ROUNDED, LITTLE = 4e-7, 0.25
"""What rounding does to an entry of a matrix in single precision at most, and the share of an error that may survive
for it: about what survives a correction anyway, for the Jacobian is that of some rows."""
ROUGH = 1e-3
"""The reciprocal condition number above which a rough Jacobian is as good."""
DOUBTFUL = 0.7
"""A coarse epoch whose halves disagree about the Jacobian by this share of it is not to be relied on, …"""
FEW = 400.0
"""… nor one that has fewer rows than this, in effect, for some feature."""
FEW_FEATURES, MOST_ROWS = 256, 4096
"""A record with more features, and fewer rows than features and than this, is fitted in what its rows span."""
WIDEST, WIDEST_OF_FEW = 4096, 6144
"""Beyond so many coordinates a d × d matrix is too much for an exact fit, …"""
FEW_A_COORDINATE = 4
"""… unless there are fewer rows than this for every coordinate, in memory: steps hardly get anywhere there."""


@dataclass(frozen=True, eq=False)
class Coarse:
    """A fit x of samples spread evenly over the record, and F̂'s Jacobian close to it.

    Half the difference between the Jacobians of the odd and the even samples is as large as the error of J itself.
    """

    x: Vector
    slope: Slope
    rate: float
    """‖J⁻¹ · half‖: how much of an error may survive a correction."""
    rows: int
    effective: float
    """Rows that the worst known feature is as good as, if it were about as large in all of them."""
    samples: Samples
    half: Array
    """Half the difference between the Jacobians of the odd and the even samples, in units of their scale, if known."""

    def is_doubtful(self, rate: float, rows: float) -> bool:
        """Whether the halves disagree by more than that rate, or some feature is known from fewer rows."""
        return self.rate > rate or self.effective < rows

    def ageing(self, x: Vector, move: Vector) -> float:
        """By what share the diagonal of J changes at most from x to x + move on the samples; NaN where it is lost."""
        return self.samples.ageing(*(point / self.samples.scale for point in (x, x + move)))

    def reach(self, x: Vector) -> float:
        """The largest score of the samples at x; infinite where they have no dense features to tell."""
        features: Any = self.samples.features
        if not isinstance(features, np.ndarray | ForeignColumn):
            return np.inf
        rows = array_of(features)
        xp = namespace(rows)
        return float(xp.max(xp.abs(rows @ like(self.samples.place(x / self.samples.scale), rows))))


def usual_rows(record: Record) -> int:
    """Samples of the coarse epoch of a record in memory or on disk."""
    gradient, dim = record.problem.is_gradient, record.dim
    more = 0 if gradient or dim <= 64 else min(4 * COARSE, MULTIPLIED // dim)
    return min(record.length, max(COARSE, more, PER_COORDINATE[gradient] * dim))


def has_few_rows(record: Record) -> bool:
    """Whether a record has fewer rows than features, and many of these: d × d matrices say no more than the rows do."""
    features = getattr(record.example, "features", None)
    if not isinstance(features, np.ndarray) or not record.problem.on_host or record.problem.users_code:
        return False
    width = features.shape[1]
    left_out = np.count_nonzero(record.problem.penalty_diagonal(record.dim)[:width] == 0)
    return max(FEW_FEATURES, record.length) < width and record.length <= MOST_ROWS and left_out in (0, 1, width)


def widest(record: Record) -> int:
    """How many coordinates an exact fit of the record may have."""
    few = record.length < FEW_A_COORDINATE * record.dim and not record.on_disk and record.problem.on_host
    return WIDEST_OF_FEW if few else WIDEST


def coarse_rows(record: Record) -> int:
    """Samples of the coarse epoch of a record; more of them on a device, where a pass costs more than their matrix."""
    if record.problem.on_host:
        return usual_rows(record)
    more = min(MORE, NUMBERS // record.dim)
    if record.problem.quick_products and record.dim >= WIDE:
        more = max(more, min(MORE if record.problem.is_gradient else SEVERAL, record.length // SHARE))
    return min(record.length, max(ELSEWHERE, more, usual_rows(record)), MOST_NUMBERS // record.dim)


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
    quick = record.problem.quick_products and record.dim >= WIDE
    for precision, rough in [(np.float32, True)] * quick + [(np.float32, False), (np.float64, False)]:
        samples = Samples.spread(record, rows, precision)
        samples.rough = rough
        if samples.never:
            raise Unsuitable(f"{samples.never} of {record.dim} features are 0 in all of {rows} rows")
        found = _fit(samples, x0 / samples.scale, rows, rows < record.length)
        if found.slope.dependable and not (rough and found.slope.condition < ROUGH):
            return found
    raise Unsuitable("some features are all but combinations of others")


def coarse_start(record: Record, x0: Vector) -> Vector:
    """A point close to the exact fit, as far as rows spread over the record tell: where exact steps begin."""
    samples = Samples.spread(record, coarse_rows(record), np.float64)
    return np.asarray(samples.scale * samples.start(x0 / samples.scale))


def _fit(samples: Samples, z0: Vector, rows: int, some: bool) -> Coarse:
    linear, z = samples.problem.is_linear, samples.start(z0)
    effective = samples.effective(z) if some else np.inf
    if Products.suit(samples) and (products := Products(samples, z)).condition > EVEN:
        slope = Slope(None, samples.scale, rows if some else None, products)
        return Coarse(samples.scale * z, slope, 0.0, rows, effective, samples, None)
    first, second = samples.jacobians(z)
    whole, half, rate = first + second, first - second, np.inf
    whole /= 2
    half /= 2
    slope = _slope(whole, samples.scale, rows if some else None)
    if slope.dependable:
        half = half.astype(slope.factors.kind, copy=False) if isinstance(half, np.ndarray) else half
        rate = slope.factors.rate(half, POWER_STEPS)
    found = Coarse(samples.scale * z, slope, rate, rows, effective, samples, half)
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


def _slope(matrix: Array, scale: Vector, rows: int | None) -> Slope:
    """The slope of a matrix in single precision; dividing by it may need more digits than it has itself."""
    found = Slope(matrix, scale, rows)
    if found.dependable or not isinstance(matrix, np.ndarray) or matrix.dtype != np.float32:
        return found
    wide = Slope(matrix.astype(np.float64), scale, rows)
    lost = ROUNDED * np.sqrt(len(scale))  # of random signs: the norm of the matrix of what rounding did to every entry
    return wide if wide.dependable and lost * wide.factors.rate(np.eye(len(scale)), POWER_STEPS) < LITTLE else found
