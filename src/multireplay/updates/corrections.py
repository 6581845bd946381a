"""Corrections of a fit by passes over the whole record, until what is left of them is noise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.checkpoint import KeptPasses
from multireplay.engine.sums import Batches, Folding, Linearization, as_batches, batch_bounds, grouped
from multireplay.inference.images import Images
from multireplay.inference.on_set import OnSet
from multireplay.inference.residuals import distance_of, standard_errors
from multireplay.problems.constrained import affine_vi
from multireplay.result import CONVERGED, Epoch
from multireplay.show.progress import step_bar
from multireplay.tracking import Track, curve_at_the_end
from multireplay.updates.base import Singular
from multireplay.updates.coarse import DOUBTFUL, FEW, Coarse
from multireplay.updates.doubts import FAR_OUT, runaway_note, wrong_way_note
from multireplay.updates.rank import Known, SlopeIn
from multireplay.updates.slope import Slope, batch_images, with_diagonal

if TYPE_CHECKING:
    from multireplay.solving.run import Run

AGED, MUCH_AGED = 0.1, 0.5
"""By what share the Jacobian may change on the way of a first correction, where one of all rows is cheap, and not."""
BEYOND = 3.0
"""A correction that leaves so many times what the halves of the coarse epoch say has an aged Jacobian."""
CONTRACTS = 0.1
"""Where a step with the Jacobian of all rows is larger than this share of the one before, the next has a new one."""
LONG = 3.0
"""A correction of so many standard errors leads to where the Jacobian is another."""
PATIENCE = 12
"""After so many corrections it is asked whether the fit exists at all."""
TRIES = 14
"""A correction is not shortened more often than this."""
SETTLES = 2
"""Corrections after which their acceleration shows how fast they are."""
LEAVES = 0.25
"""A correction of a nonlinear problem leaves as much as the halves of the samples differ by, or the Jacobian changes on
the way, up to this, even where two corrections shrink by more: the slowest direction may be hidden."""
SURELY = 0.7
"""Corrections end at this share of the tolerance: the estimate of a distance is not sure to more."""
LATE = 5
"""After so many corrections what is left is where some rows' Jacobian is too large, which they undo most slowly."""
NEAR = 30.0
"""Standard errors are taken from batches at a point that is at most so many of them away from the answer."""
CHEAP = 4.0
"""Where the halves of the coarse epoch disagree, all rows are taken if that costs no more than so many passes, …"""
HOPELESS = 30.0
"""… and in any case where some feature is known from so few rows: corrections would know nothing of it."""
PRODUCTS = 16.0
"""Multiplications that a product of matrices does in the time in which one number is read from memory."""
AFFORDABLE = 1e12
"""Multiplications for a Jacobian of the whole record that are always allowed, …"""
PASSES_WORTH = 300
"""… and otherwise as many as so many passes need."""
WIDEST_KEPT = 1024
"""Up to so many coordinates a result keeps the inverse Jacobian, for estimators that need more pieces than batches."""


class _Step(NamedTuple):
    """A point, the correction there, the slope it was made with, standard errors as it sees them, the loss, and F̂."""

    x: Vector
    move: Vector
    slope: Slope
    error: Vector
    loss: float
    mean: Vector

    @property
    def units(self) -> Vector:
        """The standard errors, and 1 where there is none to go by."""
        return np.where((self.error > 0) & np.isfinite(self.error), self.error, 1.0)

    @property
    def size(self) -> float:
        """The length of the correction in standard errors."""
        return float(np.linalg.norm(self.move / self.units))

    def back_from(self, x: Vector, loss: float, mean: Vector) -> Vector:
        """A point nearer than x, where the loss is larger: half-way, or where the tangents at both ends meet before it.

        That is where a single row turns the loss round, which is all but straight on both sides of it. It may be beyond
        the middle where the loss has not risen by more than it was to fall.
        """
        way, rise = x - self.x, loss - self.loss
        here, there = float(self.mean @ way), float(mean @ way)
        share = (there - rise) / (there - here) if there > here else np.nan
        return np.asarray(self.x + (share if 0 < share < (0.5 if rise > -here else 1.0) else 0.5) * way)


