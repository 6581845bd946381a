"""What a page on a run is written from: what is affordable is worked out, and the rest says why it is not there."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer, buffer_of
from multireplay.buffer.columns import Columns, row_count
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.record import Record, as_record
from multireplay.diagnose import Diagnosis, diagnose
from multireplay.engine.sums import Folding, operator_batches
from multireplay.errors import InputError, MultireplayError
from multireplay.inference.residuals import Residual, residual_of
from multireplay.inference.uncertainty import Uncertainty
from multireplay.problems import Problem
from multireplay.replay import PlannedEpoch
from multireplay.report import rivals as contest
from multireplay.report.coverage import plan_of
from multireplay.report.fitted import FittedActual, look
from multireplay.report.reliability import ByBatches, by_batches, if_independent, is_of
from multireplay.report.rivals import IN_ORDER, SHUFFLED, Contender, ErrorBars, Missing
from multireplay.result import Result
from multireplay.solving.run import Lost, Run
from multireplay.tracking import Track
from multireplay.updates.plain import SLOW

MOST_VALUES = 2**28
"""A column with more values than this is not diagnosed unasked."""
SLOW_PASS = 20.0
"""Seconds: a pass that takes longer is not run unasked."""
ON_DISK = Missing(
    "The record is on disk and this page loads none of it: its dependence, the exact fit and other orders are left "
    "out. mr.Buffer.open(path, memory=...) with more memory loads it, if it fits."
)
NO_RECORD = Missing("The record is not here, so that nothing is fitted to it.")
NO_START = Missing("This run takes no steps, so that it has no starting point.")


@dataclass(frozen=True, eq=False)
class Shown:
    """Coefficients in the units of the reader's own columns, and what there is to say of the model."""

    known: Mapping[str, Uncertainty]
    """How well they are known, by class; one, by no name, where there are no classes."""
    units: str = ""
    """What the run itself saw where that is something else, in a sentence for the tabs on the run."""
    said: Sequence[str] = ()
    """Sentences on the model."""
    run_of: str = ""
    """The class that the run is of, where each has a run of its own."""
    level: float = 0.95
    """Of the intervals."""
    outcomes: Sequence[Any] = ()
    """What the two outcomes are called where 0 and 1 are fitted."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was found out about a run, with the record if it is at hand; what is missing says why."""

    result: Result
    run: Run
    names: Sequence[str]
    plan: tuple[PlannedEpoch, ...] | None
    """What was read before any rounds; None for an exact fit, and if the order was lost in pickling."""
    solution: Vector | None
    """The known solution, if the run was given one."""
    ours: Contender
    residuals: Sequence[Residual | Missing]
    """Of every epoch's answer on the whole record."""
    start: Residual | Missing
    """At the starting point."""
    diagnosis: Diagnosis | Missing
    exact: Contender | Missing
    in_order: Contender | Missing
    shuffled: Contender | Missing
    uncertainty: ErrorBars | Missing
    known: Uncertainty
    """How well the record knows the answer, in the units and by the names that are shown."""
    operator: Vector | None = None
    """F̃(x, ξ_t) at the answer row by row, at the end of the record, of some coordinates."""
    fitted: FittedActual | Missing = NO_RECORD
    """What is fitted beside what was observed."""
    batches: ByBatches | None = None
    """Standard errors with other numbers of batches."""
    textbooks: Sequence[Vector | None] = ()
    """Standard errors if rows were independent, of every class."""
    shown: Shown | None = None
    """How the coefficients are shown, where not as the run has them."""

    @property
    def by_class(self) -> Mapping[str, Uncertainty]:
        """What is known of the coefficients of every class; of one without a name where there are none."""
        return {"": self.known} if self.shown is None else self.shown.known

    @property
    def level(self) -> float:
        """Of the intervals."""
        return 0.95 if self.shown is None else self.shown.level

    @property
    def units(self) -> str:
        """What the run saw where that differs from what is shown, in a sentence."""
        return "" if self.shown is None else self.shown.units

    @property
    def operator_names(self) -> list[str]:
        """The names of those coordinates."""
        return [self.names[i] for i in _some(len(self.names))]

    @property
    def by_steps(self) -> bool:
        """Whether the run took stochastic steps, with or without rounds of variance reduction."""
        return self.run.route in ("steps", "rounds")

    @property
    def diverged(self) -> bool:
        """Whether the answer is of no use."""
        return self.result.status.code == "diverged"

    @property
    def distance(self) -> float:
        """Of the answer to the exact fit, as the run or a pass over the record says; NaN where that is not known."""
        known = self.result.measured is not None or not isinstance(self.residual, Missing)
        return self.result.distance if known and not self.diverged else float("nan")

    @property
    def planned(self) -> int:
        """Epochs of the plan, before any rounds."""
        return 1 if self.plan is None else len(self.plan)

    @property
    def residual(self) -> Residual | Missing:
        """At the answer."""
        return self.residuals[self.result.chosen]

    @property
    def tau(self) -> float:
        """Autocorrelation time of the slowest column, NaN where it is not known."""
        return self.diagnosis.tau if isinstance(self.diagnosis, Diagnosis) else float("nan")

    def in_standard_errors(self, x: Vector) -> float | None:
        """The distance of a point to the exact fit, in units of the exact fit's own expected error."""
        if isinstance(self.exact, Missing) or isinstance(self.uncertainty, Missing) or not self.uncertainty.total:
            return None
        return float(np.linalg.norm(x - self.exact.x)) / self.uncertainty.total

    def residual_at(self, x: Vector) -> float:
        """‖x − Proj(x − F̂(x))‖ on the record, NaN where it cannot be had."""
        if isinstance(self.residual, Missing) or self.run.problem is None or self.run.buffer is None:
            return float("nan")
        (found,) = _residuals(self.run, [x])
        return float("nan") if isinstance(found, Missing) else found.size


