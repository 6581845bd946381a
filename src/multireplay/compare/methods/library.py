"""The two ends of the bench: the exact fit, and the library with no argument."""

from __future__ import annotations

from multireplay.compare.methods.base import Answer, Case, Method
from multireplay.compare.worlds.base import World
from multireplay.sets import WholeSpace
from multireplay.solve import solve
from multireplay.updates import RichardsonRomberg, VarianceReduced


def unconstrained(world: World) -> bool:
    """Whether the feasible set is the whole space."""
    return isinstance(world.problem.constraint, WholeSpace)


def exact(case: Case, step: float | None) -> Answer:
    """LSTD, maximum likelihood, or the best ridge: the yardstick, of ratio 1 by definition."""
    return Answer(case.world.exact(case.record, case.ridge), case.length)


def by_default(case: Case, step: float | None) -> Answer:
    """``mr.solve(problem, buffer)``."""
    result = solve(case.world.problem, case.record)
    return Answer(result.x, float(result.passes) * case.length)


def in_one_pass(case: Case, step: float | None) -> Answer:
    """``mr.solve(problem, buffer, passes=1)``."""
    result = solve(case.world.problem, case.record, passes=1)
    return Answer(result.x, float(result.passes) * case.length)


def variance_reduced(case: Case, step: float | None) -> Answer:
    """``mr.solve(problem, buffer, update=mr.VarianceReduced())``."""
    result = solve(case.world.problem, case.record, update=VarianceReduced())
    return Answer(result.x, float(result.passes) * case.length)


def richardson_romberg(case: Case, step: float | None) -> Answer:
    """``mr.solve(problem, buffer, update=mr.RichardsonRomberg())``."""
    result = solve(case.world.problem, case.record, update=RichardsonRomberg())
    return Answer(result.x, float(result.passes) * case.length)


EXACT = "exact fit"
METHODS = (
    Method(
        EXACT, exact, published="-", tuned=False, note="LSTD, maximum likelihood or the best ridge; costs O(d²) a row"
    ),
    Method("mr.solve", by_default, published="-", tuned=False, note="no argument but the problem and the record"),
    Method("mr.solve, 1 pass", in_one_pass, published="-", tuned=False, note="with passes=1"),
    Method(
        "mr.VarianceReduced",
        variance_reduced,
        published="-",
        tuned=False,
        note="mr.solve with that update, O(d) a step",
    ),
    Method(
        "Richardson-Romberg",
        richardson_romberg,
        published="-",
        tuned=False,
        works_on=unconstrained,
        note="two plain dyadic passes, at the automatic step and at twice that",
    ),
)
