"""MER's own rule of steps, η_k = min{cap, c log T_k/T_k}, with c from the record: nothing to tune.

Theorem 1 (Eq. step_size) has c = p_k/μ, with p_k such that what is left of the start is as small as what the noise
does: a smaller step forgets the start too slowly, and a larger one is of no use, since the bias of an order that is
nearly serial, as in the last epochs, grows with the step. Its constants are bounds for the worst of all records; here
both sides are those of this record. Rows spread over it are fitted, x̂, with the Jacobian J there. A chain at step η is
(1 − ηλ)^t as far from its end after t steps as at its start, along an eigenvector of the symmetric part of J with
eigenvalue λ, and an average is as far as the mean of that over its iterates. The noise is the variance of the exact
fit, from batches of consecutive rows, since they are dependent. c is the least at which what is left of x0 − x̂ in the
last epoch is half a standard error of the exact fit, both in the norm of J.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.engine.sums import Folding, operator_batches
from multireplay.errors import InputError
from multireplay.steps import Constant, PerEpoch, Schedule
from multireplay.updates.base import Unsuitable
from multireplay.updates.coarse import usual_rows
from multireplay.updates.samples import Samples
from multireplay.updates.slope import Slope

if TYPE_CHECKING:
    from multireplay.averaging import Averaging
    from multireplay.solving.run import Run

LEFT = 0.5
"""What may be left of the start, in standard errors of the exact fit."""
SHORTEST = 2.0**-16
"""The least step of the last epoch that is tried, as a share of the cap; the next are a factor 2^(1/8) apart."""
WIDEST = 512
"""Coordinates beyond which eigenvalues cost more than the steps."""
CALLS = 100_000
"""Calls of a plain Python operator for a Jacobian by differences, at most."""
CORRECTIONS = 2
"""Newton steps on the rows, from close to their root."""
NEGATIVE = 0.01
"""An operator with an eigenvalue below this share of the largest, times −1, is not monotone; less is by chance."""
NOTHING = 1e-9
"""Singular values below this share of the largest are those of directions in which no step goes: collinear features."""


class Pace(NamedTuple):
    """The steps of every epoch, and in words where they are from."""

    schedule: Schedule
    why: str


def paced(run: Run, cap: float, length: int) -> Pace:
    """MER's rule for a run whose last epoch has `length` steps; the cap in every epoch where c cannot be found."""
    rule = f"of MER's own rule min({cap:.4g}, c log T_k/T_k)"
    try:
        share = least_share(run, cap, length)
    except Unsuitable as why:
        return Pace(Constant(cap), f"the same in every epoch, because {why}")
    c = share * cap * length / np.log(length)
    if share == 1:
        return Pace(PerEpoch(c, cap), f"{rule}, the cap throughout: no smaller step forgets the start in time")
    left = f"{LEFT:g} standard errors are left of the start in the last epoch, as rows spread over the record tell"
    return Pace(PerEpoch(c, cap), f"{rule} with c = {c:.4g}, the least at which no more than {left}")


def least_share(run: Run, cap: float, length: int) -> float:
    """The least step of the last epoch, as a share of the cap, that forgets the start; 1 if none does.

    Raises
    ------
    Unsuitable
        If the record does not tell, with the reason as a sentence.
    """
    jacobian, inverse, fit = fitted(run)
    values, vectors = np.linalg.eigh((jacobian + jacobian.T) / 2)
    if values[0] < -NEGATIVE * values[-1]:
        raise Unsuitable("the operator is not monotone on rows spread over the record")
    values = np.maximum(values, 0.0)
    batches = operator_batches(run.record, [fit], Folding(run.threads))[0].means
    if len(batches) < 2:
        raise Unsuitable(f"{run.rows} rows are too few to see how they vary")
    images = batches @ inverse.T @ vectors
    noise = float(values @ images.var(axis=0, ddof=1)) / len(images)
    shares = 2.0 ** np.arange(np.log2(SHORTEST), 1e-9, 1 / 8)
    left = remaining(shares[:, None] * cap * length * values, run.averaging) ** 2 @ (
        values * ((fit - run.start) @ vectors) ** 2
    )
    enough = shares[left <= LEFT**2 * noise]
    return float(enough[0]) if len(enough) else 1.0


def fitted(run: Run) -> tuple[Vector, Vector, Vector]:
    """F̂'s Jacobian on rows spread over the record, its inverse, and the fit of these rows, on the feasible set."""
    record, problem, dim = run.record, run.record.problem, run.record.dim
    rows = min(usual_rows(record), CALLS // (2 * dim)) if problem.is_slow else usual_rows(record)
    if not problem.has_jacobian:
        raise Unsuitable(f"{run.problem!r} has no Jacobian from which c is made")
    if dim > WIDEST:
        raise Unsuitable(f"{dim} coordinates are too many for the eigenvalues from which c is made")
    if rows < 2 * dim:
        raise Unsuitable(f"{rows} rows are too few to make c from, with {dim} coordinates")
    try:
        samples = Samples.spread(record, rows, np.float64)
    except InputError as error:
        raise Unsuitable(str(error)) from error
    z = run.start / samples.scale
    z = z if problem.is_slow else samples.start(z)
    with np.errstate(all="ignore"):
        for _ in range(1 if problem.is_linear else CORRECTIONS):
            first, second = samples.jacobians(z)
            slope = Slope((first + second) / 2, samples.scale)
            matrix, mean = slope.factors.whole.astype(np.float64), samples.mean(z)
            if not (np.isfinite(matrix).all() and np.isfinite(mean).all()):
                raise Unsuitable("the operator is not finite close to the fit of rows spread over the record")
            inverse = np.linalg.pinv(matrix, rcond=NOTHING)
            z = z - inverse @ mean
    return slope.full, samples.scale[:, None] * inverse * samples.scale, run.feasible.projected(samples.scale * z)


def remaining(decay: Vector, averaging: Averaging) -> Vector:
    """The share of the start that is left in an answer, where e^−decay of it is left in the last iterate."""
    if not averaging.answers:
        return np.exp(-decay)
    late = 1 - averaging.fraction
    with np.errstate(invalid="ignore"):
        found = (np.exp(-late * decay) - np.exp(-decay)) / (averaging.fraction * decay)
    return np.where(decay > 0, found, 1.0)
