"""The one entry function: solve a problem from a buffer."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

from multireplay.buffer import Buffer, StoredBuffer
from multireplay.engine import Backend
from multireplay.engine.checkpoint import Checkpoint
from multireplay.errors import ConvergenceWarning, DivergenceWarning, FeatureError, InputError, warn
from multireplay.problems import Problem
from multireplay.replay import Replay
from multireplay.result import CONVERGED, Result, Status
from multireplay.sets import Set
from multireplay.solving.fingerprint import fingerprint_of
from multireplay.solving.holdout import solve_held_out
from multireplay.solving.resolve import DEFAULT_TAIL, as_share, otherwise, resolve
from multireplay.solving.run import Run
from multireplay.steps import Schedule
from multireplay.tracking import Track
from multireplay.updates import Found, Unsuitable, Update
from multireplay.updates.measure import measured
from multireplay.updates.plain import AUTO_SHARE

NOTHING = 1e-4
"""A distance to the exact fit, in standard errors, that is not worth a word."""


def solve(
    problem: Problem,
    buffer: Buffer | StoredBuffer,
    *,
    replay: Replay | None = None,
    update: Update | None = None,
    passes: int | None = None,
    step: float | Sequence[float] | Schedule | Literal["auto"] = "auto",
    average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL,
    x0: Any = None,
    constraint: Set | None = None,
    backend: Backend = "auto",
    track: Track | Any | None = None,
    holdout: float | Literal["auto"] | None = "auto",
    threads: int | None = None,
    precision: Literal["float64", "float32"] = "float64",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    on: Any = None,
) -> Result:
    """Solve a problem from a stored record, one sample at a time: x ← Proj_X(x − η F̃(x, ξ)) (Eq. MER_update).

    Parameters
    ----------
    problem : Problem
        `GLM`, `PolicyEvaluation` or `VariationalInequality`.
    buffer : Buffer or StoredBuffer
        The record, with the columns the problem reads, in memory or on disk (`Buffer.open`). One on disk is read in
        order within its memory budget by `Newton`, `Exact` (of linear problems), `Multiscale`, `Serial`, `Skip` and,
        for the built-in problems, `Interleaved`, with the same answer to the last bit; other orders take its rows at
        random, which is warned of with what it costs.
    replay : Replay
        Which samples, in which order: `Dyadic` (every sample once, coarse to fine) by default. `Multiscale` is the
        paper's algorithm; each of its epochs restarts from x0. With a step of its own in every epoch the last answers,
        with one constant step for all of them the one with the smallest residual ‖F̂(x)‖ on the record.
    update : Update
        How the record moves the iterate. By default what costs least: `Exact`, all rows at once, where there are few
        coordinates, or fewer rows than these, or a feasible set; `Newton`, a fit of some rows and usually 2 to 4 passes
        that correct it, where there are many; and `VarianceReduced`, steps, where the problem has no Jacobian or more
        than 4096 coordinates (6144 if they are of few rows). ``result.run.why`` says why. `Plain` is the paper's step.
        Where `replay` is given and `update` is not, it is `Plain`; where a step is given, it is `VarianceReduced`.
    passes : int
        The most passes over the record, the coarse epoch apart: as many Newton corrections, or, where steps are taken,
        1 is a plain pass, 3 one round of variance reduction, 5 two. By default as many as it takes.
    step : float, several of them, multireplay.steps schedule or "auto"
        Step size. "auto" is 0.5/L with L the largest Lipschitz constant of F̃(·, ξ) in the data: max ‖ψ‖² for policy
        evaluation, L_f · max ‖a‖² for a GLM. It needs one more pass over the features. For `Multiscale` it is MER's own
        rule, `multireplay.steps.PerEpoch` with that cap and the c at which what is left of the start in the last epoch
        and what its order costs are least together, as rows spread over the record, a run of that epoch at the cap and
        one more pass tell. Where they do not (an operator that is not monotone, a run at the cap that diverges) the
        step is the same in every epoch, and so it is with ``sweep=True`` and for updates that need a constant step. The
        status says which. Without variance reduction a constant step leaves a bias of its own order where the operator
        is not linear (a link other than the identity) or a constraint is active. Several step sizes, such as
        ``(0.3, 0.1, 0.03)``, are carried through the same pass, so that the record is read once, and the answer with
        the smallest residual is taken.
    average : "none", "full", "weighted" or a fraction in (0, 1]
        Answer with the last iterate, the average of all iterates of the epoch, that with weights in proportion to the
        step number, or the average of that last fraction of them. Rounds of variance reduction average their second
        half.
    x0 : array, optional
        Start of every epoch; by default the point of the feasible set closest to 0. `Newton` and `Exact` need none.
    constraint : Set, optional
        Feasible set, if not the problem's own.
    backend : "auto", "python", "compiled" or "batched"
        "auto" is the compiled loop wherever the problem and the set allow it. "batched" takes a step of many chains at
        once, in operations on whole arrays, where the columns lie: it is what "auto" does with columns on a GPU, and
        with an operator over batches. Its order, if none is given, is `Interleaved` with chains of about 4096 steps.
    track : array or Track, optional
        A known solution x*: every epoch then records its squared error, see `Track`.
    holdout : float, "auto" or None
        Share of the record, at its end, that is held out to choose between step sizes and updates (with the exact fit,
        unless an order or a step is given) by the loss there, or the residual, for a problem without a loss; the choice
        is then run on the whole record. For where the exact fit overfits, so that a small residual on the record itself
        is no virtue. "auto" holds out a fifth for a GLM with fewer than 20 rows a coordinate, where neither replay,
        update nor passes is given. ``result.candidates`` shows what competed. It costs about ten passes.
    threads : int, optional
        Threads for sums over the record and for orders whose chains run side by side (`Interleaved`,
        ``Multiscale(phases=...)``); by default as many as there are cores. The answer does not depend on it by a
        single bit.
    precision : "float64" or "float32"
        In which the iterates of plain steps are kept. float32 data are used as they are with either; with both in
        float32 a step moves half the bytes and is right to about six digits. Sums and answers are float64.
    checkpoint : path, optional
        A file that keeps the state of the run every half minute and when it is interrupted (Ctrl-C); the same call
        then goes on from it, and another one (other data, other arguments) is refused. For passes in order: `Newton`,
        `Exact` of linear problems, `Multiscale`, `Interleaved`, and on disk `Serial` and `Skip`.
    progress : bool
        Show a progress bar.
    on : dask.distributed.Client or concurrent.futures.Executor, optional
        Who adds up the sums over all rows: each worker reads its own rows from where the record is, a shared disk or
        object storage, and the answer is the one that this machine gives, to the last bit. `Exact` and `Newton` run
        there, and all that a result works out later; steps one after the other do not. A record in memory is written
        to a temporary folder first, for workers on this machine. See ``docs/scale.md``.

    Returns
    -------
    Result
        ``result.x`` is the answer, ``result.summary()`` a table of it with standard errors and intervals that hold
        under dependence, ``result.distance`` how far x is from the exact fit, in standard errors of the worst
        coordinate. Where that is more than 0.1, or the fit
        does not exist, ``result.converged`` and ``result.status.ok`` are False, and there is a `ConvergenceWarning`; a
        run that diverges stops and warns (`DivergenceWarning`). ``result.status`` says all of it in a sentence.

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
    run = resolve(dict(locals()))
    try:
        return _solved(run)
    except FeatureError as error:
        error.names = error.names or run.feature_names
        raise