class Corrections:
    """x ← x − J⁻¹F̂(x) until what is left of it is noise.

    Where J is not good enough for the plain correction to do, the corrections so far are combined to the point at
    which the next one is expected to be shortest (Anderson 1965); on a linear problem these are GMRES steps. A point
    at which the correction is longer than before is taken back half-way.
    """

    def __init__(
        self, run: Run, tolerance: float, most: int, all_of_them: bool = False, known: Known | None = None
    ) -> None:
        self.run, self.tolerance, self.most, self.all_of_them, self.known = run, tolerance, most, all_of_them, known
        self.record = run.record
        self.kept = None if run.checkpoint is None else KeptPasses(run.record, run.checkpoint)
        self.whole, self.passes = 0, 0
        self.coarse: Coarse | None = None
        self.error: Vector = np.full(run.record.dim, np.inf)
        self.seen: tuple[Vector, Batches, Slope, Vector | None] | None = None
        self.aged, self.distance = 0.0, np.inf
        self.notes: tuple[str, ...] = ()

    def from_rows(self, coarse: Coarse) -> list[Vector]:
        """The corrections of a coarse fit."""
        doubtful = coarse.is_doubtful(*((DOUBTFUL, FEW) if self.price <= CHEAP else (np.inf, HOPELESS)))
        self.coarse = coarse
        rate = max(coarse.rate, np.sqrt(self.record.dim / coarse.rows))  # one difference may be small by chance
        start = coarse.x if self.run.on_the_whole_space else self.run.feasible.projected(coarse.x)
        return self.of(start, None if doubtful and is_affordable(self.record) else coarse.slope, rate)

    @property
    def images(self) -> Images | None:
        """What the batches of the last pass say of the answer; None where the fit was given up.

        Where the samples know some feature from few rows only, their Jacobian is given the diagonal of all rows.
        """
        seen, coarse = self.seen, self.coarse
        if seen is not None and coarse is not None and seen[2] is coarse.slope and coarse.effective < FEW:
            seen = (*seen[:2], with_diagonal(self.record, seen[2], seen[0], self.run.threads), None)
        found = None if seen is None else images_of(self.run, *seen)
        return found if found is None or self.record.dim <= WIDEST_KEPT else replace(found, through=None)

    @property
    def price(self) -> float:
        """What a Jacobian of all rows costs, in passes without one."""
        return 1 + self.record.dim / PRODUCTS / 2

    def is_slow(self, ratio: float) -> bool:
        """Whether corrections that shrink so little cost more to the end than a Jacobian of all rows."""
        if not ratio < 1:
            return True
        return bool(np.log(self.distance / self.tolerance / SURELY) / -np.log(max(ratio, 1e-9)) > self.price + 1)

    def of(self, x: Vector, slope: Slope | None, rate: float = 1.0) -> list[Vector]:
        """The corrections from x on, with the slope of some rows, or of all of them where there is none.

        `rate` is how much of the first correction may be left after it, as far as is known.
        """
        done: list[Vector] = []
        tries, careful = 0, False
        last: _Step | None = None
        trail: list[_Step] = []
        while True:
            fresh, loss, x = slope is None, np.nan, self.record.problem.evaluable(x)
            if slope is None:
                batches, slope, loss = self._linearized(x)
                images = slope.solve(batches.means) if slope.dependable else batches.means
            else:
                batches, images = self._pass(x, slope)
            if last is not None and self._is_worse(last, x, loss, batches, images if slope is last.slope else None):
                if len(done) >= self.most or tries == TRIES:
                    return self._ended([*done, last.x], last)
                x, slope = last.back_from(x, loss, batches.mean), None if np.isfinite(loss) else last.slope
                done.append(x)
                tries, careful = tries + 1, careful or bool(np.isfinite(loss))
                continue
            tries = 0
            if not slope.dependable and self.run.on_the_whole_space:
                if self.known is None and not done:
                    raise Singular("some features are all but combinations of others")
                return self._given_up(done or [x])
            self.error, self.seen = standard_errors(images), (x, batches, slope, None if slope.rough else images)
            now = _Step(x, self._move(x, slope, batches, images), slope, self.error, loss, batches.mean)
            if not done and not fresh and self._is_aged(now):
                x, slope = self._careful_start(x), None
                continue
            before = 0.0 if last is None else last._replace(error=self.error).size  # in the same units
            ratio = rate if last is None else now.size / before if before else 0.0
            trusted = self.record.problem.is_linear and not fresh
            if fresh:
                trail = []
                ratio = 0.0 if self.record.problem.is_linear else min(1.0, ratio)
            trail.append(now)
            x = self._combined(trail)
            done.append(x)
            away = distance_of(now.move, self.error, x, slope.scale)
            least = CONTRACTS if fresh else min(LEAVES, max(rate, self.aged))
            left = ratio if self.record.problem.is_linear else max(ratio, least)
            slowest, surely = (slope.slowest, 1.0) if len(trail) > LATE else (1.0, SURELY)
            self.distance = min(1.0, left) * away / slope.damping / slowest
            there = away <= NEAR and (last is not None or trusted)  # or a misfit elsewhere makes the errors large
            there = there and self.distance <= surely * self.tolerance
            if len(done) >= self.most or (there and not self.all_of_them):
                return self._ended(done, now)
            if len(done) % PATIENCE == 0 and (found := runaway_note(self.run, x, now.move)):
                self.distance, self.notes = np.inf, found
                return done
            if is_affordable(self.record) and (
                careful or self._is_stale(now, ratio, len(trail))
            ):  # the loss comes with it
                slope = None
            last = now

    def _is_stale(self, now: _Step, ratio: float, corrections: int) -> bool:
        """Whether a Jacobian of all rows is due at the next point, after so many corrections with this one.

        One of all rows is stale where a correction is long or leaves more than a little; one of some rows where it
        leaves far more than their halves say, if another is cheap, or where corrections will take longer than one.
        """
        if self.coarse is None or now.slope is not self.coarse.slope:
            return ratio > CONTRACTS or (now.size > LONG and not self.record.problem.is_linear)
        if corrections > 1 and self.price <= CHEAP and ratio > max(CONTRACTS, BEYOND * self.coarse.rate):
            return True
        return corrections > SETTLES and self.is_slow(ratio)

    def _is_aged(self, first: _Step) -> bool:
        """Whether the Jacobian of the samples changes on the way of their first correction: all rows are due then."""
        if self.coarse is None:
            return False
        self.aged = self.coarse.ageing(first.x, first.move)
        return is_affordable(self.record) and not self.aged <= (AGED if self.price <= CHEAP else MUCH_AGED)

    def _careful_start(self, x: Vector) -> Vector:
        """Where the samples say nothing of some rows that matter: their fit, or the start where the loss is less."""
        losses = [self._linearized(point)[2] for point in (x, self.run.start)]
        return self.run.start if losses[1] < losses[0] or not np.isfinite(losses[0]) else x

    def _is_worse(self, last: _Step, x: Vector, loss: float, batches: Batches, images: Vector | None) -> bool:
        """Whether x is further from the fit than the point before it: by the loss, if that is known at both.

        Otherwise by the correction, as the slope there sees it. A linear problem needs no such care.
        """
        if self.record.problem.is_linear:
            return False
        if np.isfinite(last.loss) and np.isfinite(loss):
            return loss > last.loss + 1e-12 * abs(last.loss)
        images = last.slope.solve(batches.means) if images is None else images
        return not last._replace(move=self._move(x, last.slope, batches, images)).size < last.size

    def _ended(self, done: list[Vector], last: _Step) -> list[Vector]:
        """What was done, with what is to be said of it."""
        linear = self.record.problem.is_linear
        near = linear or (self.coarse is not None and self.coarse.reach(done[-1]) < FAR_OUT)
        runaway = () if near else runaway_note(self.run, done[-1], last.move, self.distance > CONVERGED)
        self.distance = np.inf if runaway else self.distance
        half = None if self.coarse is None or last.slope is not self.coarse.slope else self.coarse.half
        self.notes = (*runaway, *(wrong_way_note(self.run, last.slope, half) if linear else ()))
        return done

    def _given_up(self, done: list[Vector]) -> list[Vector]:
        """What was done up to a point at which the operator does not change any more in some direction."""
        self.distance, self.error, self.seen = np.inf, np.full(self.record.dim, np.inf), None
        self.notes = runaway_note(self.run, done[-1], done[-1] - done[max(0, len(done) - 3)])
        return done

    def _pass(self, x: Vector, slope: Slope) -> tuple[Batches, Vector]:
        """F̂ at x by batches, and J⁻¹ times each of them."""
        self.passes += 1
        with self._told() as advanced:
            how = Folding(self.run.threads, advanced)
            if self.kept is None:
                return batch_images(self.record, x, slope, how)
            batches = self.kept.batches(x, how)
            return batches, slope.glance(batches)

    def _linearized(self, x: Vector) -> tuple[Batches, Slope, float]:
        """F̂ at x by batches, the Jacobian of all rows there, and the loss, NaN where there is none."""
        self.whole, self.passes = self.whole + 1, self.passes + 1
        basis = None if self.known is None else self.known.basis
        with self._told() as advanced:
            return linearized(self.record, x, basis, Folding(self.run.threads, advanced))

    def _told(self) -> AbstractContextManager[Callable[[int], object]]:
        return step_bar(self.record.length, "rows") if self.run.progress else nullcontext(lambda rows: None)

    def _move(self, x: Vector, slope: Slope, batches: Batches, images: Vector) -> Vector:
        """Where the model at x leads: −J⁻¹F̂(x), or to the solution of its variational inequality on the set."""
        if self.run.on_the_whole_space:
            return -slope.damping * batches._replace(means=images).mean
        return np.asarray(affine_vi(slope.full, slope.full @ x - batches.mean, self.run.feasible, x).x - x)

    def _combined(self, trail: list[_Step]) -> Vector:
        """The next point from all corrections so far, by Anderson's acceleration on the whole space."""
        x, move = trail[-1].x, trail[-1].move
        if len(trail) == 1 or not self.run.on_the_whole_space:
            return x + move
        steps = np.diff(np.array([step.x for step in trail]), axis=0)
        changes = np.diff(np.array([step.move for step in trail]), axis=0)
        weights = np.linalg.lstsq((changes / trail[-1].units).T, move / trail[-1].units, rcond=None)[0]
        return np.asarray(x + move - weights @ (steps + changes))


