"""MER's own rule of steps, η_k = min{cap, c log T_k/T_k}, with c from the record: nothing to tune.

Theorem 1 (Eq. step_size) has c = p_k/μ, with p_k such that two errors are in balance: what is left of the start, which
a smaller step forgets too slowly, and the error of an order that is nearly serial, as in the last epoch, which grows
with the step. Its constants are bounds for the worst of all records; here both are those of this record, in the norm of
F̂'s Jacobian J. A chain at step η is (1 − ηλ)^t as far from its end after t steps as at its start, along an eigenvector
of the symmetric part of J with eigenvalue λ, and an average is as far as the mean of that over its iterates: the
distance of the start is that to a fit of rows spread over the record, with J there. What the order costs is measured:
the last epoch is run at the cap, and one pass over the record tells how far it ends from the exact fit. An average's
distance is in proportion to the step, and the square of a last iterate's is. c is where the sum of both squares is
least.

J is never formed: differences of F̂ on the rows are its products with vectors, and Arnoldi's method makes of them a
small matrix that stands for J where the start, or the residual, has its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.engine.sums import Folding, operator_batches
from multireplay.errors import InputError
from multireplay.result import Epoch
from multireplay.steps import Constant, PerEpoch, Schedule
from multireplay.updates.base import Unsuitable
from multireplay.updates.coarse import usual_rows
from multireplay.updates.samples import Samples

if TYPE_CHECKING:
    from multireplay.averaging import Averaging
    from multireplay.solving.run import Run

SHORTEST = 2.0**-16
"""The least step of the last epoch that is tried, as a share of the cap; the next are a factor 2^(1/8) apart."""
PRODUCTS = 64
"""Products of J with a vector for one small matrix, at most."""
CALLS = 100_000
"""Calls of a plain Python operator on the rows, about."""
CORRECTIONS = {True: 2, False: 6}
"""Newton steps on the rows, from close to their root or from the start of the run."""
NEGATIVE = 0.01
"""An operator with an eigenvalue below this share of the largest, times −1, is not monotone; less is by chance."""
NOTHING = 1e-9
"""Singular values below this share of the largest are those of directions in which no step goes: collinear features."""
APART = 1e-5
"""How far apart points are whose difference in F̂ is a product with J, as a share of their size."""


class Pace(NamedTuple):
    """The steps of every epoch, and in words where they are from."""

    schedule: Schedule
    why: str


def paced(run: Run, cap: float, last: Epoch) -> Pace:
    """MER's rule for a run whose last epoch ends so at the cap; the cap in every epoch where c cannot be found."""
    try:
        share = best_share(run, cap, last)
    except Unsuitable as why:
        return Pace(Constant(cap), f"the same in every epoch, because {why}")
    c = share * cap * last.length / np.log(last.length)
    told = (
        "at which what is left of the start and what the order costs are least in the last epoch, as a run at the cap"
    )
    rule = f"of MER's own rule min({cap:.4g}, c log T_k/T_k) with c = {c:.4g}"
    return Pace(PerEpoch(c, cap), f"{rule}, {told} and rows spread over the record tell")


def best_share(run: Run, cap: float, last: Epoch) -> float:
    """The step of the last epoch, as a share of the cap, at which its error is least.

    Raises
    ------
    Unsuitable
        If the record does not tell, with the reason as a sentence.
    """
    if last.diverged:
        raise Unsuitable("the last epoch diverges at it")
    rows, fit = fitted(run)
    start = Krylov(rows.product(fit), fit - run.start)
    values, vectors = np.linalg.eigh((start.matrix + start.matrix.T) / 2)
    if values[0] < -NEGATIVE * values[-1]:
        raise Unsuitable("the operator is not monotone on rows spread over the record")
    values = np.maximum(values, 0.0)
    shares = 2.0 ** np.arange(np.log2(SHORTEST), 1e-9, 1 / 8)
    left = remaining(shares[:, None] * cap * last.length * values, run.averaging) ** 2 @ (
        values * (start.length * vectors[0]) ** 2
    )
    mean = operator_batches(run.record, [last.answer], Folding(run.threads))[0].mean
    residual = Krylov(rows.product(fit), last.answer - run.feasible.projected(last.answer - mean))
    away = residual.length**2 * max(0.0, residual.inverse[0, 0])
    order = max(0.0, away - left[-1]) * shares ** (2 if run.averaging.answers else 1)
    return float(shares[np.argmin(left + order)])


