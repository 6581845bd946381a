"""The one entry function: solve a problem from a buffer."""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from multireplay import sentences
from multireplay.arguments import (
    DEFAULT_TAIL,
    as_schedule,
    choose_preconditioner,
    round_step,
    starting_point,
    warn_of_scales,
)
from multireplay.averaging import as_averaging
from multireplay.buffer import Buffer
from multireplay.engine import Backend, Job, as_backend, make_stepper, run
from multireplay.engine.reduced import ReducedCompiledStepper, ReducedPythonStepper, make_reduced
from multireplay.errors import DivergenceWarning, InputError
from multireplay.holdout import solve_held_out
from multireplay.lanes import in_lanes
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint
from multireplay.replay import Dyadic, PlannedEpoch, Replay
from multireplay.result import Epoch, Result
from multireplay.rounds import run_rounds
from multireplay.selection import as_share, by_residual
from multireplay.sets import Set
from multireplay.steps import Doubled, Schedule
from multireplay.tracking import Track, as_track
from multireplay.updates import Plain, RichardsonRomberg, Update, VarianceReduced, as_update

Vector = NDArray[np.float64]


def solve(
    problem: Problem,
    buffer: Buffer,
    *,
    replay: Replay | None = None,
    update: Update | None = None,
    passes: int | None = None,
    step: float | Schedule | Literal["auto"] = "auto",
    average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL,
    x0: Any = None,
    constraint: Set | None = None,
    backend: Backend = "auto",
    track: Track | Any | None = None,
    holdout: float | Literal["auto"] | None = "auto",
    progress: bool = False,
) -> Result:
    """Solve a problem from a stored record, one sample at a time: x ← Proj_X(x − η F̃(x, ξ)) (Eq. MER_update).

    Parameters
    ----------
    problem : Problem
        `GLM`, `PolicyEvaluation` or `VariationalInequality`.
    buffer : Buffer
        The record, with the columns the problem reads.
    replay : Replay
        Which samples, in which order: `Dyadic` (every sample once, coarse to fine) by default. `Multiscale` is the
        paper's algorithm; each of its epochs restarts from x0, and the answer is that of the last one.
    update : Update
        How a sample moves the iterate: `VarianceReduced` by default, which comes to the exact fit's accuracy in 3 to
        5 passes, or `Plain`, the paper's step. Where `replay` is given and `update` is not, it is `Plain`.
    passes : int
        The most passes over the record: 1 is a plain pass, 3 one round of variance reduction, 5 two. By default as
        many as it takes, at most 5.
    step : float, multireplay.steps schedule or "auto"
        Step size. "auto" is 0.5/L with L the largest Lipschitz constant of F̃(·, ξ) in the data: max ‖ψ‖² for policy
        evaluation, L_f · max ‖a‖² for a GLM. It needs one more pass over the features. Without
        variance reduction a constant step leaves a bias of its own order where the operator is not linear (a link other
        than the identity) or a constraint is active.
    average : "none", "full", "weighted" or a fraction in (0, 1]
        Answer with the last iterate, the average of all iterates of the epoch, that with weights in proportion to the
        step number, or the average of that last fraction of them. Rounds of variance reduction average their second
        half.
    x0 : array, optional
        Start of every epoch; by default the point of the feasible set closest to 0.
    constraint : Set, optional
        Feasible set, if not the problem's own.
    backend : "auto", "python", "compiled" or "batched"
        "auto" is the compiled loop wherever the problem and the set allow it. "batched" takes a step of many chains at
        once, in operations on whole arrays, where the columns lie: it is what "auto" does with columns on a GPU, and
        with an operator over batches. Without `replay`, that is ``Multiscale(phases="all")`` down to 4096 steps.
    track : array or Track, optional
        A known solution x*: every epoch then records its squared error, see `Track`.
    holdout : float, "auto" or None
        Share of the record, at its end, that is held out to choose between step sizes and updates by the loss there
        (the residual, for a problem without a loss); the choice is then run on the whole record. For where the exact
        fit overfits, so that a small residual on the record itself is no virtue. "auto" holds out a fifth for a GLM
        with fewer than 20 rows a coordinate, where neither replay, update nor passes is given. ``result.candidates``
        shows what competed. It costs about eight passes.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Result
        ``result.x`` is the answer. A run that diverges stops, warns (`DivergenceWarning`) and says so in
        ``result.status``.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((4096, 2))
    >>> buffer = mr.Buffer(features=A, targets=A @ [1.0, -2.0] + 0.1 * rng.standard_normal(4096))
    >>> mr.solve(mr.GLM(), buffer).x.round(2)
    array([ 1., -2.])
    >>> result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=0.05)
    >>> len(result.epochs), result.epochs[-1].gap
    (12, 1.0)
    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
    if not isinstance(buffer, Buffer):
        raise InputError(
            f"buffer must be a multireplay Buffer, not {type(buffer).__name__}: mr.Buffer(features=..., ...)"
        )
    free = update is None and passes is None and replay is None
    if update is None and passes is None and (replay is not None or isinstance(step, Schedule)):
        update = Plain()
    problem, replay = in_lanes(problem, buffer, replay, as_backend(backend))
    replay = Dyadic() if replay is None else replay
    if not isinstance(replay, Replay):
        raise InputError(f"replay must be a replay scheme such as mr.Multiscale(), not {replay!r}")
    update = as_update(update, passes)
    columns = problem.columns(buffer)
    dim = problem.dim(columns)
    share = as_share(holdout, problem, len(buffer), dim, free)
    if share is not None:
        options = {"replay": replay, "x0": x0, "constraint": constraint, "backend": backend}
        return solve_held_out(solve, problem, buffer, share, step, average, track, options)
    feasible = problem.constraint if constraint is None else as_constraint(constraint)
    stepper = make_stepper(problem, feasible, dim, as_backend(backend))
    averaging = as_averaging(average)
    start = starting_point(x0, feasible, dim)
    tracked = as_track(track, dim)
    plan = replay.plan(len(buffer))
    samples = problem.samples(columns)
    preconditioner = choose_preconditioner(update, problem, samples, feasible, dim)
    if isinstance(update, VarianceReduced):
        stepper = make_reduced(problem, stepper, feasible, dim, preconditioner)
    schedule = as_schedule(step, problem, samples, preconditioner)
    problem.probe(start, samples)
    limit = problem.limit(samples, start)
    stepper.advance(
        samples, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), limit
    )  # compiles, before the clock starts

    with _progress_bar(plan) if progress else nullcontext(lambda steps: None) as advanced:
        began = time.perf_counter()
        job = Job(problem, samples, stepper, schedule, averaging, start, limit, tracked, advanced)
        epochs = run(plan, job)
        passes_taken = sum(epoch.taken for epoch in epochs) / len(buffer)
        epochs, chosen = by_residual(epochs, problem, columns, feasible)
        notes: tuple[str, ...] = ()
        if isinstance(update, VarianceReduced) and not epochs[chosen].diverged:
            size = round_step(step, problem, samples, preconditioner)
            rounds = None if isinstance(update.rounds, str) else update.rounds
            reduced = cast(ReducedPythonStepper | ReducedCompiledStepper, stepper)
            answer = epochs[chosen].answer
            more = run_rounds(problem, columns, samples, plan, reduced, feasible, size, answer, limit, rounds, tracked)
            epochs, notes = (*epochs, *more.epochs), more.notes
            passes_taken += more.passes
            good = [index for index, epoch in enumerate(epochs) if not epoch.diverged]
            chosen = good[-1] if more.epochs else chosen
        if isinstance(update, RichardsonRomberg) and not epochs[chosen].diverged:
            twice = Job(problem, samples, stepper, Doubled(schedule), averaging, start, limit, tracked, advanced)
            other = run((plan[chosen],), twice)[0]
            passes_taken += other.taken / len(buffer)
            epochs = (*epochs, other, richardson_romberg(epochs[chosen], other))
            chosen = len(epochs) - 1
        seconds = time.perf_counter() - began
    if any(epoch.diverged for epoch in epochs):
        status = sentences.diverged(epochs, problem, samples, chosen)
        warnings.warn(str(status), DivergenceWarning, stacklevel=2)
    else:
        status = sentences.finished(
            epochs, chosen, replay, update, step, averaging, preconditioner, passes_taken, notes
        )
        if step == "auto":
            warn_of_scales(samples)
    x = epochs[chosen].answer.copy()
    return Result(x=x, epochs=epochs, status=status, passes=passes_taken, seconds=seconds, chosen=chosen)


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


def _progress_bar(plan: tuple[PlannedEpoch, ...]) -> Any:
    from multireplay.progress import step_bar

    return step_bar(sum(epoch.steps for epoch in plan))
