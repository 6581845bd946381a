"""Letting step sizes and updates compete on a held-out block of time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.errors import InputError, warn
from multireplay.inference.residuals import measure
from multireplay.result import Result, Status
from multireplay.show.text import TextTable
from multireplay.solving.resolve import can_be_exact, default_order
from multireplay.solving.run import Run
from multireplay.updates import Exact, Plain, Update, VarianceReduced
from multireplay.updates.plain import as_schedule

FACTORS = (1.0, 0.25, 1 / 16, 1 / 64)
"""Step sizes that compete on a held-out block, as multiples of the automatic one."""


class Candidate(NamedTuple):
    """What it is run with, whether its last iterate or average answers, the size of its step, and its score."""

    update: Update
    step: Any
    average: Any
    size: float
    score: float

    @property
    def answer(self) -> str:
        """What of it answers, in words."""
        if self.update.route == "exact":
            return "exact fit"
        return "last iterate" if self.average == "none" else "average"


def split(buffer: Buffer, share: float) -> tuple[Buffer, Buffer]:
    """What is learnt from, and the last `share` that is held out; a hundredth of it between them is thrown away."""
    length = len(buffer)
    held, gap = int(share * length), max(1, length // 100)
    if held < 1 or length - held - gap < 1:
        raise InputError(f"holdout={share:g} of {length} rows leaves nothing to learn from or to test on")
    return buffer[: length - held - gap], buffer[length - held :]


def solve_held_out(solve: Callable[..., Result], run: Run, share: float) -> Result:
    """Let step sizes and updates compete on a held-out block of time, and run the winner on the whole record."""
    given = run.arguments
    if given["checkpoint"] is not None:
        raise InputError(
            f"checkpoint=... is for one run, and holding out {share:.0%} of the record takes several: "
            "give holdout=None, or leave checkpoint=... out"
        )
    problem, learn, test = run.record.problem, *split(run.buffer, share)
    options = {name: given[name] for name in ("x0", "constraint", "backend", "threads")}
    options["replay"] = given["replay"] or default_order(run.record)
    rivals, passes = _compete(solve, run, (learn, test), options)
    ordered, nothing = sorted(rivals, key=lambda rival: rival.score), run.feasible.projected(np.zeros_like(run.start))
    most = _score(run, run.buffer, nothing) + abs(_score(run, test, nothing) - ordered[0].score)
    finals = []
    for best in ordered:
        chosen = {"update": best.update, "step": best.step, "average": best.average, **_fitting(best.update, options)}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            final = solve(problem, run.buffer, **chosen, holdout=None, track=given["track"])
        passes += 1 + final.passes
        finals.append((float(np.nan_to_num(_score(run, run.buffer, final.x), nan=np.inf)), best, final, said))
        if finals[-1][0] <= most:  # that of 0, but for what the best gains on the held-out block
            break
    else:
        finals.append(min(finals, key=lambda each: each[0]))
    _, best, final, said = finals[-1]
    for one in said:
        warn(str(one.message), one.category)
    scored = "residual" if problem.loss(final.x, problem.columns(test)) is None else "loss"
    useless = [rival for _, rival, *_ in finals if rival is not best]
    rows = [
        {
            "update": repr(rival.update),
            "step size": "" if rival.update.route == "exact" else f"{rival.size:.4g}",
            "answer": rival.answer,
            f"{scored} on the held-out block": f"{rival.score:.5g}",
            "note": "smallest: run on the whole record"
            if rival is best
            else "of no use on the whole record" * (rival in useless),
        }
        for rival in rivals
    ]
    how = f"Chosen from {len(rivals)} candidates by the {scored} on the last {share:.0%} of the record."
    return replace(
        final,
        status=Status(final.status.code, f"{final.status} {how}"),
        passes=share + passes,
        candidates=TextTable(rows),
        run=replace(final.run, problem=run.problem, arguments=given, why=how),
    )


def _compete(
    solve: Callable[..., Result], run: Run, parts: tuple[Buffer, Buffer], options: dict[str, Any]
) -> tuple[list[Candidate], float]:
    """Every candidate with its score, and the passes that they took."""
    (learn, test), problem, step, average = parts, run.record.problem, run.arguments["step"], run.arguments["average"]
    first = as_schedule(run.steps[0], problem, problem.samples(problem.columns(learn)))
    base = float(first.values(1, 0, 1)[0])
    rivals: list[tuple[Update, Any]] = [*((Plain(), factor * base) for factor in FACTORS), (VarianceReduced(), step)]
    if run.automatic and run.arguments["replay"] is None and problem.has_jacobian and can_be_exact(run.record):
        rivals.append((Exact(), step))
    found, passes = [], 0.0
    for update, size in rivals:
        given = {"update": update, "step": size, "average": average, **_fitting(update, options)}
        with warnings.catch_warnings(action="ignore"):
            try:
                tried = solve(problem, learn, **given, holdout=None)
            except InputError:
                if update.route != "exact":
                    raise
                continue  # what is learnt from has no exact fit, where the whole record may have one
        passes += tried.passes * len(learn) / len(run.buffer)
        epoch = tried.epochs[tried.chosen]
        kinds = {average: epoch.average, "none": epoch.last} if tried.run.route == "steps" else {average: tried.x}
        for kind, x in kinds.items():
            score = _score(run, test, x) if tried.status.ok else np.inf
            found.append(Candidate(update, size, kind, epoch.step, score))
    return found, passes


def _score(run: Run, rows: Buffer, x: Vector) -> float:
    """The loss at x on these rows, or the residual, for a problem without a loss."""
    problem = run.record.problem
    columns = problem.columns(rows)
    loss = problem.loss(x, columns)
    return measure(problem, columns, run.feasible, x).size if loss is None else loss


def _fitting(update: Update, options: dict[str, Any]) -> dict[str, Any]:
    """The options that this update takes: an exact fit has no order."""
    return {name: value for name, value in options.items() if name != "replay" or update.route != "exact"}
