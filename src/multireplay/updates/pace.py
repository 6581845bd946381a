"""MER's own rule of steps with its constants from the record: nothing to tune.

Theorem 1 (Eq. step_size) has η_k = min{cap, p_k log T_k/(μT_k)}. The cap is that of every automatic step, a share of
1/L, and μ, the modulus of strong monotonicity, is the least eigenvalue of the symmetric part of F̂'s Jacobian on rows
spread over the record. What is left is p: a chain at step η is e^{−μηt} as far from its end after t steps as at its
start, in the slowest direction. Where the last 7/8 of the iterates are averaged, the first of them is that of t = T/8,
so that the square of what is left of the start there is T^{−p/4}: at p = 4 it falls like 1/T, as the noise does. The
last iterate, which is as far as t = T, has p = 1, as in the theorem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.errors import InputError
from multireplay.steps import Constant, PerEpoch, Schedule
from multireplay.updates.coarse import usual_rows
from multireplay.updates.samples import Samples
from multireplay.updates.slope import Slope

if TYPE_CHECKING:
    from multireplay.averaging import Averaging
    from multireplay.buffer.record import Record

POWER_OF_AVERAGE, POWER_OF_LAST = 4.0, 1.0
"""p, where an average of the iterates answers and where the last one does."""
WIDEST = 1024
"""Coordinates beyond which eigenvalues cost more than the steps."""
CALLS = 100_000
"""Calls of a plain Python operator for a Jacobian by differences, at most."""
NOTHING = 1e-9
"""Eigenvalues below this share of the largest are those of directions in which no step goes: collinear features."""


class Pace(NamedTuple):
    """The steps of every epoch, and in words where they are from."""

    schedule: Schedule
    why: str


def paced(record: Record, start: Vector, cap: float, averaging: Averaging) -> Pace:
    """MER's rule for a record, from its modulus of strong monotonicity; the cap in every epoch where that is not known.

    Parameters
    ----------
    record, start
        The data, and where every epoch begins.
    cap
        The largest step.
    averaging
        What of an epoch answers.
    """
    power = POWER_OF_AVERAGE if averaging.answers else POWER_OF_LAST
    mu, lacking = modulus(record, start)
    if mu is None:
        return Pace(Constant(cap), f"the same in every epoch, since {lacking}")
    rule = PerEpoch(c=power / mu, cap=cap)
    where = "of strong monotonicity on rows spread over the record"
    return Pace(
        rule, f"of epoch k: min({cap:.4g}, c log T_k/T_k), c = {power:g}/μ = {rule.c:.4g}, μ = {mu:.4g} {where}"
    )


def modulus(record: Record, start: Vector) -> tuple[float | None, str]:
    """μ on rows spread over the record, close to the root there, or None, and why it is not known."""
    problem, dim = record.problem, record.dim
    rows = usual_rows(record)
    if problem.is_slow:
        rows = min(rows, CALLS // (2 * dim))
    if not problem.has_jacobian or dim > WIDEST or rows < 2 * dim:
        return None, f"μ is not known: {_lacking(record, rows)}"
    try:
        samples = Samples.spread(record, rows, np.float64)
    except InputError:  # features that are too large are named where the run itself comes to them
        return None, "μ is not known: the features overflow"
    first, second = samples.jacobians(samples.start(start / samples.scale))
    jacobian = Slope((first + second) / 2, samples.scale).full
    if not np.isfinite(jacobian).all():
        return None, "μ is not known: the Jacobian is not finite"
    eigenvalues = np.linalg.eigvalsh((jacobian + jacobian.T) / 2)
    known = eigenvalues[np.abs(eigenvalues) > NOTHING * np.abs(eigenvalues).max()]
    if not len(known) or known[0] <= 0:
        return None, "the operator is not strongly monotone on rows spread over the record"
    return float(known[0]), ""


def _lacking(record: Record, rows: int) -> str:
    if not record.problem.has_jacobian:
        return f"{record.problem!r} has no Jacobian"
    if record.dim > WIDEST:
        return f"{record.dim} coordinates are too many for eigenvalues"
    return f"{rows} rows are too few for {record.dim} coordinates"
