"""Letting step sizes and updates compete on a held-out block of time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from multireplay.arguments import as_schedule
from multireplay.buffer import Buffer
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint
from multireplay.result import Result, Status
from multireplay.rounds import measure
from multireplay.selection import FACTORS, split
from multireplay.text import TextTable
from multireplay.updates import Plain, Update, VarianceReduced


def solve_held_out(
    solve: Callable[..., Result],
    problem: Problem,
    buffer: Buffer,
    share: float,
    step: Any,
    average: Any,
    track: Any,
    options: dict[str, Any],
) -> Result:
    """Let step sizes and updates compete on a held-out block of time, and run the winner on the whole record."""
    learn, test = split(buffer, share)
    feasible = problem.constraint if options["constraint"] is None else as_constraint(options["constraint"])
    first = as_schedule(step, problem, problem.samples(problem.columns(learn)))
    base = float(first.values(1, 0, 1)[0])
    rivals: list[tuple[Update, Any, Any]] = [
        (Plain(), factor * base, kind) for factor in FACTORS for kind in ("none", average)
    ]
    rivals.append((VarianceReduced(), step, average))
    rows, scores, passes = [], [], 0.0
    for update, size, kind in rivals:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tried = solve(problem, learn, update=update, step=size, average=kind, holdout=None, **options)
        score = measure(problem, problem.columns(test), feasible, tried.x).size if tried.status.ok else np.inf
        passes += tried.passes * len(learn) / len(buffer)
        scores.append(score)
        rows.append(
            {
                "update": repr(update),
                "step size": f"{tried.epochs[tried.chosen].step:.4g}",
                "answer": "last iterate" if kind == "none" else "average",
                "residual on the held-out block": f"{score:.4g}",
                "note": "" if tried.status.ok else "diverged",
            }
        )
    best = int(np.argmin(scores))
    rows[best]["note"] = "smallest: run on the whole record"
    update, size, kind = rivals[best]
    final = solve(problem, buffer, update=update, step=size, average=kind, holdout=None, track=track, **options)
    message = (
        f"{final.status} Chosen from {len(rivals)} candidates by the residual on the last {share:.0%} of the record."
    )
    return replace(
        final,
        status=Status(final.status.code, message),
        passes=passes + final.passes + share,
        candidates=TextTable(rows),
    )
