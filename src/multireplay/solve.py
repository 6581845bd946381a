"""The one entry function: solve a problem from a buffer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

from multireplay.averaging import as_averaging
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.record import Record, as_record
from multireplay.engine import Backend, as_backend
from multireplay.engine.checkpoint import Checkpoint
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.base import as_constraint
from multireplay.problems.batched import Batched
from multireplay.replay import Dyadic, Replay, Shuffle
from multireplay.result import Result
from multireplay.sets import Set, WholeSpace
from multireplay.solving.arguments import DEFAULT_TAIL, as_threads, starting_point
from multireplay.solving.holdout import solve_held_out
from multireplay.solving.lanes import default_order, in_lanes
from multireplay.solving.recipe import Recipe
from multireplay.solving.run import Run
from multireplay.solving.selection import as_share
from multireplay.steps import Schedule
from multireplay.tracking import Track, as_track
from multireplay.updates.base import Newton, Plain, Update, VarianceReduced, as_passes, as_update
from multireplay.updates.newton import MOST, solve_by_corrections
from multireplay.updates.stochastic import HowToStep, solve_by_steps


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
) -> Result:
    """Solve a problem from a stored record, one sample at a time: x ← Proj_X(x − η F̃(x, ξ)) (Eq. MER_update).

    Parameters
    ----------
    problem : Problem
        `GLM`, `PolicyEvaluation` or `VariationalInequality`.
    buffer : Buffer or StoredBuffer
        The record, with the columns the problem reads, in memory or on disk (`Buffer.open`). One on disk is read in
        order within its memory budget by `Newton`, `Multiscale` and `Interleaved`, with the same answer to the last
        bit for the latter two; other orders take its rows at random, which is warned of with what it costs.
    replay : Replay
        Which samples, in which order: `Dyadic` (every sample once, coarse to fine) by default. `Multiscale` is the
        paper's algorithm; each of its epochs restarts from x0, and the one with the smallest residual answers.
    update : Update
        How the record moves the iterate. By default `Newton`, which comes to the exact fit's accuracy in about 2
        passes, for a GLM with a built-in link or policy evaluation on the whole space with up to about 1000
        coordinates; otherwise `VarianceReduced`, which needs 3 to 5. `Plain` is the paper's step. Where `replay` is
        given and `update` is not, it is `Plain`; where a step is given, it is `VarianceReduced`.
    passes : int
        The most passes over the record, the coarse epoch apart: as many Newton corrections, or, where those cannot be
        used, 1 is a plain pass, 3 one round of variance reduction, 5 two. By default as many as it takes, at most 5.
    step : float, several of them, multireplay.steps schedule or "auto"
        Step size. "auto" is 0.5/L with L the largest Lipschitz constant of F̃(·, ξ) in the data: max ‖ψ‖² for policy
        evaluation, L_f · max ‖a‖² for a GLM. It needs one more pass over the features. Without
        variance reduction a constant step leaves a bias of its own order where the operator is not linear (a link other
        than the identity) or a constraint is active. Several step sizes, such as ``(0.3, 0.1, 0.03)``, are carried
        through the same pass, so that the record is read once, and the answer with the smallest residual is taken.
    average : "none", "full", "weighted" or a fraction in (0, 1]
        Answer with the last iterate, the average of all iterates of the epoch, that with weights in proportion to the
        step number, or the average of that last fraction of them. Rounds of variance reduction average their second
        half.
    x0 : array, optional
        Start of every epoch; by default the point of the feasible set closest to 0. `Newton` needs none.
    constraint : Set, optional
        Feasible set, if not the problem's own.
    backend : "auto", "python", "compiled" or "batched"
        "auto" is the compiled loop wherever the problem and the set allow it. "batched" takes a step of many chains at
        once, in operations on whole arrays, where the columns lie: it is what "auto" does with columns on a GPU, and
        with an operator over batches. Its order, if none is given, is `Interleaved` with chains of about 4096 steps.
    track : array or Track, optional
        A known solution x*: every epoch then records its squared error, see `Track`.
    holdout : float, "auto" or None
        Share of the record, at its end, that is held out to choose between step sizes and updates by the loss there
        (the residual, for a problem without a loss); the choice is then run on the whole record. For where the exact
        fit overfits, so that a small residual on the record itself is no virtue. "auto" holds out a fifth for a GLM
        with fewer than 20 rows a coordinate, where neither replay, update nor passes is given. ``result.candidates``
        shows what competed. It costs about eight passes.
    threads : int, optional
        Threads for orders whose chains run side by side (`Interleaved`, ``Multiscale(phases=...)``); by default as many
        as there are cores. The answer does not depend on it by a single bit.
    precision : "float64" or "float32"
        In which the iterates of plain steps are kept. float32 data are used as they are with either; with both in
        float32 a step moves half the bytes and is right to about six digits. Sums and answers are float64.
    checkpoint : path, optional
        A file that keeps the state of the run every half minute and when it is interrupted (Ctrl-C); the same call
        then goes on from it. For passes in order: `Newton`, `Multiscale`, `Interleaved`, and on disk `Serial` and
        `Skip`.
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
    given = dict(locals())
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
    if not isinstance(buffer, Buffer | StoredBuffer):
        raise InputError(
            f"buffer must be a multireplay Buffer, not {type(buffer).__name__}: mr.Buffer(features=..., ...)"
        )
    if replay is not None and not isinstance(replay, Replay):
        raise InputError(f"replay must be a replay scheme such as mr.Multiscale(), not {replay!r}")
    passes = as_passes(passes, update)
    averaging = as_averaging(average)
    if precision not in ("float64", "float32"):
        raise InputError(f"precision must be 'float64' or 'float32', not {precision!r}")
    problem = in_lanes(problem, buffer, as_backend(backend))
    record = as_record(problem, buffer)
    feasible = problem.constraint if constraint is None else as_constraint(constraint)
    tracked = as_track(track, record.dim)
    starting_point(x0, feasible, record.dim)
    free = update is None and passes is None and replay is None
    share = as_share(holdout, record, free)
    if share is not None:
        options = {"replay": replay or default_order(record), "x0": x0, "constraint": constraint, "backend": backend}
        held_out = solve_held_out(solve, record, buffer, share, step, average, track, options)
        assert held_out.run is not None
        arguments = Recipe.of(given).arguments
        return replace(held_out, recipe=Recipe.of(given), run=replace(held_out.run, arguments=arguments))
    asked = (
        f"{problem!r} {buffer!r} {replay!r} {update!r} {passes} {step!r} {averaging!r} {x0!r} {feasible!r} {precision} "
        f"{backend}"
    )
    kept = None if checkpoint is None else Checkpoint(checkpoint, asked)
    found = None
    route: Any = "corrections"
    order: Replay | None = None
    change: Update = update or Newton()
    with nullcontext() if kept is None else kept:
        free_to_choose = update is None and replay is None and step == "auto" and precision == "float64"
        if isinstance(update, Newton) or free_to_choose:
            found = _by_corrections(record, feasible, replay, update, passes, tracked, kept, progress)
        if found is None:
            if update is None and passes is None and (replay is not None or not isinstance(step, str | float | int)):
                update = Plain()
            order = replay or default_order(record)
            instead = Shuffle(0) if replay is None and isinstance(order, Dyadic) else None
            change, cores = as_update(update, passes), as_threads(threads)
            route = "rounds" if isinstance(change, VarianceReduced) else "steps"
            how = HowToStep(order, instead, change, step, averaging, x0, feasible, backend, cores, precision)
            found = solve_by_steps(record, how, tracked, kept, progress)
    engine: Any = "sums" if order is None else "batched" if isinstance(record.problem, Batched) else "compiled"
    resolved = {"update": change, "route": route, "why": "", "replay": order, "engine": engine, "feasible": feasible}
    same = {"averaging": averaging, "threads": as_threads(threads), "precision": precision}
    return replace(found, recipe=Recipe.of(given), run=Run.of(given, **resolved, **same))


def _by_corrections(
    record: Record,
    feasible: Set,
    replay: Replay | None,
    update: Update | None,
    passes: int | None,
    track: Track | None,
    checkpoint: Checkpoint | None,
    progress: bool,
) -> Result | None:
    """By Newton corrections, where they can be used; an error where they were asked for and cannot."""
    if isinstance(update, Newton) and replay is not None:
        raise InputError("mr.Newton() reads the record in order: leave replay=... out")
    asked = update.corrections if isinstance(update, Newton) and update.corrections != "auto" else None
    most, whole = asked or passes or MOST, isinstance(feasible, WholeSpace)
    found = solve_by_corrections(record, most, asked is not None, track, checkpoint, progress) if whole else None
    if found is None and isinstance(update, Newton):
        raise InputError(
            "mr.Newton() cannot be used here: it needs mr.PolicyEvaluation, or mr.GLM with a built-in link, on the "
            "whole space, with at least 4 rows a coordinate, no feature that is a combination of others (or a ridge), "
            "and no separable classes. Leave update=... out, and what can be used is chosen"
        )
    return found
