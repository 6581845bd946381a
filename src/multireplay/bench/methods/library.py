"""The two ends of the comparison: the exact fit, and the library with no argument or one."""

from __future__ import annotations

from functools import partial
from typing import Any

from multireplay.bench.method import Answer, Method
from multireplay.bench.world import Case, World
from multireplay.sets import WholeSpace
from multireplay.solve import solve
from multireplay.updates import RichardsonRomberg, VarianceReduced

EXACT = "exact fit"


def unconstrained(world: World) -> bool:
    """Whether the feasible set is the whole space."""
    return isinstance(world.problem.constraint, WholeSpace)


def exact(case: Case, step: float | None) -> Answer:
    """LSTD, maximum likelihood, or the best ridge: the yardstick, of ratio 1 by definition."""
    return Answer(case.world.fit(case.record, case.ridge), case.length)


def solved(case: Case, step: float | None, **options: Any) -> Answer:
    """``mr.solve(problem, buffer)`` with at most one option more."""
    result = solve(case.world.problem, case.record, **options)
    return Answer(result.x, float(result.passes) * case.length)


def _without_step(name: str, run: Any, note: str, **more: Any) -> Method:
    return Method(name, run, published="-", tuned=False, note=note, **more)


METHODS = (
    _without_step(EXACT, exact, "LSTD, maximum likelihood or the best ridge; costs O(d²) a row"),
    _without_step("mr.solve", solved, "no argument but the problem and the record"),
    _without_step("mr.solve, 1 pass", partial(solved, passes=1), "with passes=1"),
    _without_step(
        "mr.VarianceReduced", partial(solved, update=VarianceReduced()), "mr.solve with that update, O(d) a step"
    ),
    _without_step(
        "Richardson-Romberg", partial(solved, update=RichardsonRomberg()),
        "two plain dyadic passes, at the automatic step and at twice that", works_on=unconstrained,
    ),
)  # fmt: skip
