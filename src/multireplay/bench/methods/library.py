"""The library itself: the exact fit, `mr.solve` with no argument or one, and its replay schemes with the plain update.

The schemes are averaged over the last 7/8 of their iterates. CTD, temporal differences on every gap-th sample with
decaying steps, is from Kotsalis, Lan and Li (2022), "Simple and optimal methods for stochastic variational
inequalities, II", SIAM J. Optim.: steps η_t = 2/(μ(t + t0 − 1)), the last iterate, and t0 = 8 max{L², 8(1 + γ)²}/μ² for
features of length 1 (their Proposition 6.2, as quoted in Lemma 17 of Lan's "Policy mirror descent", 2022). The second
term is the square of what a sample's operator is Lipschitz to; for other features it is (1 + γ) max ‖ψ‖² in our
reading, and max ‖ψ‖² times the link's largest slope for a GLM. μ and L are the true ones of the mean operator, and the
gap is twice the true autocorrelation time: more than anyone would know.

"reverse" is SGD-RER of Kowshik, Nagaraj, Jain and Netrapalli (2021), "Streaming linear system identification with
reverse experience replay": γ = 1/(8RB) with R a bound on ‖ψ‖² and B the length of a block, in x ← x − 2γ(⟨ψ, x⟩ − y)ψ,
a step of 1/(4RB) in our units, and blocks ten times the gap. Off least squares, R with the link's slope is our reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import multireplay as mr
from multireplay.bench.method import TAIL, Answer, Method
from multireplay.bench.world import Case, World
from multireplay.replay import PlannedEpoch, Replay

EXACT = "exact fit"
DEFAULT_SHARE = 0.5
"""The library's step for one pass, in units of 1/L, for orders without a step of their own."""


def unconstrained(world: World) -> bool:
    """Whether the feasible set is the whole space."""
    return isinstance(world.problem.constraint, mr.sets.WholeSpace)


def exact(case: Case, step: float | None) -> Answer:
    """LSTD, maximum likelihood, or the best ridge: the yardstick, of ratio 1 by definition."""
    return Answer(case.world.fit(case.record, case.ridge), case.length)


def solved(case: Case, step: float | None, **options: Any) -> Answer:
    """``mr.solve(problem, buffer)`` with at most one option more."""
    result = mr.solve(case.world.problem, case.record, **options)
    return Answer(result.x, float(result.passes) * case.length)


@dataclass(frozen=True)
class Passes(Replay):
    """Several schemes one after the other, without restart."""

    parts: tuple[Replay, ...]

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        order = np.concatenate([epoch.positions for part in self.parts for epoch in part.plan(length)])
        return (PlannedEpoch(1, None, len(order), block=lambda first, count: order[first : first + count]),)


def replayed(order: Callable[[Case], Replay], case: Case, step: float | None) -> Answer:
    """A run of the library's engine with a given order, at one constant step: the last epoch."""
    return last_epoch(case, order(case), (DEFAULT_SHARE if step is None else step) * case.unit)


def last_epoch(case: Case, order: Replay, step: Any) -> Answer:
    """The end of a run with the plain update."""
    result = mr.solve(case.world.problem, case.record, replay=order, step=step, average=TAIL)
    epoch = result.epochs[-1]
    touched = float(result.passes) * case.length
    return Answer(np.full_like(epoch.answer, np.inf) if epoch.diverged else epoch.answer, touched)


def sample_lipschitz(case: Case) -> float:
    """What the operator of a sample is Lipschitz to: (1 + γ) max ‖ψ‖², or max ‖ψ‖² times the link's largest slope."""
    return (1 + getattr(case.world.problem, "gamma", 0.0)) / case.unit


def multiscale(case: Case, step: float | None) -> Answer:
    """MER by its own rule of steps, c from the record; with `step`, c is such that the last epoch's step is that.

    The cap is 0.5/L, or the step where that is larger, so that MER is tuned by one number of the same grid as others.
    """
    return last_epoch(case, mr.Multiscale(), "auto" if step is None else by_last_step(case, step))


def by_last_step(case: Case, step: float) -> mr.steps.PerEpoch:
    """MER's rule with that many 1/L for the step of the last epoch."""
    length = 2.0 ** mr.Multiscale().epoch_count(case.length)
    cap = max(DEFAULT_SHARE, step) * case.unit
    return mr.steps.PerEpoch(c=step * case.unit * length / np.log(length), cap=cap)


