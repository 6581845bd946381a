"""Variance reduction: rounds of steps around an anchor whose mean operator is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from multireplay._check import whole_number
from multireplay.engine import ReducedStepper
from multireplay.updates.base import Found, Needs, Route, Update
from multireplay.updates.plain import AUTO_SHARE, StepRun, plain_stepper
from multireplay.updates.precondition import choose, shortening
from multireplay.updates.rounds import Rounds

if TYPE_CHECKING:
    from multireplay.solving.run import Run

ROUND_SHARE = 1.0
"""The automatic step of a round is this share of 1/L."""


@dataclass(frozen=True)
class VarianceReduced(Update):
    """Rounds of x ← Proj_X(x − η(F̃(x, ξ) − F̃(x̃, ξ) + F̂(x̃))), after one plain pass (Johnson and Zhang 2013).

    A round takes two passes over the record: one in order, for the record's own mean operator F̂ at the anchor x̃,
    and one in the order of the replay scheme; the average of its second half is the next anchor. The rounds converge
    to the exact fit (the root of F̂, or the solution of its variational inequality on the feasible set) at O(d) a
    step, also where the operator is not linear, because what a constant step leaves over vanishes with F̃(x, ξ) −
    F̃(x̃, ξ).

    The order matters: in serial order the same rounds can diverge, because neighbours push the same way; dyadic and
    shuffled order do not have that, unless the record has a period that dyadic order is in step with (2, 4, 8, … rows
    in a record of a large power of two). Where no order was asked for, a round that leaves a residual which it should
    have removed is run again in shuffled order. It is noticed only where the residual is beyond its standard error, and
    where the curvature is not known (more than 1024 coordinates, operators of one's own) only if the round removed next
    to nothing. The plain pass before the rounds is not guarded.

    Parameters
    ----------
    rounds : int or "auto"
        Number of rounds. "auto" begins with the plain pass and the mean operator at its end, stops if that is well
        below its own standard error under dependence (from batch means; beyond it more passes fit noise), takes one
        round otherwise, and a second one if the first was still on its way at its end.
    precondition : int, "auto" or None
        Rank of the preconditioner: the leading directions of the features, found in a prefix of 4096 samples in
        dyadic order, are shortened to the length of the next one, a change of variables that costs O(rank · d) a step
        and is undone in the answer. "auto" chooses among 0, 1, 2, 4, 8 and 16 by how much longer a step it allows.
        Only for policy evaluation and GLMs on the whole space: it does not commute with a projection.

    Examples
    --------
    >>> import multireplay as mr
    >>> process = mr.simulate.paper_mrp(m=0.95)
    >>> buffer = process.buffer(length=2**15, seed=0)
    >>> exact = process.problem.fit_exactly(buffer)
    >>> for update in (mr.Plain(), mr.VarianceReduced()):
    ...     result = mr.solve(process.problem, buffer, update=update)
    ...     print(result.passes, f"{abs(result.x - exact).max():.0e}")
    1.0 1e-01
    3.0 6e-03
    """

    route: ClassVar[Route] = "rounds"
    needs: ClassVar[Needs] = Needs(
        constant_step="variance reduction needs a constant step; give a number, or update=mr.Plain() with the schedule",
        one_step="several step sizes compete with mr.Plain() alone, and there must be at least one",
        double="precision={precision} is for mr.Plain(): give update=mr.Plain() or replay=...",
        resumed="checkpoint=... is for passes in order, which rounds of variance reduction are not",
    )

    rounds: int | Literal["auto"] = "auto"
    precondition: int | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        if self.rounds != "auto":
            object.__setattr__(self, "rounds", whole_number("rounds", self.rounds, least=1))
        if self.precondition not in ("auto", None):
            object.__setattr__(self, "precondition", whole_number("precondition", self.precondition, least=1))

    def run(self, run: Run) -> Found:
        """A plain pass, and rounds from where it ends."""
        record, preconditioner = run.record, choose(self.precondition, run.record, run.feasible)

        def make() -> ReducedStepper:
            return plain_stepper(run).reduced(preconditioner)

        how = " with variance reduction"
        how += f", preconditioner of rank {preconditioner.rank}" if preconditioner.rank else ""
        with StepRun(run, make, shortening(record, preconditioner) if run.automatic else None) as walk:
            epochs, chosen, passes = walk.through_the_plan()
            if epochs[chosen].diverged:
                return walk.found(epochs, chosen, passes, how=how)
            longer = ROUND_SHARE / AUTO_SHARE if run.automatic else 1.0
            step = longer * float(walk.schedules[0].values(1, 0, 1)[0])
            rounds = Rounds(run, walk.plan, make(), walk.itinerary.jobs[0])
            more = rounds.run(epochs[chosen].answer, step, None if self.rounds == "auto" else self.rounds)
            epochs = (*epochs, *more)
            if more:
                chosen = max(index for index, epoch in enumerate(epochs) if not epoch.diverged)
            what = "the average of the second half of the last round" if more and chosen == len(epochs) - 1 else ""
            return walk.found(epochs, chosen, passes + rounds.passes, what, tuple(rounds.notes), how)