def gather(
    result: Result,
    exact: bool | str = "auto",
    rivals: bool | str = "auto",
    names: Sequence[str] | None = None,
    buffer: Buffer | StoredBuffer | None = None,
    uncertainty: Uncertainty | Shown | None = None,
) -> Evidence:
    """Work everything out. An `uncertainty` is that of the answer in other units, made by ``uncertainty.mapped``."""
    shown = Shown({"": uncertainty}) if isinstance(uncertainty, Uncertainty) else uncertainty
    if result.run is None:
        raise InputError("this result was not made by mr.solve and does not say what it was asked to do: no report")
    for name, value in (("exact", exact), ("rivals", rivals)):
        if not isinstance(value, bool) and value != "auto":
            raise InputError(f"{name} must be True, False or 'auto', not {value!r}")
    dim = len(result.x)
    if names is not None and (isinstance(names, str) or len(names) != dim):
        given = repr(names) if isinstance(names, str) else f"{len(names)} of them"
        raise InputError(f"names must have one name for each of the {dim} coordinates, not {given}")
    names = result.run.names if names is None else [str(name) for name in names]
    run = _with_record(result.run, buffer)
    if run.problem is None or run.buffer is None:
        lost = "problem, which holds code that cannot be pickled," if run.problem is None else "record"
        hint = "" if run.problem is None else " result.report(path, buffer=...) takes it."
        missing = Missing(f"The {lost} was left behind when this result was pickled.{hint}")
        bare = _bare(result, run, names, missing)
        return _as_shown(replace(bare, fitted=missing), shown)
    if result.run.record is None:
        result = replace(result, run=replace(run, record=as_record(run.problem, run.buffer)))
    if isinstance(run.buffer, Buffer):
        found = _in_memory(_bare(result, run, names, NO_START), run.problem, run.buffer, exact, rivals)
    else:
        residuals = _residuals(run, [epoch.answer for epoch in result.epochs])
        found = replace(_bare(result, run, names, ON_DISK), residuals=residuals)
    found = _as_shown(found, shown)
    return found if found.diverged else _looked_at(found)