def is_affordable(record: Record) -> bool:
    """Whether a Jacobian of all rows is worth its price."""
    return record.length * record.dim**2 <= max(AFFORDABLE, PASSES_WORTH * record.length * record.dim)


def linearized(record: Record, x: Vector, basis: Vector | None, how: Folding) -> tuple[Batches, Slope, float]:
    """F̂ at x by batches, the Jacobian of all rows there, in a basis if there is one, and the loss, in one pass."""
    sums, bounds = Linearization(record.problem, x, basis), batch_bounds(record.length, record.dim)
    means, (_, matrix, loss) = np.zeros((len(bounds) - 1, 1, len(x))), sums.zero()
    with closing(grouped(record, sums, bounds, how)) as groups:
        for group in groups:  # one matrix for all batches
            sums.add((means[group.stretch, 0], matrix, loss), group.part)
    batches = as_batches(record, x[None, :], means, bounds)[0]
    penalty = record.problem.penalty_diagonal(len(x))
    value = float(loss[0]) / record.length + float(penalty @ x**2) / 2
    return batches, slope_of(matrix / record.length, penalty, basis), value


def images_of(run: Run, x: Vector, batches: Batches, slope: Slope, images: Vector | None = None) -> Images:
    """What the batches at x say of the answer, through this slope; on a set, through the solution's derivative.

    `images` are J⁻¹F̂ of the batches, where they are known already.
    """
    means, sizes = batches.means, batches.sizes.astype(np.float64)
    if run.on_the_whole_space:
        factor = slope.squared_shrink(run.record.length) / slope.shrink
        values = factor * (slope.solve(means) if images is None else images)
        return Images(values, means, sizes, lambda scores: factor * slope.solve(scores))
    there = OnSet(slope.full, batches.mean, run.feasible, x)
    there.matrix *= slope.squared_shrink(run.record.length, there.freedom)
    boundary = there.boundary if there.boundary.any() else None
    values = there.images(means - batches.mean)
    return Images(values, means, sizes, there.images, boundary=boundary, set_active=there.active)


def slope_of(matrix: Vector, penalty: Vector, basis: Vector | None) -> Slope:
    """The slope of a Jacobian, scaled by its diagonal, or in a basis in which it was worked out."""
    if basis is not None:
        return SlopeIn(matrix + basis.T @ (penalty[:, None] * basis), basis)
    matrix = matrix + np.diag(penalty)
    diagonal = np.sqrt(np.abs(np.diag(matrix)))
    scale = 1 / np.where(diagonal > 0, diagonal, 1.0)
    return Slope(scale[:, None] * matrix * scale, scale)


def as_epoch(k: int, gap: float, length: int, x: Vector, track: Track | None) -> Epoch:
    """What a pass without steps over `length` rows, so far apart, came to."""
    curve = None if track is None else curve_at_the_end(track, length, x)
    return Epoch(k, gap, length, 1.0, last=x, average=x, answer=x, taken=length, diverged=False, curve=curve)
