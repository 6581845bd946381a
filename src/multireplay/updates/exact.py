"""The exact fit: the solution for the record's own mean operator, with standard errors under dependence."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.checkpoint import kept_fold
from multireplay.engine.extremes import Largest
from multireplay.engine.sums import Batches, Folding, MomentSum, batch_bounds, fold
from multireplay.errors import FeatureError, InputError
from multireplay.inference.images import Images
from multireplay.inference.left_out import in_place_of, left_out
from multireplay.inference.residuals import distance_of, standard_errors
from multireplay.problems.constrained import affine_vi, well_scaled
from multireplay.problems.residual import refuse_overflow
from multireplay.show.progress import step_bar
from multireplay.updates.base import Found, Needs, Route, Singular, Unsuitable, Update
from multireplay.updates.coarse import coarse_start, has_few_rows, widest
from multireplay.updates.corrections import Corrections, as_epoch, images_of, slope_of
from multireplay.updates.doubts import UNEVEN, free_note, lost_beside_others, wrong_way_note
from multireplay.updates.plain import extreme_samples
from multireplay.updates.rank import Known, known_directions, spanned_by_rows
from multireplay.updates.slope import Slope

if TYPE_CHECKING:
    from multireplay.solving.run import Run

AT_ONCE = 256
"""Up to so many coordinates the moments of every batch are kept, and one pass gives the standard errors too."""
TIGHT = 1e-8
"""Steps of a nonlinear fit end at this distance, in standard errors."""
MOST = 100
ROUNDED = 0.01
"""A fit that rounding may have moved by more standard errors than this is made again in a better basis, …"""
DIGITS = 1e-5
"""… where the reciprocal condition number says that this helps."""


class Fitted(NamedTuple):
    """The fit, what its batches say of it, the distance that rounding or the last step may have left, and passes."""

    x: Vector
    images: Images | None
    distance: float
    passes: float
    notes: tuple[str, ...]
    points: tuple[Vector, ...] = ()


@dataclass(frozen=True)
class Exact(Update):
    """The x with F̂(x) = 0 on the whole record: LSTD, least squares, or the GLM's own fit.

    That is maximum likelihood for the identity, logistic and exp links, and for `Multinomial`; see `GLM`.

    Where the operator is linear, its moments are added up by batches in one pass, at O(d²) a row, in memory or on disk:
    they give the fit and F̂ of every batch at it, and so its standard errors, at once (for more than 256 coordinates a
    second pass does). Otherwise there are Newton steps with the Jacobian of all rows. On a feasible set it is the
    solution of the variational inequality there.

    Features that are combinations of others, or never active, leave directions of which the record says nothing, in
    which x has no part: it is the shortest of all solutions (in policy evaluation among those without a part in
    features that are seen only as the next ones). ``result.free`` and the status name the coordinates. Features that
    are nearly so are fitted in a basis of their own, to the last digit that they have. With fewer rows than features,
    more than 256 of these, all is done in what the rows span, at O(d) for every two of them.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**14, seed=0)
    >>> result = mr.solve(process.problem, buffer, update=mr.Exact())
    >>> result.passes, abs(result.x - process.problem.fit_exactly(buffer)).max() < 1e-9
    (1.0, np.True_)
    """

    route: ClassVar[Route] = "exact"
    needs: ClassVar[Needs] = Needs(
        own_order="mr.Exact() reads the record in order: leave replay=... out",
        no_step="mr.Exact() takes no steps: leave step=... out",
        double="mr.Exact() works in float64: leave precision=... out",
    )

    def run(self, run: Run) -> Found:
        """One pass for the moments, or Newton steps; in a better basis where that is needed."""
        began, record = time.perf_counter(), run.record
        few = run.on_the_whole_space and has_few_rows(record)
        if record.dim > widest(record) and not few:
            raise Unsuitable(f"mr.Exact() is for at most {widest(record)} coordinates; there are {record.dim}")
        if not record.problem.has_jacobian:
            raise Unsuitable(f"mr.Exact() cannot be used here: {run.problem!r} has no Jacobian")
        if run.checkpoint is not None and not can_be_kept(record):
            raise Unsuitable("checkpoint=... is for one sum over the record, and this exact fit is several")
        known = _checked(run, spanned_by_rows(record)) if few else None
        try:
            fitted = self._fitted(run, known)
        except Singular as why:
            if record.problem.users_code:
                raise Unsuitable(f"mr.Exact() cannot be used here: {run.problem!r} has a singular Jacobian") from why
            known = _checked(run, known_directions(record, Folding(run.threads)))
            fitted = self._fitted(run, known)
        passes = fitted.passes + (0 if known is None else known.passes)
        points = fitted.points or (fitted.x,)
        epochs = tuple(as_epoch(k, 1.0, record.length, x, run.track) for k, x in enumerate(points, start=1))
        samples = f"all {record.length} samples" if record.length > 1 else "the one sample"
        what = f"the exact fit of {samples} ({passes:.3g} pass{'es' * (passes != 1)} in all)"
        seconds, free = time.perf_counter() - began, () if known is None else known.groups
        return Found(
            epochs,
            len(epochs) - 1,
            passes,
            seconds,
            what,
            notes=(*free_note(free, run.feature_names, "" if known is None else known.told), *fitted.notes),
            images=fitted.images,
            distance=fitted.distance,
            free=free,
        )

    def _fitted(self, run: Run, known: Known | None) -> Fitted:
        linear = run.record.problem.is_linear
        return (_by_moments if linear and run.record.dim <= AT_ONCE else _by_steps)(run, known)


def _checked(run: Run, known: Known) -> Known:
    """Raise where nothing is known, or a feature that seems never to be active is only too small to be squared."""
    never = [group[0] for group in known.groups if len(group) == 1]
    largest, found = Largest(run.record.problem, partial(_largest, never)), 0.0
    if run.record.problem.by_feature and never:
        found = fold(run.record, largest, how=Folding(run.threads))[0][0]
    if found > 0:
        what = f"has values of at most {found:.3g}, whose squares are 0 in float64: multiply its column by their size"
        raise FeatureError(never[0], what)
    if not known.basis.size:
        raise InputError("there is nothing to fit: every feature in the buffer is 0, or every weight")
    return known


def _largest(features: list[int], samples: Any) -> float:
    rows = None if getattr(samples, "weights", None) is not None else getattr(samples, "features", None)
    return float(np.abs(rows[:, features]).max()) if isinstance(rows, np.ndarray) else 0.0


def can_be_kept(record: Record) -> bool:
    """Whether an exact fit is one sum, of which a checkpoint can be made."""
    return record.problem.is_linear and record.dim <= AT_ONCE


def _by_moments(run: Run, known: Known | None) -> Fitted:
    """The fit and its standard errors from the moments of every batch."""
    record, basis = run.record, None if known is None else known.basis
    dim, bounds = record.dim if basis is None else basis.shape[1], batch_bounds(record.length, record.dim)
    with step_bar(record.length, "rows") if run.progress else nullcontext(lambda rows: None) as advanced:
        how, sums, kept = Folding(run.threads, advanced), MomentSum(record.problem, dim, basis), run.checkpoint
        totals = fold(record, sums, bounds, how) if kept is None else kept_fold(record, sums, bounds, how, kept)
    matrices, vectors = (np.array([total[place] for total in totals]) for place in (0, 1))
    if not np.isfinite(matrices).all():
        refuse_overflow(extreme_samples(record, run.start, run.threads).features)
    ridge = record.problem.penalty_diagonal(record.dim)
    slope = slope_of(matrices.sum(axis=0) / record.length, ridge, basis)
    back = np.eye(dim) if basis is None else basis
    z, move = _solved(run, slope, vectors.sum(axis=0) / record.length, back)
    x = back @ z
    means = (matrices @ z - vectors) / np.diff(bounds)[:, None] + back.T @ (ridge * x)
    values = slope.images(means) if slope.dependable else np.full((len(means), record.dim), np.nan)
    error = standard_errors(values) if slope.dependable else np.full(record.dim, np.inf)
    distance = distance_of(move, error, x, slope.scale)
    if distance > ROUNDED and known is None and run.on_the_whole_space and slope.condition < DIGITS:
        raise Singular("some features are so nearly combinations of others that digits are lost")
    scores, sizes = means if basis is None else means @ np.linalg.pinv(basis), np.diff(bounds)
    images: Images | None = None
    if not run.on_the_whole_space:
        images = images_of(run, x, Batches(scores, sizes), slope)
    elif slope.dependable:
        rows = sizes.astype(np.float64)
        gradient, within = record.problem.is_gradient, back.T @ (ridge[:, None] * back)
        without = left_out(matrices, means, rows, within, gradient) @ back.T
        images = Images(in_place_of(without, values), scores, rows, slope.solve, left_out=True)
    notes = wrong_way_note(run, slope)
    if not run.on_the_whole_space and lost_beside_others(well_scaled(slope.full, run.feasible)[1]):
        notes = (*notes, UNEVEN)
    return _shortest(Fitted(x, images, distance, 1.0, notes), known)


def _solved(run: Run, slope: Slope, vector: Vector, back: Vector) -> tuple[Vector, Vector]:
    """The solution of the linear problem, and what rounding may have moved it by."""
    if not run.on_the_whole_space:
        scale, matrix, feasible = well_scaled(slope.full, run.feasible)
        z = affine_vi(matrix, scale * vector, feasible, run.start / scale).x
        size = float(np.abs(matrix).sum(axis=0).max()) or 1.0
        if lost_beside_others(matrix):
            return scale * z, np.full(len(z), np.inf)
        return scale * z, scale * (z - feasible.projected(z - (matrix @ z - scale * vector) / size))
    if not slope.dependable:
        raise Singular("some features are all but combinations of others")
    z = slope.images(vector[None, :], inside=True)[0]
    lost = np.finfo(np.float64).eps / slope.condition
    return z, lost * slope.scale * float(np.abs(back @ z / slope.scale).max(initial=0.0))


def _by_steps(run: Run, known: Known | None) -> Fitted:
    """Newton steps with the Jacobian of all rows, from where rows spread over the record lead.

    If one of the others rules there, so that the Jacobian is singular, they are made from the start of the run.
    """
    spent = 0.0
    if not run.record.problem.is_linear:
        try:
            found = _steps_from(coarse_start(run.record, run.start), run, known)
            if found.images is not None or found.notes:
                return found
            spent = found.passes
        except Singular:
            spent = 1.0
    found = _steps_from(run.start, run, known)
    return found._replace(passes=found.passes + spent)


def _steps_from(start: Vector, run: Run, known: Known | None) -> Fitted:
    if known is not None:
        start = known.basis @ np.linalg.lstsq(known.basis, start, rcond=None)[0]
    steps = Corrections(run, TIGHT, run.passes or MOST, known=known)
    points = steps.of(start if run.on_the_whole_space else run.feasible.projected(start), None)
    found = Fitted(points[-1], steps.images, steps.distance, float(steps.passes), steps.notes, tuple(points))
    return _shortest(found, known)


def _shortest(fitted: Fitted, known: Known | None) -> Fitted:
    if known is None:
        return fitted
    images = fitted.images and replace(fitted.images, unknown=known.unknown)
    points = tuple(known.shortest(np.array(fitted.points))) if fitted.points else ()
    return fitted._replace(x=known.shortest(fitted.x[None, :])[0], images=images, points=points)
