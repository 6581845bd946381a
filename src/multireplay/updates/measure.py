"""How far a point is from the exact fit, whatever led to it."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.foreign import as_numpy
from multireplay.buffer.record import MemoryRecord, Record
from multireplay.engine.sums import (
    BATCHES,
    Batches,
    Folding,
    OperatorSum,
    Part,
    batch_bounds,
    fold,
    one_thread_each,
    operator_batches,
)
from multireplay.inference.doubts import settled_by_penalty
from multireplay.inference.images import Images
from multireplay.inference.left_out import MULTIPLICATIONS, WIDEST_HELD, in_place_of, left_out
from multireplay.inference.residuals import distance_of, standard_errors
from multireplay.problems.base import as_double
from multireplay.problems.constrained import affine_vi
from multireplay.problems.glm import GLM
from multireplay.problems.multinomial import Multinomial
from multireplay.problems.packed import alike
from multireplay.updates.base import Singular, Unsuitable
from multireplay.updates.coarse import MOST_NUMBERS, coarse_rows
from multireplay.updates.corrections import AFFORDABLE, CHEAP, PRODUCTS, Corrections, images_of, linearized
from multireplay.updates.rank import known_directions
from multireplay.updates.samples import COARSE, Samples, mean_squares
from multireplay.updates.slope import Slope

if TYPE_CHECKING:
    from multireplay.buffer.columns import Columns
    from multireplay.problems import Problem
    from multireplay.solving.run import Run

FEWEST = 4
"""Rows of which a variance under dependence can be made at all."""
WIDEST = 4096
BENT = 512
"""Rows that show how curved the operator is."""
PULLED, LET_GO, DIGITS, SAYS, FAR, CLOSE = 3.0, (1e-5, 1e-9), 1e-14, 1e4, 40, 0.1
"""A penalty that moves a fit by more standard errors is let go to these shares, where numbers have digits, in so many
steps. Of what is separable the record says some 30 times as much as what is left; a fit, more than a hundred times."""


class Measured(NamedTuple):
    """The distance of a point to the exact fit in standard errors of the worst coordinate, and these, where known."""

    distance: float
    error: Vector | None


def measured(run: Run, x: Vector) -> Measured:
    """The distance of x to the exact fit, in one pass over the record: −J⁻¹F̂(x), with the Jacobian of spread rows.

    On a feasible set it leads to the solution of the problem that is linearized at x. Where no Jacobian is known, or
    spread rows do not settle it, F̂(x) itself (on a set, what is left of it) is taken, in its own standard errors.
    """
    record = run.record
    batches = operator_batches(record, [x], Folding(run.threads))[0]
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isinf(standard_errors(batches.means)).any():  # x is where the operator itself is beyond all bounds
            return Measured(np.inf, None)
    try:
        slope = slope_at(record, x)
    except Unsuitable:
        return Measured(_of_operator(run, batches, x), None)
    error = standard_errors(slope.solve(batches.means))
    if run.on_the_whole_space:
        move = -slope.solve(batches.mean[None, :])[0]
    else:
        move = affine_vi(slope.full, slope.full @ x - batches.mean, run.feasible, x).x - x
    return Measured(distance_of(move, error, x, slope.scale), error)


def images_at(run: Run, x: Vector) -> Images:
    """What the batches of the record say of an answer that came without: in one pass, or a few where J is singular.

    J is that of all rows where it costs little more than the pass itself, and otherwise of rows spread over the record,
    if these settle it. `Unsuitable`, with the reason as a sentence, where there is nothing to divide by.
    """
    record, how = run.record, Folding(run.threads)
    if record.length < FEWEST:
        raise Unsuitable(f"{record.length} rows are too few to see how they vary")
    if not record.problem.has_jacobian:
        raise Unsuitable(f"{run.problem!r} has no Jacobian, which standard errors are made with")
    x = record.problem.evaluable(x)
    if 1 + record.dim / PRODUCTS / 2 > CHEAP:
        try:
            slope = slope_at(record, x)
            return images_of(run, x, operator_batches(record, [x], how)[0], slope)
        except Unsuitable as why:
            if record.dim > WIDEST or record.length * record.dim**2 > AFFORDABLE:
                raise Unsuitable(
                    f"{record.dim} coordinates are too many for a Jacobian of all rows, and {why}"
                ) from why
    batches, slope, _ = linearized(record, x, None, how)
    if slope.dependable or not run.on_the_whole_space:
        return images_of(run, x, batches, slope)
    if record.problem.users_code:
        raise Unsuitable(f"{run.problem!r} has a singular Jacobian")
    known = known_directions(record, how)
    if not known.basis.size:
        raise Unsuitable("every feature in the buffer is 0")
    batches, slope, _ = linearized(record, x, known.basis, how)
    if not slope.dependable:
        raise Unsuitable("the operator does not change any more in some direction, as where the fit does not exist")
    return replace(images_of(run, x, batches, slope), unknown=known.unknown)


class BatchJacobians(OperatorSum):
    """Σ_t F̃(x, ξ_t) and Σ_t of its derivative at x, both by stretches, without the penalty."""

    def __init__(self, problem: Problem, x: Vector) -> None:
        super().__init__(problem, x[None, :])
        self.least = max(16, 2 * len(x))

    def zero(self) -> Part:
        return *super().zero(), np.zeros((self.points.shape[1],) * 2)

    @np.errstate(over="ignore", invalid="ignore")
    def of(self, block: Columns) -> Part:
        wide = as_double(block)
        matrix = self.problem.jacobian_sum(self.points[0], wide)
        return *super().of(wide), matrix if self.problem.on_host else as_numpy(matrix)


def left_out_at(run: Run, x: Vector, images: Images, pieces: int = BATCHES) -> Images:
    """Images of so many batches with each left out in turn, in one pass over the record; as they are if it is much."""
    record, problem, penalty = run.record, run.record.problem, run.record.problem.penalty_diagonal(len(x))
    if record.dim > WIDEST_HELD or record.length * record.dim**2 > MULTIPLICATIONS:
        return images
    x, bounds = problem.evaluable(x), batch_bounds(record.length, record.dim, pieces)
    rows = np.diff(bounds).astype(np.float64)
    with one_thread_each() if problem.on_host else nullcontext():
        if isinstance(problem, GLM) and is_one_block(record):
            sums, matrices = jacobians_of(problem, x, as_double(record.spread(record.length)), bounds)
        else:
            totals = fold(record, BatchJacobians(problem, x), bounds, Folding(run.threads))
            sums, matrices = np.array([total[0][0] for total in totals]), np.array([total[1] for total in totals])
        scores = sums / rows[:, None] + penalty * x
        scores -= rows / rows.sum() @ scores  # which is 0 at the fit
        found = left_out(matrices, scores, rows, np.diag(penalty), problem.is_gradient)
    plain = images.values if len(images.values) == len(rows) else images.of(scores)
    return replace(images, values=in_place_of(found, plain), scores=scores, rows=rows, left_out=True)


def is_one_block(record: Record) -> bool:
    """Whether all rows are one block of dense features: each of 32 batches would be a block of its own in a sum."""
    dense = record.problem.on_host and isinstance(record.head()["features"], np.ndarray)
    return dense and record.length <= record.block_rows(1)


@np.errstate(over="ignore", invalid="ignore")
def jacobians_of(problem: GLM, x: Vector, columns: Columns, bounds: Positions) -> tuple[Vector, Vector]:
    """What `BatchJacobians` adds up on every batch of these rows, of shapes (B, d) and (B, d, d), at once."""
    rows, errors, slopes = problem.rows(columns), problem.residuals_at(x, columns), problem.slopes(x, columns)
    half = rows if slopes is None else rows * np.sqrt(np.maximum(slopes, 0))[:, None]
    sums, matrices = np.empty((len(bounds) - 1, len(x))), np.empty((len(bounds) - 1, len(x), len(x)))
    for which, turns, some in alike(len(rows), tuple(bounds[:-1].tolist())):  # those of one length by one call
        part, root = (every.reshape(turns, -1, len(x))[:, some] for every in (rows, half))
        np.matmul(errors.reshape(turns, 1, -1)[:, :, some], part, out=sums[which, None])
        np.matmul(root.transpose(0, 2, 1), root, out=matrices[which])  # of one with itself: half the work
    return sums, matrices


def held_at(run: Run, x: Vector, images: Images, pulled: float) -> Vector | None:
    """Directions that only the penalty settles, which moves x by so many standard errors; None where there are none.

    A curved fit runs away in some where data are separable, in part or altogether (Albert and Anderson 1984). There
    rows are as curved as the penalty is, which is let go to see it: in spread rows first, where rows are many.
    """
    record, problem = run.record, cast("GLM", run.problem)
    settled = found = settled_by_penalty(images, penalties := problem.penalty_diagonal(len(x)))
    bent = record is not None and not problem.is_linear and isinstance(record.problem, GLM | Multinomial)
    if not (bent and PULLED < pulled < np.inf and run.on_the_whole_space):
        return settled
    rows, penalty = record.spread(COARSE), problem.penalty
    least = DIGITS * float(mean_squares(problem, rows).max()) / penalty.ridge
    for part in (*[MemoryRecord(problem, rows)] * (record.length > COARSE), copy(record)):
        found, part.problem = None, (less := copy(problem))
        for share in (min(LET_GO[0], max(share, least)) for share in LET_GO):
            less.penalty = replace(penalty, ridge=share * penalty.ridge)
            steps = Corrections(replace(run, record=part, checkpoint=None, progress=False), CLOSE, FAR)
            with suppress(Singular):
                x = steps.of(x, None)[-1]
            if steps.seen is None:  # numbers have no more digits
                break
            less.penalty = replace(penalty, ridge=SAYS * share * penalty.ridge)
            slope = linearized(part, x, None, Folding(run.threads))[1]
            found = settled_by_penalty(replace(images, through=slope.solve), SAYS * share * penalties)
            if found is None:
                return settled
    return settled if found is None else found


def is_bent(problem: Problem) -> TypeGuard[GLM]:
    """Whether curvature may move the fit: for probabilities it stretches x and its standard errors alike."""
    return isinstance(problem, GLM) and problem.has_jacobian and not (problem.is_linear or problem.has_probabilities)


def bias_at(run: Run, x: Vector, images: Images) -> Vector | None:
    """What curvature moves the fit by on average, −½J⁻¹F̂''(x) : Var(x), from spread rows; None where it is not known.

    Where x varies around a point, F̂ has ½F̂'' : Var(x) more on average than there, and the fit makes it 0 (Cox and Snell
    1968; here Var(x) is that of the batches, and so right under dependence). This is of the order of d/n where a
    standard error is of 1/√n: with d² independent rows the two are alike.
    """
    problem, count = run.record.problem, len(images.values)
    if images.through is None or not is_bent(problem):
        return None
    moves = (images.values - np.add.reduce(images.values) / count) / np.sqrt(count * (count - 1.0))
    with one_thread_each():
        pull = problem.bend(x, run.record.spread(BENT), moves)
    return None if pull is None or not np.isfinite(pull).all() else -images.of(pull[None, :])[0]


def _of_operator(run: Run, batches: Batches, x: Vector) -> float:
    left, parts = batches.mean, batches.means
    if not run.on_the_whole_space:
        left, parts = x - run.feasible.projected(x - left), np.array([x - run.feasible.projected(x - m) for m in parts])
    return distance_of(left, standard_errors(parts), x, np.ones_like(x))


def slope_at(record: Record, x: Vector) -> Slope:
    """J⁻¹ at a point, from rows spread over the record; `Unsuitable` where they do not settle it."""
    if not record.problem.has_jacobian or coarse_rows(record) * record.dim > MOST_NUMBERS:
        raise Unsuitable("no Jacobian is known")
    samples = Samples.spread(record, coarse_rows(record), np.float64)
    rows = samples.count if samples.count < record.length else None
    first, second = samples.jacobians(x / samples.scale)
    slope = Slope((first + second) / 2, samples.scale, rows)
    if not slope.dependable:
        raise Unsuitable("some features are all but combinations of others")
    return slope