class Rows:
    """F̂ on rows spread over the record, and its Jacobian's products with vectors."""

    def __init__(self, run: Run) -> None:
        record, problem = run.record, run.record.problem
        rows = min(usual_rows(record), CALLS // (8 * min(record.dim, PRODUCTS))) if problem.is_slow else None
        try:
            self.samples = Samples.spread(record, rows or usual_rows(record), np.float64)
        except InputError as error:
            raise Unsuitable(str(error)) from error
        self.linear, self.scale = problem.is_linear, self.samples.scale

    def mean(self, x: Vector) -> Vector:
        """F̂ at x."""
        return self.samples.mean(x / self.scale) / self.scale

    def product(self, x: Vector) -> Callable[[Vector], Vector]:
        """J at x times a vector, by a difference, which is exact where F̂ is linear."""
        size = max(1.0, float(np.linalg.norm(x / self.scale)))

        def times(vector: Vector) -> Vector:
            by = (1.0 if self.linear else APART) * size / float(np.linalg.norm(vector / self.scale))
            return (self.mean(x + by * vector) - self.mean(x - by * vector)) / (2 * by)

        return times


class Krylov:
    """A vector, and what a matrix is on the space of its products with it: V*JV with the vector first in V."""

    def __init__(self, product: Callable[[Vector], Vector], vector: Vector) -> None:
        self.length = size = float(np.linalg.norm(vector))
        most, count = min(len(vector), PRODUCTS), 0
        basis, matrix = np.zeros((most, len(vector))), np.zeros((most, most))
        while count < most and size > NOTHING * np.abs(matrix).max():
            basis[count] = vector / size
            if count:
                matrix[count, count - 1] = size
            vector, count = product(basis[count]), count + 1
            for _ in range(2):  # once is not enough for rounding
                parts = basis[:count] @ vector
                matrix[:count, count - 1] += parts
                vector = vector - parts @ basis[:count]
            size = float(np.linalg.norm(vector))
        if not (np.isfinite(self.length) and np.isfinite(matrix).all()):
            raise Unsuitable("the operator is not finite close to the fit of rows spread over the record")
        used = slice(max(count, 1))
        self.basis, self.matrix = basis[used], matrix[used, used]

    @property
    def inverse(self) -> Vector:
        return np.asarray(np.linalg.pinv(self.matrix, rcond=NOTHING))

    @property
    def solution(self) -> Vector:
        """The inverse of the matrix times the vector."""
        return np.asarray(self.length * self.inverse[:, 0] @ self.basis)


def fitted(run: Run) -> tuple[Rows, Vector]:
    """Rows spread over the record, and their fit on the feasible set."""
    rows, problem, x = Rows(run), run.record.problem, run.start
    close = problem.has_jacobian and not problem.is_slow
    with np.errstate(all="ignore"):
        if close:
            x = rows.scale * rows.samples.start(x / rows.scale)
        for _ in range(1 if rows.linear else CORRECTIONS[close]):
            x = x - Krylov(rows.product(x), rows.mean(x)).solution
    return rows, run.feasible.projected(x)


def remaining(decay: Vector, averaging: Averaging) -> Vector:
    """The share of the start that is left in an answer, where e^−decay of it is left in the last iterate."""
    if not averaging.answers:
        return np.exp(-decay)
    late = 1 - averaging.fraction
    with np.errstate(invalid="ignore"):
        found = (np.exp(-late * decay) - np.exp(-decay)) / (averaging.fraction * decay)
    return np.where(decay > 0, found, 1.0)
