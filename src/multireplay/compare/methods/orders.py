"""The library's own replay schemes with the plain update, all averaged over the last 7/8 of their iterates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from multireplay._check import Positions
from multireplay.compare.methods.base import TAIL, Answer, Case, Method
from multireplay.replay import Dyadic, Multiscale, Reverse, Serial, Shuffle, Skip, Uniform
from multireplay.replay.base import PlannedEpoch, Replay
from multireplay.result import Epoch
from multireplay.solve import solve

DEFAULT_SHARE = 0.5
"""The library's step for one pass, in units of 1/L. The papers behind these orders leave the step open."""

Choice = Callable[[Case, tuple[Epoch, ...]], Epoch]


@dataclass(frozen=True)
class Passes(Replay):
    """Several schemes one after the other, without restart."""

    parts: tuple[Replay, ...]

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        order = np.concatenate([epoch.positions for part in self.parts for epoch in part.plan(length)])

        def block(first: int, count: int) -> Positions:
            return order[first : first + count]

        return (PlannedEpoch(k=1, gap=None, length=len(order), block=block),)


def last_epoch(case: Case, epochs: tuple[Epoch, ...]) -> Epoch:
    return epochs[-1]


def best_epoch(case: Case, epochs: tuple[Epoch, ...]) -> Epoch:
    """The epoch nearest to x*, which no one knows."""
    return min(epochs, key=lambda epoch: np.inf if epoch.diverged else case.world.error(epoch.answer))


def chosen_epoch(case: Case, epochs: tuple[Epoch, ...]) -> Epoch:
    """The epoch with the smallest residual on the record, which is what `solve` returns."""
    return min(epochs, key=lambda epoch: np.inf if epoch.residual is None else epoch.residual)


def replayed(scheme: Callable[[Case], Replay], choose: Choice, case: Case, step: float | None) -> Answer:
    """A run of the library's engine with a given order."""
    size = (DEFAULT_SHARE if step is None else step) * case.unit
    result = solve(case.world.problem, case.record, replay=scheme(case), step=size, average=TAIL)
    epoch = choose(case, result.epochs)
    touched = sum(part.taken for part in result.epochs)
    return Answer(np.full_like(epoch.answer, np.inf) if epoch.diverged else epoch.answer, touched)


def in_order(name: str, scheme: Callable[[Case], Replay], choose: Choice = last_epoch, note: str = "") -> Method:
    """A replay scheme as a method."""
    return Method(name, partial(replayed, scheme, choose), published="0.5/L", note=note)


METHODS = (
    in_order("serial", lambda case: Serial()),
    in_order("skip, oracle gap", lambda case: Skip(case.gap()), note="gap: twice the true autocorrelation time"),
    in_order("skip, gap x10", lambda case: Skip(case.gap(10))),
    in_order("skip, gap /10", lambda case: Skip(case.gap(0.1))),
    in_order("MER", lambda case: Multiscale(), note="the last epoch, as in Algorithm 1"),
    in_order(
        "MER, best epoch (oracle)", lambda case: Multiscale(), best_epoch, "the epoch nearest to x*: not a method"
    ),
    in_order("MER, chosen epoch", lambda case: Multiscale(), chosen_epoch, "the epoch with the smallest residual"),
    in_order(
        "MER, all phases", lambda case: Multiscale(phases="all"), chosen_epoch, "likewise, on all offsets of a gap"
    ),
    in_order("reverse", lambda case: Reverse(10 * case.gap(), case.gap()), note="blocks of 10 oracle gaps"),
    in_order("uniform", lambda case: Uniform(case.seed)),
    in_order("shuffle", lambda case: Shuffle(case.seed)),
    in_order("dyadic", lambda case: Dyadic()),
    in_order("uniform x3", lambda case: Passes(tuple(Uniform(case.seed + i) for i in range(3)))),
    in_order("shuffle x3", lambda case: Passes(tuple(Shuffle(case.seed + i) for i in range(3)))),
    in_order("dyadic x3", lambda case: Passes((Dyadic(),) * 3)),
)
