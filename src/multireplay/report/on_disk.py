"""What is known of a run whose record is on disk: what one more pass in order gives, and nothing is loaded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.record import as_record
from multireplay.inference.residuals import residual_of
from multireplay.replay import Replay
from multireplay.report.evidence import Evidence
from multireplay.report.missing import Missing
from multireplay.report.rivals import Rival
from multireplay.report.uncertainty import uncertainty_of_run
from multireplay.result import Result
from multireplay.sets import Set
from multireplay.solving.run import Run

LEFT_OUT = Missing(
    "The record is on disk and this page loads none of it: its dependence, the exact fit and other orders are left "
    "out. mr.Buffer.open(path, memory=...) with more memory loads it, if it fits."
)


def evidence_on_disk(
    result: Result,
    recipe: Run,
    names: Sequence[str],
    replay: Replay | None,
    feasible: Set,
    solution: NDArray[np.float64] | None,
) -> Evidence:
    """Residuals from one pass in order, standard errors from the run; the rest is left out."""
    assert recipe.problem is not None
    assert recipe.buffer is not None
    points = [epoch.answer for epoch in result.epochs]
    batches = as_record(recipe.problem, recipe.buffer).batches(points)
    spread = uncertainty_of_run(result, recipe.rows)
    return Evidence(
        result=result,
        recipe=recipe,
        names=names,
        replay=replay,
        residuals=[residual_of(found, feasible, x) for found, x in zip(batches, points, strict=True)],
        start=LEFT_OUT,
        diagnosis=LEFT_OUT,
        operator=None,
        exact=LEFT_OUT,
        in_order=LEFT_OUT,
        shuffled=LEFT_OUT,
        ours=Rival("this run", result.x, result.passes, result.seconds, ok=result.status.ok),
        uncertainty=LEFT_OUT if spread is None else spread,
        solution=solution,
    )
