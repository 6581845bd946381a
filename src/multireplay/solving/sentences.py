"""How a run went, as a sentence for people."""

from __future__ import annotations

from typing import Any

from multireplay.averaging import Averaging
from multireplay.problems import Problem
from multireplay.problems.packed import has_sparse_rows
from multireplay.replay import Replay
from multireplay.result import Epoch, Status
from multireplay.sets import Set, WholeSpace
from multireplay.solving.arguments import AUTO_SHARE
from multireplay.updates.base import RichardsonRomberg, Update, VarianceReduced
from multireplay.updates.precondition import Preconditioner


def diverged(epochs: tuple[Epoch, ...], problem: Problem, samples: Any, chosen: int) -> Status:
    lost = [epoch for epoch in epochs if epoch.diverged]
    first = lost[0]
    kept = epochs[chosen]
    if kept.diverged:
        answer = "the answer is the last finite iterate and of no use"
    else:
        answer = f"the answer is that of epoch {kept.k}, which may only have been too short to diverge"
    bound = problem.lipschitz(samples)
    remedy = f"step='auto' (here {AUTO_SHARE / bound:.3g})" if bound else f"a smaller step (step={first.step / 4:.2g})"
    return Status(
        "diverged",
        f"Diverged in {len(lost)} of {len(epochs)} epochs, first at step {first.taken + 1} of epoch {first.k} "
        f"with step size {first.step:.3g}; {answer}. Try {remedy}, features of smaller norm, or a bounded constraint.",
    )


def corrected(rows: int, length: int, corrections: int, passes: float, note: str) -> Status:
    """A run of Newton corrections."""
    passed = f"{corrections} Newton correction{'s' * (corrections > 1)} in passes over all {length} in order"
    ending = f"; {note}" if note else ""
    return Status(
        "finished",
        f"Finished: {rows} samples, {length / rows:.3g} apart, fitted exactly, then {passed} "
        f"({passes:.3g} passes in all){ending}.",
    )


def costs(samples: Any, feasible: Set) -> tuple[str, ...]:
    """What to know of the price of a step, if anything."""
    if not has_sparse_rows(samples) or isinstance(feasible, WholeSpace):
        return ()
    return (f"every step projects on {feasible!r}, and so costs O(d) although the rows are sparse",)


def finished(
    epochs: tuple[Epoch, ...],
    chosen: int,
    replay: Replay,
    update: Update,
    step: Any,
    averaging: Averaging,
    preconditioner: Preconditioner,
    passes: float,
    notes: tuple[str, ...],
) -> Status:
    last = epochs[chosen]
    how = "automatic " if isinstance(step, str) else ""
    reduced = isinstance(update, VarianceReduced)
    if isinstance(update, RichardsonRomberg):
        what = "2x_η − x_2η of the runs at this step and at twice this step"
    elif reduced and chosen == len(epochs) - 1 and len(epochs) > 1:
        what = "the average of the second half of the last round"
    else:
        what = f"{averaging} of epoch {last.k}"
    extra = f", preconditioner of rank {preconditioner.rank}" if preconditioner.rank else ""
    ways = " with variance reduction" if reduced else ""
    sentences = "".join(f" Note: {note}." for note in notes)
    return Status(
        "finished",
        f"Finished: {passes:.3g} passes in the order of {replay!r}{ways}{extra}, {how}step size {last.step:.4g}; "
        f"the answer is {what}{', which has the smallest residual' if last.residual is not None else ''}.{sentences}",
    )