def _solved(run: Run) -> Result:
    """What the run gives, with a warning where that is not the fit."""
    share, checkpoint = as_share(run.arguments["holdout"], run), run.arguments["checkpoint"]
    if share is not None:
        return solve_held_out(solve, run, share)
    kept = None if checkpoint is None else Checkpoint(checkpoint, fingerprint_of(run))
    with nullcontext() if kept is None else kept:
        run, found = _carried_out(replace(run, checkpoint=kept))
    found = _measured(run, found)
    status = _status(found)
    if status.code in ("diverged", "not converged"):
        warn(str(status), DivergenceWarning if status.code == "diverged" else ConvergenceWarning)
    result = Result(
        x=found.epochs[found.chosen].answer.copy(),
        epochs=found.epochs,
        status=status,
        passes=found.passes,
        seconds=found.seconds,
        chosen=found.chosen,
        images=found.images,
        run=run,
        notes=found.notes,
        free=found.free,
        measured=found.distance,
    )
    return result if found.images is None else replace(result, status=replace(status, result=result))


def _measured(run: Run, found: Found) -> Found:
    """What was found, with its distance to the exact fit, unless steps were asked for as they are."""
    answer = found.epochs[found.chosen]
    if found.distance is not None or answer.diverged or run.update.route == "steps":
        return found
    return replace(found, distance=measured(run, answer.answer).distance)


def _carried_out(run: Run) -> tuple[Run, Found]:
    """What was run in the end and what it found: another update, where the chosen one is not for these data."""
    try:
        return run, run.update.run(run)
    except Unsuitable as why:
        if run.arguments["update"] is not None:
            raise InputError(str(why)) from why
        if run.checkpoint is not None:
            raise InputError(
                f"checkpoint=... is for passes in order, and something else is needed here: {why}"
            ) from why
        return _carried_out(otherwise(run, str(why)))


def _status(found: Found) -> Status:
    """How a run ended, as a sentence for people."""
    kept, gone = found.epochs[found.chosen], [epoch for epoch in found.epochs if epoch.diverged]
    lost = [epoch for epoch in gone if kept.diverged or epoch.k != kept.k or epoch.step <= kept.step]
    if not lost:
        larger = [f"{min(epoch.step for epoch in gone):.3g} was too large a step, and diverged"] if gone else []
        notes = "".join(f" Note: {note}." for note in (*found.notes, *larger))
        if found.distance is None:
            return Status(
                "ran", f"Ran: {found.what}.{notes} result.distance measures how far that is from the exact fit."
            )
        if found.distance <= NOTHING:
            return Status("finished", f"Finished: {found.what}.{notes}")
        if found.distance <= CONVERGED:
            within = f"within {found.distance:.1g} standard errors of the exact fit in every coordinate"
            return Status("finished", f"Finished: {found.what}; the answer is {within}.{notes}")
        away = ""
        if found.distance < math.inf:
            away = (
                f"; the answer is about {found.distance:.2g} standard errors from the exact fit in the worst coordinate"
            )
        return Status("not converged", f"Not converged: {found.what}{away}.{notes}")
    first, bound = lost[0], found.lipschitz
    if kept.diverged:
        answer = "the answer is the last finite iterate and of no use"
    else:
        answer = f"the answer is that of epoch {kept.k}, which may only have been too short to diverge"
    remedy = f"step='auto' (here {AUTO_SHARE / bound:.3g})" if bound else f"a smaller step (step={first.step / 4:.2g})"
    return Status(
        "diverged",
        f"Diverged in {len(lost)} of {len(found.epochs)} epochs, first at step {first.taken + 1} of epoch {first.k} "
        f"with step size {first.step:.3g}; {answer}. Try {remedy}, features of smaller norm, or a bounded constraint.",
    )
