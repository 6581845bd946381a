"""Two runs at two step sizes, combined against the bias that a constant step leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from multireplay.result import Epoch
from multireplay.steps import Doubled
from multireplay.updates.base import Found, Needs, Update
from multireplay.updates.plain import StepRun

if TYPE_CHECKING:
    from multireplay.solving.run import Run


@dataclass(frozen=True)
class RichardsonRomberg(Update):
    """Two plain runs, at the step η and at 2η, combined as 2x_η − x_2η: the bias of order η cancels, the noise grows.

    For operators that are not linear, or orders that are nearly serial, where a constant step leaves a bias of its
    own order. It does not respect a constraint, and is refused with one.

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.RichardsonRomberg()
    RichardsonRomberg()
    """

    needs: ClassVar[Needs] = Needs(
        whole_space="Richardson-Romberg extrapolation leaves {feasible}; it needs the whole space",
        one_step="several step sizes compete with mr.Plain() alone, and there must be at least one",
        double="precision={precision} is for mr.Plain(): give update=mr.Plain() or replay=...",
        resumed="checkpoint=... is for passes in order, which mr.RichardsonRomberg() goes through twice",
    )

    def run(self, run: Run) -> Found:
        """A run through the plan, and its chosen epoch once more at twice the step."""
        with StepRun(run) as walk:
            epochs, chosen, passes = walk.through_the_plan()
            if epochs[chosen].diverged:
                return walk.found(epochs, chosen, passes)
            other = walk.epoch(walk.plan[chosen], Doubled(walk.schedules[0]))
            epochs = (*epochs, other, extrapolated(epochs[chosen], other))
            what = "2x_η − x_2η of the runs at this step and at twice this step"
            return walk.found(epochs, len(epochs) - 1, passes + other.taken / run.record.length, what)


def extrapolated(short: Epoch, long: Epoch) -> Epoch:
    """2x_η − x_2η by coordinate, of the last iterate and of the average."""
    return replace(
        short,
        k=short.k + 2,
        last=2 * short.last - long.last,
        average=2 * short.average - long.average,
        answer=2 * short.answer - long.answer,
        diverged=long.diverged,
        curve=None,
        residual=None,
    )