def _as_shown(found: Evidence, shown: Shown | None) -> Evidence:
    return found if shown is None else replace(found, shown=shown, known=next(iter(shown.known.values())))


def _looked_at(found: Evidence) -> Evidence:
    """With what is fitted beside what was observed, and how far standard errors are to be relied on."""
    run, known, x = found.run, found.known, found.result.x
    assert run.problem is not None
    if run.problem.is_slow and run.rows > SLOW:
        calls = f"{run.rows:,} calls of a plain Python function"
        return replace(found, fitted=Missing(f"What is fitted would take {calls}; jit it with Numba."))
    record = as_record(run.problem, run.buffer)
    fitted = look(record, x, run.threads, found.level)
    batches = None if isinstance(fitted, Missing) else by_batches(known, fitted.pieces)
    return replace(found, fitted=fitted, batches=batches, textbooks=list(_textbooks(found, record)))


def _textbooks(found: Evidence, record: Record) -> Iterator[Vector | None]:
    """Standard errors if rows were independent: of the run's own record, or of that of a class's own run."""
    for known in found.by_class.values():
        source = known.source
        if is_of(known, found.result.x):
            yield if_independent(known, record, found.result.x)
        elif source is not None and source.record is not None:
            yield if_independent(known, source.record, source.x)
        else:
            yield None


def _with_record(run: Run, buffer: Buffer | StoredBuffer | None) -> Run:
    """The run with the record that was given, or its own, as NumPy arrays where it is in memory."""
    if buffer is not None and not isinstance(buffer, Buffer | StoredBuffer):
        raise InputError(f"buffer must be the record of this run, a multireplay Buffer, not {type(buffer).__name__}")
    if buffer is not None and len(buffer) != run.rows:
        raise InputError(f"buffer must be the record of this run, which has {run.rows} rows, not {len(buffer)}")
    here = run.buffer if buffer is None else buffer
    return replace(run, buffer=here.to_numpy() if isinstance(here, Buffer) else here)


def _bare(result: Result, run: Run, names: Sequence[str], missing: Missing) -> Evidence:
    """What the result itself says; the rest is missing, for one reason."""
    residuals = [
        missing if epoch.residual is None else Residual(np.empty(0), epoch.residual, float("nan"))
        for epoch in result.epochs
    ]
    track = run.arguments["track"]
    solution = None
    if track is not None and not isinstance(track, Lost):
        solution = np.asarray(track.solution if isinstance(track, Track) else track, dtype=np.float64)
    ours = Contender("this run", result.x, result.passes, result.seconds, ok=result.status.code != "diverged")
    rest = dict.fromkeys(("start", "diagnosis", "exact", "in_order", "shuffled"), missing)
    known = copy.copy(result.uncertainty)
    known.names = tuple(names)
    return Evidence(
        result, run, names, plan_of(run, result), solution, ours, residuals,
        **rest, uncertainty=contest.error_bars(result, run.rows), known=known,  # type: ignore[arg-type]
    )  # fmt: skip


def _in_memory(bare: Evidence, problem: Problem, record: Buffer, exact: bool | str, others: bool | str) -> Evidence:
    result, run = bare.result, bare.run
    columns = problem.columns(record)
    *residuals, at_start = _residuals(run, [*(epoch.answer for epoch in result.epochs), run.start])
    fit = contest.exact_fit(problem, record, run.feasible, exact)
    if result.free and run.route == "exact" and isinstance(fit, Contender):
        fit = replace(fit, x=result.x)  # there are many, and this is the shortest
    reference = bare.solution if bare.solution is not None else None if isinstance(fit, Missing) else fit.x
    unaffordable = _unaffordable(result, others)
    return replace(
        bare,
        ours=_ours(bare, reference, others),
        residuals=residuals,
        start=at_start if bare.by_steps else NO_START,
        diagnosis=_diagnosis(columns, record),
        exact=fit,
        in_order=unaffordable or contest.one_pass(IN_ORDER, run, reference),
        shuffled=unaffordable or contest.one_pass(SHUFFLED, run, reference),
        operator=_operator(problem, columns, result.x) if not bare.diverged else None,
    )


