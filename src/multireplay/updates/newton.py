"""Newton corrections: a coarse epoch solved exactly, then put right by passes over the whole record."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from multireplay._check import Vector, whole_number
from multireplay.engine.checkpoint import KeptPasses
from multireplay.engine.sums import Batches, Folding, one_thread_each, operator_batches
from multireplay.inference.residuals import standard_error_of_length, standard_errors
from multireplay.result import Epoch
from multireplay.show.progress import step_bar
from multireplay.tracking import Track, curve_at_the_end
from multireplay.updates.base import Found, Needs, Route, Unsuitable, Update
from multireplay.updates.coarse import Coarse, coarse_fit

if TYPE_CHECKING:
    from multireplay.solving.run import Run

NEGLIGIBLE = 0.1
"""A correction expected to be below this share of its standard error is not worth a pass."""
ROUNDING = 1e-12
"""A correction below this share of the predictions is rounding: there is nothing left where a record has no noise."""
MOST = 5
NARROW = 256
"""Up to so many coordinates the matrices of the coarse epoch are small beside waking the threads of linear algebra."""
CANNOT = (
    "mr.Newton() cannot be used here: it needs mr.PolicyEvaluation, or mr.GLM with a built-in link, on the whole "
    "space, with at least 4 rows a coordinate, no feature that is a combination of others (or a ridge), and no "
    "separable classes"
)
OTHERWISE = "Leave update=... out, and what can be used is chosen"


@dataclass(frozen=True)
class Newton(Update):
    """A coarse epoch solved exactly, then x ← x − J⁻¹F̂(x) in passes over the whole record, with the epoch's Jacobian J.

    The coarse epoch has 2^13 samples, one in each of as many equal stretches of the record, as in MER's epoch 13, so
    that they are nearly independent whatever the mixing time; it is doubled up to a quarter of the record while its
    two halves disagree about J. Each correction takes one pass in order at O(d) a row and shrinks the distance to the
    exact fit by about √(d/2^13); corrections that do not shrink are combined by Anderson's acceleration. They end when
    the next one is expected to be below a tenth of its own standard error under dependence (from 32 batch means).

    J costs O(d²) a sample of the coarse epoch, and d² numbers of memory: for d beyond about 1000 `VarianceReduced` is
    better. It needs a problem whose Jacobian is known (`PolicyEvaluation`, `GLM` with a built-in link) on the whole
    space, at least 4 rows a coordinate, and features none of which is missing from the coarse epoch or a combination of
    the others. On records no longer than the coarse epoch a ridge makes up for all of the latter.

    Parameters
    ----------
    corrections : int or "auto"
        Number of passes over the record. "auto" is as many as it takes, at most 5; usually 2.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**16, seed=0)
    >>> exact = process.problem.fit_exactly(buffer)
    >>> for corrections in (1, 2, 3):
    ...     result = mr.solve(process.problem, buffer, update=mr.Newton(corrections))
    ...     print(result.passes, f"{abs(result.x - exact).max():.0e}")
    1.125 2e-02
    2.125 2e-03
    3.125 2e-04
    """

    route: ClassVar[Route] = "corrections"
    needs: ClassVar[Needs] = Needs(
        whole_space=f"{CANNOT}, and there is {{feasible}}. {OTHERWISE}",
        own_order="mr.Newton() reads the record in order: leave replay=... out",
        no_step="mr.Newton() takes no steps: leave step=... out",
        double="mr.Newton() works in float64: leave precision=... out",
    )

    corrections: int | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.corrections != "auto":
            object.__setattr__(self, "corrections", whole_number("corrections", self.corrections, least=1))

    def run(self, run: Run) -> Found:
        """The coarse epoch, and corrections until what is left is noise."""
        with one_thread_each() if run.record.dim <= NARROW else nullcontext():
            return self._run(run)

    def _run(self, run: Run) -> Found:
        began, record = time.perf_counter(), run.record
        try:
            coarse = coarse_fit(record)
        except Unsuitable as why:
            raise Unsuitable(f"{CANNOT}; here {why}. {OTHERWISE}") from why
        length = record.length
        kept = None if run.checkpoint is None else KeptPasses(record, run.checkpoint)

        def pass_over(x: Vector) -> Batches:
            with step_bar(length, "rows") if run.progress else nullcontext(lambda rows: None) as advanced:
                how = Folding(run.threads, advanced)
                return operator_batches(record, [x], how)[0] if kept is None else kept.batches(x, how)

        asked = None if self.corrections == "auto" else self.corrections
        corrections, note = correct(coarse, pass_over, asked or run.passes or MOST, asked is not None)
        k = coarse.rows.bit_length() - 1
        epochs = [as_epoch(k, length / coarse.rows, coarse.rows, coarse.x, run.track)]
        epochs += [as_epoch(k + i, 1.0, length, part.x, run.track) for i, part in enumerate(corrections, start=1)]
        passes, count = sum(epoch.taken for epoch in epochs) / length, len(corrections)
        what = (
            f"{coarse.rows} samples, {length / coarse.rows:.3g} apart, fitted exactly, then {count} Newton "
            f"correction{'s' * (count > 1)} in passes over all {length} in order ({passes:.3g} passes in all)"
            f"{f'; {note}' if note else ''}"
        )
        seconds, error = time.perf_counter() - began, corrections[-1].standard_error
        return Found(tuple(epochs), len(epochs) - 1, passes, seconds, what, standard_error=error)


class Correction(NamedTuple):
    """One pass: where it led, and the standard error of that by coordinate."""

    x: Vector
    standard_error: Vector


def correct(
    coarse: Coarse, pass_over: Callable[[Vector], Batches], most: int, all_of_them: bool
) -> tuple[list[Correction], str]:
    """x ← x − J⁻¹F̂(x) with the Jacobian of the coarse epoch, accelerated, until what is left is noise.

    Where J is not good enough for the plain correction to shrink, the corrections so far are combined to the point at
    which the next one is expected to be shortest (Anderson 1965); on a linear problem these are GMRES steps.

    `pass_over` gives F̂ at a point by batches in one pass over the record. There are at most `most` corrections, and
    that many in any case with `all_of_them`; with them comes why there are no more.
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
        error, size = standard_error_of_length(images @ coarse.root.T), coarse.size(move)
        points.append(z)
        moves.append(move)
        z = _combine(coarse.root, points, moves)
        done.append(Correction(z * coarse.scale, coarse.scale * standard_errors(images)))
        left = size * min(1.0, size / before) if before else size
        if all_of_them and len(done) == most:
            return done, ""
        if left <= ROUNDING * coarse.size(z) and not all_of_them:
            return done, "another correction would be rounding"
        if left <= NEGLIGIBLE * error and not all_of_them:
            expected = left / error if error else 0.0
            return done, f"another correction would be about {expected:.1g} of its standard error"
        if len(done) == most:
            share = size / error if error > 0 else np.inf if size else 0.0
            return done, f"the last correction was {share:.2g} of its standard error"
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


def as_epoch(k: int, gap: float, length: int, x: Vector, track: Track | None) -> Epoch:
    """What a pass without steps over `length` rows, so far apart, came to."""
    curve = None if track is None else curve_at_the_end(track, length, x)
    return Epoch(k, gap, length, 1.0, last=x, average=x, answer=x, taken=length, diverged=False, curve=curve)
