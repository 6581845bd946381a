"""Working out what a page on a result needs: what is affordable, and why the rest is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.disk import StoredBuffer
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.errors import InputError, MultireplayError
from multireplay.inference.residuals import Residual, measure
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint
from multireplay.replay import Dyadic, Replay
from multireplay.report import rivals
from multireplay.report.corrected import Corrected
from multireplay.report.evidence import Evidence
from multireplay.report.missing import Missing
from multireplay.report.on_disk import evidence_on_disk
from multireplay.report.rivals import Rival
from multireplay.report.uncertainty import Uncertainty, uncertainty, uncertainty_of_run
from multireplay.result import Result
from multireplay.sets import Set
from multireplay.solving.run import Lost, Run
from multireplay.tracking import Track
from multireplay.updates.plain import SLOW

OPERATOR_ROWS = 2**16
"""Rows at the end of the record on which the autocorrelation of the operator is measured."""
OPERATOR_VALUES = 2**26
OPERATOR_FEWEST = 2**12
"""Or on fewer, down to this many, where that would be more values than this."""
OPERATOR_FEATURES = 16
MOST_VALUES = 2**28
"""A column with more values than this is not diagnosed unasked."""


NO_START = Missing("Newton corrections have no starting point: the coarse epoch is fitted exactly.")


def gather(
    result: Result,
    exact: bool | str = "auto",
    others: bool | str = "auto",
    names: Sequence[str] | None = None,
    buffer: Buffer | StoredBuffer | None = None,
) -> Evidence:
    """Work everything out."""
    if result.recipe is None:
        raise InputError("this result was not made by mr.solve and does not say what it was asked to do: no report")
    for name, value in (("exact", exact), ("rivals", others)):
        if not isinstance(value, bool) and value != "auto":
            raise InputError(f"{name} must be True, False or 'auto', not {value!r}")
    names = _names(names, len(result.x))
    recipe = _with_record(result.recipe, buffer)
    replay = _replay(result, recipe)
    if recipe.problem is None or recipe.buffer is None:
        return _without_record(result, recipe, names, replay)
    problem, record = recipe.problem, recipe.buffer
    constraint = recipe.arguments["constraint"]
    feasible = problem.constraint if constraint is None else as_constraint(constraint)
    if isinstance(record, StoredBuffer):
        return evidence_on_disk(result, recipe, names, replay, feasible, _solution(recipe))
    columns = problem.columns(record)
    start = feasible.projected(np.zeros(len(result.x))) if recipe.arguments["x0"] is None else recipe.arguments["x0"]
    points = [epoch.answer for epoch in result.epochs]
    *residuals, at_start = _residuals(problem, columns, feasible, [*points, np.asarray(start, dtype=np.float64)])
    fit = rivals.exact_fit(problem, record, feasible, exact)
    solution = _solution(recipe)
    reference = solution if solution is not None else None if isinstance(fit, Missing) else fit.x
    spread = uncertainty_of_run(result, recipe.rows) or _spread(problem, columns, feasible, fit)
    operator = _operator(problem, columns, result.x) if result.status.ok else None
    serial, mixed = _passes(recipe, result, reference, others)
    return Evidence(
        result=result,
        recipe=recipe,
        names=names,
        replay=replay,
        residuals=residuals,
        start=NO_START if isinstance(replay, Corrected) else at_start,
        diagnosis=_diagnosis(columns),
        operator=operator,
        exact=fit,
        in_order=serial,
        shuffled=mixed,
        ours=_ours(result, recipe, replay, reference, solution, others),
        uncertainty=spread,
        solution=solution,
    )


def _without_record(result: Result, recipe: Run, names: Sequence[str], replay: Replay | None) -> Evidence:
    lost = "problem, which holds code that cannot be pickled," if recipe.problem is None else "record"
    hint = "" if recipe.problem is None else " result.report(path, buffer=...) takes it."
    missing = Missing(f"The {lost} was left behind when this result was pickled.{hint}")
    ours = Rival("this run", result.x, result.passes, result.seconds, ok=result.status.ok)
    residuals = [
        missing if epoch.residual is None else Residual(np.empty(0), epoch.residual, float("nan"))
        for epoch in result.epochs
    ]
    return Evidence(
        result, recipe, names, replay, residuals, missing, missing, None, missing, missing, missing, ours, missing,
        _solution(recipe),
    )  # fmt: skip


def _names(names: Sequence[str] | None, dim: int) -> Sequence[str]:
    if names is None:
        return [f"x[{i}]" for i in range(dim)]
    if isinstance(names, str) or len(names) != dim:
        given = repr(names) if isinstance(names, str) else f"{len(names)} of them"
        raise InputError(f"names must have one name for each of the {dim} coordinates, not {given}")
    return [str(name) for name in names]


def _with_record(recipe: Run, buffer: Buffer | StoredBuffer | None) -> Run:
    if buffer is None:
        here = recipe.buffer.to_numpy() if isinstance(recipe.buffer, Buffer) else recipe.buffer
        return Run(recipe.problem, here, recipe.rows, recipe.arguments)
    if not isinstance(buffer, Buffer | StoredBuffer):
        raise InputError(f"buffer must be the record of this run, a multireplay Buffer, not {type(buffer).__name__}")
    if len(buffer) != recipe.rows:
        raise InputError(f"buffer must be the record of this run, which has {recipe.rows} rows, not {len(buffer)}")
    here = buffer.to_numpy() if isinstance(buffer, Buffer) else buffer
    return Run(recipe.problem, here, recipe.rows, recipe.arguments)


def _replay(result: Result, recipe: Run) -> Replay | None:
    if result.standard_error is not None:
        return Corrected.of(result)
    replay = recipe.arguments["replay"]
    if replay is None:
        return Dyadic()
    return None if isinstance(replay, Lost) else replay


def _solution(recipe: Run) -> Vector | None:
    track = recipe.arguments["track"]
    if track is None or isinstance(track, Lost):
        return None
    return np.asarray(track.solution if isinstance(track, Track) else track, dtype=np.float64)


def _residuals(problem: Problem, columns: Columns, feasible: Set, points: list[Vector]) -> list[Residual | Missing]:
    rows = row_count(columns)
    if problem.users_code and not problem.compiled and rows * len(points) > SLOW:
        calls = f"{rows * len(points):,} calls of a plain Python operator"
        return [Missing(f"Residuals would take {calls}; jit it with Numba.")] * len(points)
    with np.errstate(all="ignore"):
        return [measure(problem, columns, feasible, x) for x in points]


def _spread(problem: Problem, columns: Columns, feasible: Set, fit: Rival | Missing) -> Uncertainty | Missing:
    if isinstance(fit, Missing):
        return Missing("Standard errors come with the exact fit, which is not here.")
    found = uncertainty(problem, columns, feasible, fit.x)
    if found is None:
        return Missing("Standard errors are worked out without a constraint, for policy evaluation and GLMs.")
    return found


def _diagnosis(columns: Columns) -> Diagnosis | Missing:
    read = {name: column for name, column in columns.items() if not name.startswith("next_")}
    if max(_size(column) for column in read.values()) > MOST_VALUES:
        return Missing(f"A column has more than {MOST_VALUES:,} values: mr.diagnose(buffer) takes its time.")
    try:
        return diagnose(read)
    except MultireplayError as error:
        return Missing(f"The record could not be diagnosed: {error}")


def _size(column: Any) -> int:
    """Values of a column that are kept."""
    return int(column.nnz if issparse(column) else column.size)


def _operator(problem: Problem, columns: Columns, x: Vector) -> Vector | None:
    """F̃(x, ξ_t) row by row at the end of the record, of some coordinates."""
    rows = row_count(columns)
    count = min(rows, OPERATOR_ROWS, max(OPERATOR_FEWEST, OPERATOR_VALUES // len(x)))
    last = {name: column[rows - count :] for name, column in columns.items()}
    if problem.users_code and not problem.compiled:
        return None
    samples = problem.samples(last)
    shown = np.linspace(0, len(x) - 1, min(len(x), OPERATOR_FEATURES)).round().astype(int)
    return np.array([problem.operator(x, samples, row)[shown] for row in range(count)])


def _passes(
    recipe: Run, result: Result, reference: Vector | None, wanted: bool | str
) -> tuple[Rival | Missing, Rival | Missing]:
    if wanted is False:
        missing = Missing("No other order was run (rivals=False).")
        return missing, missing
    pass_seconds = result.seconds / max(result.passes, 1e-9)
    if wanted == "auto" and pass_seconds > rivals.SLOW_PASS:
        missing = Missing(
            f"A pass over this record takes about {pass_seconds:.0f} s, so that no other order was run unasked; "
            "result.report(path, rivals=True) does."
        )
        return missing, missing
    serial = rivals.one_pass("one pass in order", rivals.in_order(), recipe, reference)
    mixed = rivals.one_pass("one shuffled pass", rivals.shuffled(), recipe, reference)
    return serial, mixed


def _ours(
    result: Result,
    recipe: Run,
    replay: Replay | None,
    reference: Vector | None,
    solution: Vector | None,
    wanted: bool | str,
) -> Rival:
    """The run itself, with its way to the reference: as it was tracked, or run once more where that is cheap."""
    followed: Result | None = None
    cheap = wanted is not False and result.candidates is None
    if solution is not None:
        followed = result
    elif reference is not None and cheap and (wanted is True or result.seconds <= rivals.SLOW_PASS):
        followed = rivals.again(recipe, reference)
    steps = distances = None
    if followed is not None and followed.status.ok and replay is not None:
        plan = replay.plan(recipe.rows)
        steps, distances = rivals.path(followed, recipe.rows, fresh=len(plan) if len(plan) > 1 else 0)
    # a second run has nothing left to compile
    fastest = result.seconds if followed is None else min(result.seconds, followed.seconds)
    return Rival("this run", result.x, result.passes, fastest, steps, distances, result.status.ok)