def _residuals(run: Run, points: list[Vector]) -> list[Residual | Missing]:
    """At each of the points, in one pass over the record in order."""
    assert run.problem is not None
    assert run.buffer is not None
    if run.problem.users_code and not run.problem.compiled and run.rows * len(points) > SLOW:
        calls = f"{run.rows * len(points):,} calls of a plain Python operator"
        return [Missing(f"Residuals would take {calls}; jit it with Numba.")] * len(points)
    with np.errstate(all="ignore"):
        batches = operator_batches(as_record(run.problem, run.buffer), points, Folding(run.threads))
        return [residual_of(found, run.feasible, x) for found, x in zip(batches, points, strict=True)]


def _diagnosis(columns: Columns, record: Buffer) -> Diagnosis | Missing:
    read = {name: column for name, column in columns.items() if not name.startswith("next_")}
    if max(column.size for column in read.values()) > MOST_VALUES:  # of a sparse column, the nonzeros
        return Missing(f"A column has more than {MOST_VALUES:,} values: mr.diagnose(buffer) takes its time.")
    try:
        return diagnose(buffer_of(read, record.feature_names, record.chains))
    except MultireplayError as error:
        return Missing(f"The record could not be diagnosed: {error}")


def _operator(problem: Problem, columns: Columns, x: Vector) -> Vector | None:
    """F̃(x, ξ_t) row by row at the end of the record, of some coordinates."""
    if problem.users_code and not problem.compiled:
        return None
    rows = row_count(columns)
    count = min(rows, 2**16, max(2**12, 2**26 // len(x)))  # fewer where that would be many values
    samples = problem.samples({name: column[rows - count :] for name, column in columns.items()})
    shown = _some(len(x))
    return np.array([problem.operator(x.copy(), samples, row)[shown] for row in range(count)])


def _some(dim: int) -> NDArray[np.intp]:
    """Up to 16 coordinates at even spaces."""
    return np.linspace(0, dim - 1, min(dim, 16)).round().astype(np.intp)


def _unaffordable(result: Result, wanted: bool | str) -> Missing | None:
    """Why no other order is run, if none is."""
    if wanted is False:
        return Missing("No other order was run (rivals=False).")
    pass_seconds = result.seconds / max(result.passes, 1e-9)
    if wanted == "auto" and pass_seconds > SLOW_PASS:
        return Missing(
            f"A pass over this record takes about {pass_seconds:.0f} s, so that no other order was run unasked; "
            "result.report(path, rivals=True) does."
        )
    return None


def _ours(bare: Evidence, reference: Vector | None, wanted: bool | str) -> Contender:
    """The run itself, with its way to the reference: as it was tracked, or run once more where that is cheap."""
    result = bare.result
    followed: Result | str = result if bare.solution is not None else "not yet"
    cheap = wanted is True or (wanted == "auto" and result.seconds <= SLOW_PASS)
    if bare.solution is None and reference is not None and cheap and result.candidates is None:
        followed = contest.rerun(bare.run, reference, bare.run.arguments)
    if isinstance(followed, str):
        return bare.ours
    steps = distances = None
    if followed.status.code != "diverged" and (bare.plan is not None or not bare.by_steps):
        steps, distances = contest.path(followed, fresh=bare.planned if bare.planned > 1 else 0)
    # a second run has nothing left to compile
    return replace(bare.ours, seconds=min(result.seconds, followed.seconds), steps=steps, distances=distances)