def conditional_td(case: Case, step: float | None) -> Answer:
    """CTD. With `step`, the first step size is that many 1/L instead, and the decay is the same."""
    mu = case.world.mu
    published = 8 * max(case.world.lipschitz**2, 8 * sample_lipschitz(case) ** 2) / mu**2
    offset = published if step is None else 2 / (mu * step * case.unit)
    schedule = mr.steps.Decaying(mu=mu, t0=max(1.0, offset))
    result = mr.solve(case.world.problem, case.record, replay=mr.Skip(case.gap()), step=schedule, average="none")
    epoch = result.epochs[-1]
    return Answer(np.full_like(epoch.last, np.inf) if epoch.diverged else epoch.last, epoch.taken)


def reverse_replay(case: Case, step: float | None) -> Answer:
    """SGD-RER on blocks of 10 oracle gaps."""
    block = min(10 * case.gap(), case.length)
    share = 1 / (4 * block) if step is None else step
    return last_epoch(case, mr.Reverse(block, case.gap()), share * case.unit)


def without_step(name: str, run: Any, note: str, **more: Any) -> Method:
    """A method that has no step to choose."""
    return Method(name, run, published="-", tuned=False, note=note, **more)


def in_order(name: str, order: Callable[[Case], Replay], note: str = "") -> Method:
    """A replay scheme as a method."""
    return Method(name, partial(replayed, order), published="0.5/L", note=note, order=order)


def skip(gap: int, name: str | None = None) -> Method:
    """Every gap-th sample."""
    return in_order(name or f"skip {gap}", lambda case: mr.Skip(gap))


SERIAL = in_order("serial", lambda case: mr.Serial())
MER = Method(
    "MER", multiscale, published="automatic", order=lambda case: mr.Multiscale(),
    note="by its own rule of steps, min(0.5/L, c·log T_k/T_k) in epoch k; the last epoch. c is mr.solve's, from the "
    "record alone; tuned: the c that gives the last epoch this step",
)  # fmt: skip
UNIFORM = in_order("uniform", lambda case: mr.Uniform(case.seed))
SHUFFLE = in_order("shuffle", lambda case: mr.Shuffle(case.seed))
DYADIC = in_order("dyadic", lambda case: mr.Dyadic())
INDEPENDENT = Method("i.i.d.", SERIAL.run, order=SERIAL.order, independent=True)

METHODS = (
    without_step(EXACT, exact, "LSTD, maximum likelihood or the best ridge; costs O(d²) a row"),
    without_step("mr.solve", solved, "no argument but the problem and the record"),
    without_step("mr.solve, 1 pass", partial(solved, passes=1), "with passes=1"),
    without_step(
        "mr.VarianceReduced", partial(solved, update=mr.VarianceReduced()), "mr.solve with that update, O(d) a step"
    ),
    without_step(
        "Richardson-Romberg", partial(solved, update=mr.RichardsonRomberg()),
        "two plain dyadic passes, at the automatic step and at twice that", works_on=unconstrained,
    ),
    SERIAL,
    in_order("skip, oracle gap", lambda case: mr.Skip(case.gap()), "gap: twice the true autocorrelation time"),
    in_order("skip, gap x10", lambda case: mr.Skip(case.gap(10))),
    in_order("skip, gap /10", lambda case: mr.Skip(case.gap(0.1))),
    MER,
    Method(
        "MER, one constant step (ours)", partial(replayed, lambda case: mr.Multiscale()), "0.5/L", tuned=False,
        note="the same step in every epoch; the last epoch, which tuned would be that of MER, since epochs restart",
    ),
    without_step(
        "MER, all phases", partial(solved, replay=mr.Multiscale(phases="all")),
        "by its own rule on all offsets of a gap; the last epoch",
    ),
    Method(
        "reverse", reverse_replay, note="SGD-RER on blocks of 10 oracle gaps, at 1/(8RB) on the squared error",
        order=lambda case: mr.Reverse(10 * case.gap(), case.gap()),
    ),
    UNIFORM,
    SHUFFLE,
    DYADIC,
    in_order("uniform x3", lambda case: Passes(tuple(mr.Uniform(case.seed + i) for i in range(3)))),
    in_order("shuffle x3", lambda case: Passes(tuple(mr.Shuffle(case.seed + i) for i in range(3)))),
    in_order("dyadic x3", lambda case: Passes((mr.Dyadic(),) * 3)),
    Method("CTD", conditional_td, note="decaying steps from the true μ and L, oracle gap; tuned: its first step"),
)  # fmt: skip
"""Of the comparison, in the order of its table."""


def of_figures(*skips: Method) -> tuple[Method, ...]:
    """MER, what the paper compares it with, and what it leaves out."""
    return (MER, SERIAL, *skips, INDEPENDENT, UNIFORM, SHUFFLE, DYADIC)
