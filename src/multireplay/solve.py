"""The one entry function: solve a problem from a buffer."""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from multireplay import precondition
from multireplay.averaging import Averaging, as_averaging
from multireplay.buffer import Buffer
from multireplay.engine import Backend, Job, as_backend, make_stepper, run
from multireplay.engine.reduced import ReducedCompiledStepper, ReducedPythonStepper, make_reduced
from multireplay.errors import DivergenceWarning, InputError
from multireplay.precondition import Preconditioner
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint, largest_square
from multireplay.replay import Dyadic, PlannedEpoch, Replay
from multireplay.result import Epoch, Result, Status
from multireplay.rounds import run_rounds
from multireplay.sets import Set, WholeSpace
from multireplay.steps import Constant, Schedule
from multireplay.tracking import Track, as_track, as_vector
from multireplay.updates import Plain, Update, VarianceReduced, as_update

Vector = NDArray[np.float64]
AUTO_SHARE = 0.5
ROUND_SHARE = 1.0
DEFAULT_TAIL = 7 / 8
UNEVEN = 30.0
"""Features whose sizes differ by more than this factor are warned of."""


def solve(
    problem: Problem,
    buffer: Buffer,
    *,
    replay: Replay | None = None,
    update: Update | None = None,
    passes: int | None = None,
    step: float | Schedule | Literal["auto"] = "auto",
    average: float | Literal["none", "full"] = DEFAULT_TAIL,
    x0: Any = None,
    constraint: Set | None = None,
    backend: Backend = "auto",
    track: Track | Any | None = None,
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
        evaluation, L_f · max ‖a‖² for a GLM. It needs one more pass over the features.
    average : "none", "full" or a fraction in (0, 1]
        Answer with the last iterate, the average of all iterates of the epoch, or of that last fraction of them.
    x0 : array, optional
        Start of every epoch; by default the point of the feasible set closest to 0.
    constraint : Set, optional
        Feasible set, if not the problem's own.
    backend : "auto", "python" or "compiled"
        "auto" is the compiled loop wherever the problem and the set allow it.
    track : array or Track, optional
        A known solution x*: every epoch then records its squared error, see `Track`.
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
    if update is None and passes is None and (replay is not None or isinstance(step, Schedule)):
        update = Plain()
    replay = Dyadic() if replay is None else replay
    if not isinstance(replay, Replay):
        raise InputError(f"replay must be a replay scheme such as mr.Multiscale(), not {replay!r}")
    update = as_update(update, passes)
    columns = problem.columns(buffer)
    dim = problem.dim(columns)
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
    stepper.advance(samples, np.zeros(0, dtype=np.int64), np.zeros(0), 0, limit)  # compiles, before the clock starts

    with _progress_bar(plan) if progress else nullcontext(lambda steps: None) as advanced:
        began = time.perf_counter()
        job = Job(problem, samples, stepper, schedule, averaging, start, limit, tracked, advanced)
        epochs = run(plan, job)
        passes_taken = sum(epoch.taken for epoch in epochs) / len(buffer)
        notes: tuple[str, ...] = ()
        if isinstance(update, VarianceReduced) and not epochs[-1].diverged:
            size = round_step(step, problem, samples, preconditioner)
            rounds = None if isinstance(update.rounds, str) else update.rounds
            reduced = cast(ReducedPythonStepper | ReducedCompiledStepper, stepper)
            answer = epochs[-1].answer
            more = run_rounds(problem, columns, samples, plan, reduced, feasible, size, answer, limit, rounds, tracked)
            epochs, notes = (*epochs, *more.epochs), more.notes
            passes_taken += more.passes
        seconds = time.perf_counter() - began
    good = [epoch for epoch in epochs if not epoch.diverged]
    chosen = good[-1] if good else epochs[-1]
    if len(good) < len(epochs):
        status = _diverged(epochs, problem, samples)
        warnings.warn(str(status), DivergenceWarning, stacklevel=2)
    else:
        status = _finished(epochs, replay, update, step, averaging, preconditioner, passes_taken, notes)
        if step == "auto":
            warn_of_scales(samples)
    return Result(x=chosen.answer.copy(), epochs=epochs, status=status, passes=passes_taken, seconds=seconds)


def choose_preconditioner(update: Update, problem: Problem, samples: Any, feasible: Set, dim: int) -> Preconditioner:
    """The preconditioner that the update asks for, or an error where it cannot be had."""
    wanted = update.precondition if isinstance(update, VarianceReduced) else None
    if wanted is None:
        return precondition.none(dim)
    usable = isinstance(feasible, WholeSpace) and hasattr(samples, "features")
    if not usable and wanted != "auto":
        reason = (
            "the problem has no features"
            if isinstance(feasible, WholeSpace)
            else f"it does not commute with {feasible!r}"
        )
        raise InputError(f"precondition={wanted} cannot be used here: {reason}")
    return precondition.from_prefix(samples.features, wanted) if usable else precondition.none(dim)


def round_step(step: Any, problem: Problem, samples: Any, preconditioner: Preconditioner) -> float:
    """The step of the variance-reduced passes: twice the automatic one, or the one that was given."""
    if isinstance(step, str):
        automatic = as_schedule(step, problem, samples, preconditioner)
        return ROUND_SHARE / AUTO_SHARE * float(automatic.values(1, 0, 1)[0])
    if isinstance(step, Schedule) and not isinstance(step, Constant):
        raise InputError(
            "variance reduction needs a constant step; give a number, or update=mr.Plain() with the schedule"
        )
    return float(as_schedule(step, problem, samples).values(1, 0, 1)[0])


def starting_point(x0: Any, feasible: Set, dim: int) -> Vector:
    """x0 checked against the dimension and the set; by default the point of the set closest to 0."""
    feasible.check(dim)
    if x0 is None:
        return feasible.projected(np.zeros(dim))
    start = as_vector("x0", x0)
    if start.shape != (dim,):
        raise InputError(f"x0 has shape {start.shape}, but x has {dim} coordinates")
    if not np.isfinite(start).all():
        raise InputError("x0 must be finite")
    if not feasible.contains(start):
        raise InputError(f"x0 is not in {feasible!r}; the closest point of it is {feasible.projected(start)}")
    return start


def as_schedule(step: Any, problem: Problem, samples: Any, preconditioner: Preconditioner | None = None) -> Schedule:
    """A schedule from a number, a schedule, or "auto"."""
    if isinstance(step, Schedule):
        return step
    if not isinstance(step, str):
        return Constant(step)
    if step != "auto":
        raise InputError(f"step must be a positive number, a schedule from mr.steps or 'auto', not {step!r}")
    bound = problem.lipschitz(samples)
    if bound is None:
        raise InputError(f"step='auto' needs a Lipschitz constant: give step=..., or lipschitz=... to {problem!r}")
    if bound == 0:
        raise InputError("step='auto' has nothing to go by: every feature in the buffer is 0")
    if preconditioner is not None and preconditioner.rank:
        bound *= preconditioner.largest_square(samples.features) / largest_square(samples.features)
    return Constant(AUTO_SHARE / bound)


def warn_of_scales(samples: Any) -> None:
    """Warn where features differ so much in size that one step cannot suit them all; looks at about 1000 rows."""
    features = getattr(samples, "features", None)
    if features is None:
        return
    sizes = np.sqrt(np.mean(np.square(features[:: max(1, len(features) // 1000)], dtype=np.float64), axis=0))
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() > UNEVEN * sizes.min():
        ratio = sizes.max() / sizes.min()
        warnings.warn(
            f"features differ in size by a factor of {ratio:.0f}: one step size cannot suit them all, and the "
            f"answer is likely to be "
            "far from converged. Standardize the columns (divide each by its standard deviation)",
            stacklevel=3,
        )


def _diverged(epochs: tuple[Epoch, ...], problem: Problem, samples: Any) -> Status:
    lost = [epoch for epoch in epochs if epoch.diverged]
    first = lost[0]
    kept = next((epoch for epoch in reversed(epochs) if not epoch.diverged), None)
    if kept is None:
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


def _finished(
    epochs: tuple[Epoch, ...],
    replay: Replay,
    update: Update,
    step: Any,
    averaging: Averaging,
    preconditioner: Preconditioner,
    passes: float,
    notes: tuple[str, ...],
) -> Status:
    last = epochs[-1]
    how = "automatic " if isinstance(step, str) else ""
    reduced = isinstance(update, VarianceReduced)
    if reduced and len(epochs) > 1 and passes > sum(epoch.length for epoch in epochs) / last.length:
        what = "the average of the second half of the last round"
    elif not averaging.answers:
        what = f"the last iterate of epoch {last.k}"
    elif averaging.fraction == 1:
        what = f"the average of all iterates of epoch {last.k}"
    else:
        what = f"the average of the last {averaging.fraction:.4g} of the iterates of epoch {last.k}"
    extra = f", preconditioner of rank {preconditioner.rank}" if preconditioner.rank else ""
    ways = " with variance reduction" if reduced else ""
    sentences = "".join(f" Note: {note}." for note in notes)
    return Status(
        "finished",
        f"Finished: {passes:.3g} passes in the order of {replay!r}{ways}{extra}, {how}step size {last.step:.4g}; "
        f"the answer is {what}.{sentences}",
    )


def _progress_bar(plan: tuple[PlannedEpoch, ...]) -> Any:
    from multireplay.progress import step_bar

    return step_bar(sum(epoch.steps for epoch in plan))
