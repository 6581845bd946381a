"""Solving by stochastic steps in the order of a replay scheme: plain, variance reduced, or at two step sizes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.buffer.record import Record
from multireplay.engine import Backend, Job, ReducedStepper, arrange, make_stepper
from multireplay.engine.checkpoint import Checkpoint
from multireplay.errors import DivergenceWarning, InputError
from multireplay.problems.base import GROWTH, UNBOUNDED
from multireplay.replay import PlannedEpoch, Replay
from multireplay.result import Epoch, Result
from multireplay.sets import Set
from multireplay.show.progress import step_bar
from multireplay.solving import sentences
from multireplay.solving.arguments import (
    as_schedule,
    choose_preconditioner,
    round_step,
    shortening,
    starting_point,
    warn_of_scales,
)
from multireplay.solving.costs import tell_costs
from multireplay.solving.selection import by_residual
from multireplay.steps import Doubled, Schedule
from multireplay.tracking import Track
from multireplay.updates.base import Plain, RichardsonRomberg, Update, VarianceReduced
from multireplay.updates.precondition import Preconditioner
from multireplay.updates.rounds import run_rounds


class HowToStep(NamedTuple):
    """What was asked for; `instead` is an order for rounds that get nowhere in that of `replay`, if it may change."""

    replay: Replay
    instead: Replay | None
    update: Update
    step: Any
    averaging: Averaging
    x0: Any
    feasible: Set
    backend: Backend
    threads: int
    precision: str


class Found(NamedTuple):
    """What a run found: its epochs, which of them answers, the passes it took, and sentences on what was done."""

    epochs: tuple[Epoch, ...]
    chosen: int
    passes: float
    notes: tuple[str, ...] = ()


def solve_by_steps(
    record: Record, how: HowToStep, track: Track | None, checkpoint: Checkpoint | None, progress: bool
) -> Result:
    """The whole run."""
    plan = how.replay.plan(record.length)
    start = starting_point(how.x0, how.feasible, record.dim)
    make_stepper(record.problem, how.feasible, record.dim, how.backend, record.example)  # says first what cannot be
    preconditioner = choose_preconditioner(how.update, record, how.feasible)
    several = isinstance(how.step, Sequence) and not isinstance(how.step, str)
    sizes = list(how.step) if several else [how.step]
    if several and not (sizes and isinstance(how.update, Plain)):
        raise InputError("several step sizes compete with mr.Plain() alone, and there must be at least one")
    if how.precision != "float64" and not isinstance(how.update, Plain):
        raise InputError(f"precision={how.precision!r} is for mr.Plain(): give update=mr.Plain() or replay=...")
    automatic = isinstance(how.step, str)
    extremes = record.extremes(start) if automatic or not record.on_disk else record.example
    limit = record.problem.limit(extremes, start) if automatic or not record.on_disk else UNBOUNDED
    shorten = shortening(record, preconditioner) if automatic else None
    schedules = [as_schedule(size, record.problem, extremes, shorten) for size in sizes]
    record.problem.probe(start, record.example)

    def job(schedule: Schedule) -> Job:
        stepper = make_stepper(record.problem, how.feasible, record.dim, how.backend, record.example, how.precision)
        if isinstance(how.update, VarianceReduced):
            stepper = stepper.reduced(preconditioner)
        return Job(
            problem=record.problem, record=record, stepper=stepper, schedule=schedule, averaging=how.averaging,
            x0=start, limit=limit, track=track, threads=how.threads, checkpoint=checkpoint,
        )  # fmt: skip

    if checkpoint is not None and not isinstance(how.update, Plain):
        raise InputError(f"checkpoint=... is for passes in order: mr.Newton() or mr.Plain(), not {how.update!r}")
    itinerary = arrange(plan, [job(schedule) for schedule in schedules])
    tell_costs(itinerary, how.replay, how.update)
    itinerary.compile()
    total = sum(epoch.steps for epoch in plan) * len(schedules)
    with step_bar(total) if progress else nullcontext(lambda steps: None) as advanced:
        began = time.perf_counter()
        epochs = tuple(epoch for found in itinerary.run(advanced) for epoch in found)
        if record.on_disk and not automatic:
            epochs = _marked(epochs, record, start)
        passes = sum(epoch.taken for epoch in epochs) / record.length / len(schedules)
        found = Found(*by_residual(epochs, record, how.feasible), passes, sentences.costs(record.example, how.feasible))
        if isinstance(how.update, VarianceReduced):
            found = _with_rounds(found, plan, itinerary.jobs[0], how)
        if isinstance(how.update, RichardsonRomberg):
            found = _with_twice_the_step(found, plan, job(Doubled(schedules[0])), advanced)
        seconds = time.perf_counter() - began
    return _result(record, found, how, extremes, preconditioner, seconds)


def _marked(epochs: tuple[Epoch, ...], record: Record, start: Vector) -> tuple[Epoch, ...]:
    """The epochs, marked as diverged where the answer is beyond what a limit would have stopped.

    The limit needs all rows, and a record on disk is not read once more for it: its first rows have to do.
    """
    most = GROWTH * record.problem.limit(record.example, start)
    with np.errstate(over="ignore"):
        sizes = [record.problem.limit(record.example, epoch.answer) for epoch in epochs]
    return tuple(
        replace(epoch, diverged=epoch.diverged or not size <= most) for epoch, size in zip(epochs, sizes, strict=True)
    )


def _with_rounds(found: Found, plan: tuple[PlannedEpoch, ...], job: Job, how: HowToStep) -> Found:
    """More rounds of variance reduction from what was found."""
    epochs, chosen, passes, notes = found
    if epochs[chosen].diverged:
        return found
    assert isinstance(how.update, VarianceReduced)
    rounds = None if isinstance(how.update.rounds, str) else how.update.rounds
    stepper = cast(ReducedStepper, job.stepper)
    size = round_step(how.step, job.schedule)
    answer = epochs[chosen].answer
    instead = None if how.instead is None else how.instead.plan(job.record.length)
    more = run_rounds(job.record, plan, instead, stepper, how.feasible, size, answer, job.limit, rounds, job.track)
    epochs = (*epochs, *more.epochs)
    good = [index for index, epoch in enumerate(epochs) if not epoch.diverged]
    return Found(epochs, good[-1] if more.epochs else chosen, passes + more.passes, (*notes, *more.notes))


def _with_twice_the_step(found: Found, plan: tuple[PlannedEpoch, ...], job: Job, advanced: Any) -> Found:
    """2x_η − x_2η from what was found and a run at twice the step."""
    epochs, chosen, passes, notes = found
    if epochs[chosen].diverged:
        return found
    other = arrange((plan[chosen],), [job]).run(advanced)[0][0]
    epochs = (*epochs, other, richardson_romberg(epochs[chosen], other))
    return Found(epochs, len(epochs) - 1, passes + other.taken / job.record.length, notes)


def richardson_romberg(short: Epoch, long: Epoch) -> Epoch:
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


def _result(
    record: Record, found: Found, how: HowToStep, extremes: Any, preconditioner: Preconditioner, seconds: float
) -> Result:
    epochs, chosen, passes, notes = found
    if any(epoch.diverged for epoch in epochs):
        status = sentences.diverged(epochs, record.problem, extremes, chosen)
        warnings.warn(str(status), DivergenceWarning, stacklevel=4)
    else:
        status = sentences.finished(
            epochs, chosen, how.replay, how.update, how.step, how.averaging, preconditioner, passes, notes
        )
        if isinstance(how.step, str):
            warn_of_scales(record)
    x = epochs[chosen].answer.copy()
    return Result(x=x, epochs=epochs, status=status, passes=passes, seconds=seconds, chosen=chosen)
