"""Letting step sizes and updates compete on a held-out block of time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.buffer.record import Record
from multireplay.engine.residuals import measure
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint
from multireplay.result import Result, Status
from multireplay.sets import Set
from multireplay.show.text import TextTable
from multireplay.solving.arguments import as_schedule
from multireplay.solving.selection import FACTORS, split
from multireplay.updates.base import Plain, Update, VarianceReduced


class Rival(NamedTuple):
    """One candidate: what it is run with, the size of its step, and its score on the held-out block."""

    update: Update
    step: Any
    average: Any
    size: float
    score: float


def solve_held_out(
    solve: Callable[..., Result],
    record: Record,
    buffer: Any,
    share: float,
    step: Any,
    average: Any,
    track: Any,
    options: dict[str, Any],
) -> Result:
    """Let step sizes and updates compete on a held-out block of time, and run the winner on the whole record."""
    problem = record.problem
    learn, test = split(buffer, share)
    feasible = problem.constraint if options["constraint"] is None else as_constraint(options["constraint"])
    first = as_schedule(step, problem, problem.samples(problem.columns(learn)))
    base = float(first.values(1, 0, 1)[0])
    held = problem.columns(test)
    rivals: list[Rival] = []
    passes = share
    for update, size in [*((Plain(), factor * base) for factor in FACTORS), (VarianceReduced(), step)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = solve(problem, learn, update=update, step=size, average=average, holdout=None, **options)
        passes += tried.passes * len(learn) / len(buffer)
        epoch = tried.epochs[tried.chosen]
        kinds = {average: epoch.average, "none": epoch.last} if isinstance(update, Plain) else {average: tried.x}
        for kind, x in kinds.items():
            score = score_of(problem, held, feasible, x) if tried.status.ok else np.inf
            rivals.append(Rival(update, size, kind, epoch.step, score))
    best = min(rivals, key=lambda rival: rival.score)
    chosen = {"update": best.update, "step": best.step, "average": best.average}
    final = solve(problem, buffer, **chosen, holdout=None, track=track, **options)
    scored = "residual" if problem.loss(final.x, held) is None else "loss"
    rows = [
        {
            "update": repr(rival.update),
            "step size": f"{rival.size:.4g}",
            "answer": "last iterate" if rival.average == "none" else "average",
            f"{scored} on the held-out block": f"{rival.score:.5g}",
            "note": "smallest: run on the whole record" if rival is best else "",
        }
        for rival in rivals
    ]
    how = f"Chosen from {len(rivals)} candidates by the {scored} on the last {share:.0%} of the record."
    return replace(
        final,
        status=Status(final.status.code, f"{final.status} {how}"),
        passes=passes + final.passes,
        candidates=TextTable(rows),
    )


def score_of(problem: Problem, held: Columns, feasible: Set, x: Vector) -> float:
    """The loss on the held-out rows, or the residual there for a problem that has no loss."""
    loss = problem.loss(x, held)
    return measure(problem, held, feasible, x).size if loss is None else loss
