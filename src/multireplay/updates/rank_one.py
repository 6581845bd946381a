"""Updates of the literature that sweep over a record in memory in compiled loops of their own, and what they share.

Policy evaluation and GLMs have one form, F̃(x, ξ_t) = r_t(x) ψ_t, in which all of these loops are written.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay._jit import jit
from multireplay.problems.glm import RegressionSamples
from multireplay.problems.links import IDENTITY, apply
from multireplay.problems.policy_evaluation import TransitionSamples
from multireplay.result import Epoch
from multireplay.updates.base import Engine, Found, Needs, Unsuitable, Update
from multireplay.updates.plain import as_schedule

if TYPE_CHECKING:
    from multireplay.solving.run import Run

HUGE = 1e60
"""A residual beyond this counts as divergence; its square is still finite."""


class RankOne(NamedTuple):
    """r_t(x) = f(⟨ψ_t, x⟩) − y_t − γ_t⟨ψ'_t, x⟩. For a GLM γ_t = 0 and ψ' is never read."""

    features: Vector
    next_features: Vector
    targets: Vector
    discounts: Vector
    link: int


def rank_one(samples: Any) -> RankOne | None:
    """Packed samples in the common form, or None if they have another."""
    if isinstance(samples, TransitionSamples) and samples.ridge is None and samples.weights is None:
        return RankOne(samples.features, samples.next_features, samples.rewards, samples.discounts, IDENTITY)
    plain = isinstance(samples, RegressionSamples) and samples.ridge is None and samples.weights is None
    if plain and isinstance(samples.link, int):
        zero = np.broadcast_to(0.0, len(samples.targets))
        return RankOne(samples.features, samples.features, samples.targets, zero, samples.link)
    return None


@jit
def residual(rows: RankOne, row: int, x: Vector) -> float:
    """r_t(x)."""
    score = 0.0
    for j in range(len(x)):
        score += rows.features[row, j] * x[j]
    value = apply(rows.link, score) - rows.targets[row]
    if rows.discounts[row] != 0.0:
        ahead = 0.0
        for j in range(len(x)):
            ahead += rows.next_features[row, j] * x[j]
        value -= rows.discounts[row] * ahead
    return float(value)


@jit
def mean_operator(rows: RankOne, first: int, stop: int, x: Vector, out: Vector) -> None:
    """out ← the mean of F̃(x, ξ_t) over the rows first, …, stop − 1."""
    out[:] = 0.0
    for row in range(first, stop):
        value = residual(rows, row, x) / (stop - first)
        for j in range(len(x)):
            out[j] += value * rows.features[row, j]


class Sweep(Update):
    """One sweep over a record in memory, for policy evaluation and GLMs with dense features on the whole space."""

    needs: ClassVar[Needs] = Needs(
        whole_space="this update knows no feasible set such as {feasible}; it needs the whole space",
        constant_step="this update needs a constant step: give a number",
        one_step="several step sizes compete with mr.Plain() alone, and there must be at least one",
        double="precision={precision} is for mr.Plain(): give update=mr.Plain() or replay=...",
        own_order="this update chooses its samples itself: leave replay=... out",
        resumed="checkpoint=... is for passes in order that can be resumed, which this sweep is not",
    )

    engine: ClassVar[Engine] = "compiled"

    @abstractmethod
    def sweep(self, rows: RankOne, step: float, x: Vector) -> tuple[Vector, int]:
        """The answer from x, which may be written over, and the number of samples read, −1 if it diverged."""

    def run(self, run: Run) -> Found:
        """The sweep from x0, at the step that was given or the automatic one."""
        record = run.record
        rows = None if record.on_disk else rank_one(record.example)
        if rows is None:
            raise Unsuitable(f"{self!r} is for policy evaluation and GLMs with dense features, in memory")
        began = time.perf_counter()
        step = float(as_schedule(run.step, record.problem, record.example).values(1, 0, 1)[0])
        x, touched = self.sweep(rows, step, run.start.copy())
        diverged = touched < 0 or not np.isfinite(x).all()
        x = run.start if diverged else x
        epoch = Epoch(
            1, None, record.length, step, last=x, average=x, answer=x, taken=max(touched, 0), diverged=diverged
        )
        passes = epoch.taken / record.length
        what = f"one sweep of {self!r} ({passes:.3g} passes in all)"
        return Found((epoch,), 0, passes, time.perf_counter() - began, what)
