"""The paper's step in the order of a replay scheme, and what every update that takes steps has in common with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.foreign import as_numpy, is_foreign
from multireplay.buffer.record import Record, StoredRecord
from multireplay.engine import Itinerary, Job, Stepper, arrange, make_stepper
from multireplay.engine.extremes import ExtremeRows
from multireplay.engine.readings import in_step
from multireplay.engine.sums import Folding, fold, operator_batches
from multireplay.errors import InputError, warn
from multireplay.inference.residuals import residual_of
from multireplay.problems import Problem
from multireplay.problems.base import GROWTH, UNBOUNDED
from multireplay.problems.packed import column_sizes, has_sparse_rows, take
from multireplay.problems.residual import refuse_overflow
from multireplay.replay import PlannedEpoch, Replay
from multireplay.result import Epoch
from multireplay.show.progress import step_bar
from multireplay.steps import Constant, Schedule
from multireplay.updates.base import Found, Update
from multireplay.updates.pace import paced

if TYPE_CHECKING:
    from multireplay.solving.run import Run

AUTO_SHARE = 0.5
"""The automatic step is this share of 1/L."""
UNEVEN = 30.0
"""Features whose sizes differ by more than this factor are warned of."""
SLOW = 300_000
"""Calls of a plain Python operator beyond which it is not evaluated on the whole record for every epoch."""


@dataclass(frozen=True)
class Plain(Update):
    """x ← Proj_X(x − η F̃(x, ξ)), the paper's step (Eq. MER_update).

    Examples
    --------
    >>> import multireplay as mr
    >>> mr.Plain()
    Plain()
    """

    def run(self, run: Run) -> Found:
        """One run through the plan, for every step size."""
        with StepRun(run) as walk:
            epochs, chosen, passes = walk.through_the_plan()
            return walk.found(epochs, chosen, passes, notes=walk.in_step(epochs[chosen]))


class StepRun:
    """The steps of one run, for the time of a ``with`` block: step sizes, the limit of divergence, and a progress bar.

    `make` makes the stepper, if it is not the run's own; `shorten` is what a preconditioner makes of the Lipschitz
    constant from which the automatic step is made.
    """

    def __init__(
        self,
        run: Run,
        make: Callable[[], Stepper] | None = None,
        shorten: Callable[[float], float] | None = None,
    ) -> None:
        record = run.record
        self.run, self.plan = run, run.replay.plan(record.length)
        self.make = partial(plain_stepper, run) if make is None else make
        self.make()  # says first what cannot be
        all_rows = run.automatic or not record.on_disk
        self.extremes = extreme_samples(record, run.start, run.threads) if all_rows else record.example
        self.limit = record.problem.limit(self.extremes, run.start) if all_rows else UNBOUNDED
        self.schedules = [as_schedule(step, record.problem, self.extremes, shorten) for step in run.steps]
        record.problem.probe(run.start, record.example)
        self._told: Callable[[int], object] = lambda steps: None
        self.pace, self.tried = "", 0
        if run.automatic and not run.update.needs.constant_step and of_scales(self.plan):
            at_cap = self.epoch(self.plan[-1], self.schedules[0])
            schedule, self.pace = paced(run, at_cap.step, at_cap)
            self.schedules, self.tried = [schedule], at_cap.taken
        self.itinerary = arrange(self.plan, [self.job(schedule) for schedule in self.schedules])
        if record.on_disk or run.checkpoint is not None:
            tell_costs(self.itinerary, run.replay, run.update)
        self.itinerary.compile()
        self._open = ExitStack()
        self._began = time.perf_counter()

    def __enter__(self) -> StepRun:
        total = sum(epoch.steps for epoch in self.plan) * len(self.schedules)
        if self.run.progress:
            self._told = self._open.enter_context(step_bar(total))
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def job(self, schedule: Schedule) -> Job:
        """What is run at these step sizes."""
        run = self.run
        return Job(
            problem=run.record.problem,
            record=run.record,
            stepper=self.make(),
            schedule=schedule,
            averaging=run.averaging,
            x0=run.start,
            limit=self.limit,
            track=run.track,
            threads=run.threads,
            checkpoint=run.checkpoint,
        )

    def through_the_plan(self) -> tuple[tuple[Epoch, ...], int, float]:
        """Every epoch of the plan for every step size, the one that answers, and the passes it took."""
        record = self.run.record
        epochs = tuple(epoch for found in self.itinerary.run(self._told) for epoch in found)
        if record.on_disk and not self.run.automatic:
            epochs = self._marked(epochs)
        passes = (self.tried + sum(epoch.taken for epoch in epochs)) / record.length / len(self.schedules)
        epochs = with_residuals(epochs, self.run)
        return epochs, chosen_of(epochs, self.schedules), passes

    def in_step(self, answer: Epoch) -> tuple[str, ...]:
        """A note where the order of the epoch that answers is in step with a period of the record."""
        planned = next(planned for planned in self.plan if planned.k == answer.k)
        if answer.diverged or not in_step(self.run.record, planned, answer.answer, self.run.feasible):
            return ()
        return (
            "the order may be in step with a period of the record: there is one, the answer is far from the exact fit, "
            f"and {self.run.replay!r} leaves gaps between rows that it reads after one another; try mr.Shuffle(0), or "
            "mr.Interleaved(gap) with a prime gap",
        )

    def epoch(self, planned: PlannedEpoch, schedule: Schedule) -> Epoch:
        """One epoch at these step sizes, beside those of the plan."""
        job = replace(self.job(schedule), track=None, checkpoint=None)
        return arrange((planned,), [job]).run(self._told)[0][0]

    def _marked(self, epochs: tuple[Epoch, ...]) -> tuple[Epoch, ...]:
        """The epochs, marked as diverged where the answer is beyond what a limit would have stopped.

        The limit needs all rows, and a record on disk is not read once more for it: its first rows have to do.
        """
        record = self.run.record
        most = GROWTH * record.problem.limit(record.example, self.run.start)
        with np.errstate(over="ignore"):
            sizes = [record.problem.limit(record.example, epoch.answer) for epoch in epochs]
        return tuple(
            replace(epoch, diverged=epoch.diverged or not size <= most)
            for epoch, size in zip(epochs, sizes, strict=True)
        )

    def found(
        self,
        epochs: tuple[Epoch, ...],
        chosen: int,
        passes: float,
        what: str = "",
        notes: tuple[str, ...] = (),
        how: str = "",
    ) -> Found:
        """What was found, with the sentence on it: `what` the answer is, and `how` it differs from plain steps."""
        run, answer = self.run, epochs[chosen]
        what = what or f"{run.averaging} of epoch {answer.k}"
        automatic = "automatic " if run.automatic else ""
        size = f"{answer.step:.4g}" + (f" ({self.pace})" if self.pace else "")
        last = "the last" + " that did not diverge" * any(epoch.diverged for epoch in epochs)
        smallest = "which has the smallest residual" if answer.residual is not None else ""
        why = last if self.schedules[0].by_scale and len(self.schedules) == 1 < len(self.plan) else smallest
        sentence = (
            f"{passes:.3g} passes in the order of {run.replay!r}{how}, {automatic}step size {size}; "
            f"the answer is {', '.join(filter(None, (what, why)))}"
        )
        diverged = any(epoch.diverged for epoch in epochs)
        seconds = time.perf_counter() - self._began
        if run.automatic and not diverged:
            warn_of_scales(run.record)
        bound = run.record.problem.lipschitz(self.extremes) if diverged else None
        return Found(epochs, chosen, passes, seconds, sentence, (*self._costs(), *notes), lipschitz=bound)

    def _costs(self) -> tuple[str, ...]:
        """What to know of the price of a step, if anything."""
        if self.run.on_the_whole_space or not has_sparse_rows(self.run.record.example):
            return ()
        return (f"every step projects on {self.run.feasible!r}, and so costs O(d) although the rows are sparse",)


def plain_stepper(run: Run) -> Stepper:
    """What takes the plain steps of a run."""
    record = run.record
    return make_stepper(record.problem, run.feasible, record.dim, run.backend, record.example, run.precision)


def extreme_samples(record: Record, x0: Vector, threads: int = 1) -> Any:
    """Samples among which are the largest of the record, for bounds on F̃ from x0 on: all of it, if it is in memory."""
    if not record.on_disk:
        return record.example
    rows = ExtremeRows(record.problem, x0)
    return rows.samples(fold(record, rows, how=Folding(threads))[0])


def as_schedule(step: Any, problem: Problem, samples: Any, shorten: Callable[[float], float] | None = None) -> Schedule:
    """A schedule from a number, a schedule, or "auto", for which a preconditioner shortens the Lipschitz constant."""
    if isinstance(step, Schedule):
        return step
    if not isinstance(step, str):
        return Constant(step)
    bound = problem.lipschitz(samples)
    if bound is None:
        raise InputError(f"step='auto' needs a Lipschitz constant: give step=..., or lipschitz=... to {problem!r}")
    if not np.isfinite(bound):
        if hasattr(samples, "features"):
            refuse_overflow(samples.features)
        raise InputError(
            f"step='auto' needs a Lipschitz constant, and that of {problem!r} here is {bound}: give step=..."
        )
    if bound == 0:
        raise InputError("step='auto' has nothing to go by: every feature in the buffer is 0")
    return Constant(AUTO_SHARE / (bound if shorten is None else shorten(bound)))


def of_scales(plan: Sequence[PlannedEpoch]) -> bool:
    """Whether a plan has several epochs, and each of them 2^k steps: that of multiscale replay."""
    return len(plan) > 1 and all(epoch.length == 2**epoch.k for epoch in plan)


def with_residuals(epochs: tuple[Epoch, ...], run: Run) -> tuple[Epoch, ...]:
    """The epochs with their residuals ‖x − Proj(x − F̂(x))‖ on the record, where there are several.

    It costs the arithmetic of one pass for every epoch; a record on disk is read once for all of them. A plain Python
    operator that would have to be called more than 300000 times is not evaluated.
    """
    record = run.record
    good = [index for index, epoch in enumerate(epochs) if not epoch.diverged]
    if not good or len(epochs) == 1 or (record.problem.is_slow and record.length * len(good) > SLOW):
        return epochs
    points = [epochs[index].answer for index in good]
    found = zip(good, points, operator_batches(record, points, Folding(run.threads)), strict=True)
    sizes = {index: residual_of(batches, run.feasible, x).size for index, x, batches in found}
    return tuple(replace(epoch, residual=sizes.get(index)) for index, epoch in enumerate(epochs))


def chosen_of(epochs: tuple[Epoch, ...], schedules: Sequence[Schedule]) -> int:
    """The index of the epoch that answers, of those that have not diverged, if there are any.

    With a step of its own in every epoch it is the last: its step is the smallest, and it reads most. At one constant
    step for all epochs the last are biased, being nearly serial, and it is the one with the smallest residual. That
    fails where the exact fit overfits, because there a smaller residual is not a better answer (hold out a block
    instead), and it is blind to what the record does not show. Without residuals it is the last.
    """
    each, rivals = len(epochs) // len(schedules), []
    for number, schedule in enumerate(schedules):
        good = [index for index in range(number * each, (number + 1) * each) if not epochs[index].diverged]
        rivals += good[-1:] if schedule.by_scale else good
    known = {index: size for index in rivals if (size := epochs[index].residual) is not None}
    return min(known, key=lambda index: known[index]) if known else (rivals or [len(epochs) - 1])[-1]


def warn_of_scales(record: Record) -> None:
    """Warn where features differ so much in size that one step cannot suit them all; looks at about 1000 rows."""
    if not hasattr(record.example, "features"):
        return
    features = record.problem.samples(record.spread(1000)).features
    sizes = column_sizes(take(as_numpy(features) if is_foreign(features) else features, slice(None)))
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() > UNEVEN * sizes.min():
        ratio = sizes.max() / sizes.min()
        warn(
            f"features differ in size by a factor of {ratio:.0f}: one step size cannot suit them all, and the answer "
            "is likely to be far from converged. Standardize the columns (divide each by its standard deviation)"
        )


def tell_costs(itinerary: Itinerary, replay: Replay, update: Update) -> None:
    """Warn of random access on disk, of further readings, and of step sizes that are run one after the other.

    A checkpoint keeps one reading in order, and is refused where the epochs do not share it.
    """
    job, count = itinerary.jobs[0], len(itinerary.jobs)
    no_room = f"the memory budget has no room for the iterates of {count} step sizes side by side"
    if job.checkpoint is not None and not itinerary.resumable:
        usual = (
            "mr.Newton(), mr.Exact(), or mr.Plain() with mr.Multiscale() or mr.Interleaved(), and from disk with "
            "mr.Serial() or mr.Skip(), without track="
        )
        raise InputError(f"checkpoint=... is for passes in order: {_too_many(itinerary, replay) or usual}")
    if job.checkpoint is not None and not itinerary.fits:
        raise InputError(f"{no_room}, and checkpoint=... is for one reading: give more memory=, or fewer step sizes")
    if not itinerary.fits:
        warn(f"{no_room}: the record is read anew for each of them")
    if isinstance(job.record, StoredRecord) and not itinerary.in_order:
        random = job.record.stored.cost_of_random_access()
        usual = (
            f"{replay!r} with {update!r} does not read the record in order. {random} "
            "mr.Newton(), mr.Multiscale(), mr.Serial() and mr.Skip() do, and mr.Interleaved() for the built-in problems"
        )
        warn(_more_readings(itinerary, replay) or usual)


def _more_readings(itinerary: Itinerary, replay: Replay) -> str:
    """On the readings that crowded epochs take, where all the others are read in order; or nothing."""
    too_many, more = _too_many(itinerary, replay), itinerary.more_readings
    if not too_many:
        return ""
    parts = max(leg.planned.length for leg in itinerary.crowded)
    times = "once" if more == 1 else f"{more} times"
    return f"{too_many}: the record is read {times} more for them, in up to {parts} parts side by side, each in order"


def _too_many(itinerary: Itinerary, replay: Replay) -> str:
    """On epochs of more chains than a pass in order has room for, where all the others are read so; or nothing."""
    crowded = itinerary.crowded
    if not crowded:
        return ""
    return (
        f"the chains of {len(crowded)} of the {len(itinerary.legs)} epochs of {replay!r} are too many for one pass in "
        f"order, because their iterates take up to {in_words(max(leg.room for leg in crowded))}"
    )
