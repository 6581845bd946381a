"""From the arguments of one call to one resolved run: what they mean, and which way to the answer is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse

from multireplay._check import Vector, as_vector, cores, positive, whole_number
from multireplay.averaging import as_averaging
from multireplay.buffer import Buffer, StoredBuffer
from multireplay.buffer.foreign import describe, is_foreign, on_cpu
from multireplay.buffer.record import Record, as_record
from multireplay.engine import as_backend, make_stepper
from multireplay.errors import InputError
from multireplay.problems import GLM, Problem
from multireplay.problems.base import as_constraint
from multireplay.problems.batched import as_batched, can_be_batched
from multireplay.problems.over_batches import OverBatches
from multireplay.replay import Dyadic, Interleaved, Replay, Shuffle
from multireplay.replay.multiscale import out_of_step
from multireplay.sets import Set, WholeSpace
from multireplay.solving.run import Run
from multireplay.steps import Constant, Schedule
from multireplay.tracking import as_track
from multireplay.updates import Exact, Newton, Plain, Update, VarianceReduced
from multireplay.updates.base import Engine, Needs
from multireplay.updates.coarse import has_few_rows, usual_rows, widest
from multireplay.updates.corrections import PRODUCTS, is_affordable
from multireplay.updates.exact import can_be_kept

DEFAULT_TAIL = 7 / 8
USUAL = as_averaging(DEFAULT_TAIL)
ASIDE = ("problem", "buffer", "progress", "on")  # arguments that a run does not keep among the others
CROWDED = 20
"""Fewer rows than this for every coordinate of a GLM, and its exact fit overfits: a block is held out by default."""
DEFAULT_SHARE = 0.2
FEWEST = 200
"""A record shorter than this is not split by default."""
CORRECTIONS = 3.0
"""Passes that corrections usually take, in the reckoning of costs."""
CORRECTED = "rows spread over the record are fitted, and passes over all of it correct that fit"
NEWTON_STEPS = 4
"""Jacobians of all rows that a fit takes where the operator is not linear."""
DEEPEST = 12
"""By default a chain has at most 2^12 steps, since every step of all lanes together costs the same small time."""
WIDTH = 3
"""… and there are at least 2^3 lanes, or array operations are slower than plain Python."""


def resolve(given: Mapping[str, Any]) -> Run:
    """The run that these arguments of `solve` ask for; everything that can be refused beforehand is.

    The checkpoint is left out, since what this gives is its fingerprint.
    """
    problem, buffer, replay = given["problem"], given["buffer"], given["replay"]
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
    if not isinstance(buffer, Buffer | StoredBuffer):
        raise InputError(
            f"buffer must be a multireplay Buffer, not {type(buffer).__name__}: mr.Buffer(features=..., ...)"
        )
    feasible = problem.constraint if given["constraint"] is None else as_constraint(given["constraint"])
    if replay is not None and not isinstance(replay, Replay):
        raise InputError(f"replay must be a replay scheme such as mr.Multiscale(), not {replay!r}")
    passes = None if given["passes"] is None else as_passes(given["passes"], given["update"])
    precision, step, whole = given["precision"], as_step(given["step"]), isinstance(feasible, WholeSpace)
    if precision not in ("float64", "float32"):
        raise InputError(f"precision must be 'float64' or 'float32', not {precision!r}")
    backend = "auto" if given["backend"] == "auto" else as_backend(given["backend"])
    record = _record(problem, buffer, backend, given.get("on"))
    update, why = choose_update(given, passes, record, feasible)
    run = Run(
        problem=problem,
        buffer=buffer,
        rows=len(buffer),
        arguments={name: value for name, value in given.items() if name not in ASIDE},
        update=update,
        replay=replay,
        instead=None,
        why=why,
        engine=update.engine,
        start=starting_point(given["x0"], feasible, record.dim),
        step=step,
        steps=step if isinstance(step, tuple) else (step,),
        automatic=isinstance(step, str),
        passes=passes,
        feasible=feasible,
        on_the_whole_space=whole,
        averaging=USUAL if given["average"] == DEFAULT_TAIL else as_averaging(given["average"]),
        track=None if given["track"] is None else as_track(given["track"], record.dim),
        backend=backend,
        threads=cores() if given["threads"] is None else whole_number("threads", given["threads"], 1),
        precision=precision,
        record=record,
        progress=given["progress"],
        feature_names=problem.names(buffer, record.dim),
    )
    if not update.needs.own_order:
        return with_steps(run, update, why)
    check_needs(run, given["checkpoint"] is not None)
    return run


def _record(problem: Problem, buffer: Buffer | StoredBuffer, backend: str, on: Any) -> Record:
    """The record as the problem reads it, here or by the workers of `on`."""
    if on is None:
        return as_record(over_batches(problem, buffer, backend), buffer)
    from multireplay.spread import spread_over

    if backend == "batched" or getattr(problem, "batch_operator", None) is not None:
        raise InputError("the batched engine runs on one machine: leave on=... out, or write the operator for one row")
    return spread_over(problem, buffer, on)


def with_steps(run: Run, update: Update, why: str) -> Run:
    """The run with an update that takes steps: it has an order, and an engine."""
    record = run.record
    order = run.replay or default_order(record)
    if record.is_spread:
        raise InputError(
            f"{update!r} takes one step after the other, in the order of {order!r}, which runs on one machine ({why}): "
            "leave on=... out"
        )
    stepper = make_stepper(record.problem, run.feasible, record.dim, run.backend, record.example, run.precision)
    engine = cast(Engine, stepper.name)
    instead = Shuffle(0) if run.replay is None and isinstance(order, Dyadic) else None
    found = replace(run, update=update, replay=order, instead=instead, why=why, engine=engine)
    check_needs(found, run.arguments["checkpoint"] is not None)
    check_scales(found)
    return found


def otherwise(run: Run, why: str) -> Run:
    """The run another way, where the update that was chosen for it turned out not to be for its data.

    Corrections give way to the exact fit, if that is affordable, and that to steps.
    """
    exact = Exact()
    if run.route == "corrections" and can_be_exact(run.record):
        return replace(run, update=exact, why=why, engine=exact.engine)
    return with_steps(run, _by_passes(run.passes), why)


def choose_update(given: Mapping[str, Any], passes: int | None, record: Record, feasible: Set) -> tuple[Update, str]:
    """What moves the iterate, and why."""
    update, step = given["update"], given["step"]
    if update is not None:
        if not isinstance(update, Update):
            known = "mr.Plain(), mr.VarianceReduced(), mr.RichardsonRomberg(), mr.Newton() or mr.Exact()"
            raise InputError(f"update must be {known}, not {update!r}")
        return update, "update=... is given"
    if given["replay"] is not None:
        return (Plain() if passes is None else _by_passes(passes)), "replay=... is given"
    if isinstance(step, Schedule | list | tuple) and passes is None:
        return Plain(), "step=... is given"
    if given["precision"] != "float64":
        return _by_passes(passes), "precision=... is given"
    if not (isinstance(step, str) and step == "auto"):
        return _by_passes(passes), "step=... is given"
    found = choose_route(record, feasible, passes)
    if given["checkpoint"] is not None and found[0].route == "exact" and not can_be_kept(record):
        return Newton(), "checkpoint=... is given, and passes that correct a coarse fit can be kept"
    return found


def choose_route(record: Record, feasible: Set, passes: int | None) -> tuple[Update, str]:
    """The cheapest way to the exact fit that the problem allows: all of it at once, corrections, or steps.

    Costs are counted in numbers read from memory, a row: a pass of corrections reads each feature a few times, and
    the moments of a row take d² multiplications, of which the processor does some in the time of one reading.
    """
    problem, length, dim = record.problem, record.length, record.dim
    if not problem.has_jacobian:
        return _by_passes(passes), f"{problem!r} has no Jacobian, so that steps are taken"
    if isinstance(feasible, WholeSpace) and has_few_rows(record):
        return Exact(), f"{length} rows are fewer than {dim} coordinates, and the fit is made in what they span"
    samples = usual_rows(record)
    at_all = length * dim * (2 + dim / PRODUCTS)
    corrected = CORRECTIONS * length * dim * 2 + samples * dim * (10 + dim / PRODUCTS / 2)
    if not isinstance(feasible, WholeSpace):
        at_once, why = can_be_exact(record), f"{feasible!r} is kept to exactly"
    elif problem.is_linear:
        sparse = problem.on_host and not isinstance(getattr(record.example, "features", None), np.ndarray)
        at_once = can_be_exact(record) and (sparse or at_all <= corrected)
        why = f"with {dim} coordinates the moments of all rows cost less than passes that correct a coarse fit"
    else:
        few = samples == length and not problem.by_feature  # features that are read once for several coordinates
        at_once = (few or NEWTON_STEPS * at_all <= corrected) and can_be_exact(record)
        why = f"{length} rows are few enough for Newton steps on all of them"
    if at_once:
        return Exact(), why
    if dim > widest(record):
        return _by_passes(passes), f"{dim} coordinates are too many for a Jacobian, so that steps are taken"
    return Newton(), CORRECTED


def can_be_exact(record: Record) -> bool:
    """Whether sums of d × d matrices over all rows are affordable."""
    return record.dim <= widest(record) and is_affordable(record)


def _by_passes(passes: int | None) -> Update:
    """Variance reduction in as many passes, or a plain pass where there are too few for a round."""
    if passes is None:
        return VarianceReduced()
    return VarianceReduced(rounds=(passes - 1) // 2) if passes >= 3 else Plain()


def check_needs(run: Run, checkpoint: bool) -> None:
    """Refuse a run that does not meet what its update needs, with the update's own sentence."""
    needs: Needs = run.update.needs
    met = (
        (needs.whole_space, run.on_the_whole_space),
        (needs.constant_step, not isinstance(run.step, Schedule) or isinstance(run.step, Constant)),
        (needs.one_step, len(run.steps) == 1),
        (needs.double, run.precision == "float64"),
        (needs.own_order, run.replay is None),
        (needs.resumed, not checkpoint),
        (needs.no_step, run.automatic),
    )
    for sentence, fine in met:
        if sentence and not fine:
            given = {"feasible": f"{run.feasible!r}", "precision": f"{run.precision!r}", "step": f"{run.step!r}"}
            raise InputError(sentence.format(**given))


def check_scales(run: Run) -> None:
    """Refuse a rule of steps for epochs of 2^k steps in an order that has others, where it would take a wrong T_k."""
    for step in run.steps:
        if isinstance(step, Schedule) and step.by_scale:
            wrong = next((epoch for epoch in run.replay.plan(run.rows) if epoch.length != 2**epoch.k), None)
            if wrong is not None:
                raise InputError(
                    f"{step!r} is for epochs of 2^k steps, those of mr.Multiscale(), and epoch {wrong.k} of "
                    f"{run.replay!r} has {wrong.length}: give replay=mr.Multiscale(), or another step"
                )


def as_passes(passes: object, update: Update | None) -> int:
    """The number of passes asked for, or an error."""
    if update is not None:
        raise InputError("give update=... or passes=..., not both")
    return whole_number("passes", passes, least=1)


def as_step(step: Any) -> Any:
    """A schedule, "auto", a number, or several numbers, checked."""
    if (
        isinstance(step, Schedule)
        or (isinstance(step, str) and step == "auto")
        or (type(step) is float and 0 < step < np.inf)
    ):
        return step
    if isinstance(step, str):
        raise InputError(f"step must be a positive number, a schedule from mr.steps or 'auto', not {step!r}")
    if isinstance(step, Sequence):
        if not step:
            raise InputError("several step sizes compete with mr.Plain() alone, and there must be at least one")
        return tuple(as_step(one) for one in step)
    return positive("step", step)


def starting_point(x0: Any, feasible: Set, dim: int) -> Vector:
    """x0 checked against the dimension and the set; by default the point of the set closest to 0."""
    if x0 is None and isinstance(feasible, WholeSpace):
        return np.zeros(dim)
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


def over_batches(problem: Problem, buffer: Buffer | StoredBuffer, backend: str) -> Problem:
    """The problem over batches where it is to be run so, otherwise the problem as it is.

    That is where the backend says so, where the user's operator is written over a batch, or where the columns lie on
    a device. Columns that another library holds in the memory of the processor are read through NumPy, without a copy,
    by the other engines. A record on disk is not run so.
    """
    written_so = getattr(problem, "batch_operator", None) is not None
    if isinstance(buffer, StoredBuffer):
        if written_so and backend in ("auto", "batched"):
            raise InputError(
                "an operator over batches (batched=True) needs a buffer in memory: load it with buffer.load(), or "
                "write the operator for one row"
            )
        if backend == "batched":
            raise InputError("backend='batched' needs a buffer in memory: buffer.load(), if it fits")
        return problem
    names = [name for name in (*problem.required, *problem.optional) if name in buffer]
    if backend != "batched" and not written_so and all(type(buffer[name]) is np.ndarray for name in names):
        return problem
    away = [name for name in names if is_foreign(buffer[name]) and not on_cpu(buffer[name])]
    if not names or not (backend == "batched" or (backend == "auto" and (written_so or away))):
        return problem
    why = f"a column on {describe(buffer[away[0]])}" if away else "backend='batched'"
    if not can_be_batched(problem):
        raise InputError(
            f"{why} needs an operator over batches, which {problem!r} does not have: write it as operator(X, batch), "
            "one row a lane, and give VariationalInequality(..., batched=True), or give the columns as NumPy arrays"
        )
    sparse = [name for name in names if issparse(buffer[name])]
    if sparse:
        raise InputError(f"{why} needs dense columns, and {sparse[0]!r} is sparse: leave the backend out")
    return as_batched(problem, buffer[names[0]])


def default_order(record: Record) -> Replay:
    """Dyadic order; over batches all offsets of a gap side by side, with chains that are long and yet many.

    The gap is a prime that is in step with no usual period of a record, so that each chain comes to all of a period.
    """
    depth = min(DEEPEST, record.length.bit_length() - 1 - WIDTH)
    if not isinstance(record.problem, OverBatches) or depth < 1:
        return Dyadic()
    return cast(Replay, Interleaved(gap=out_of_step(record.length >> depth, record.length)))


def as_share(holdout: Any, run: Run) -> float | None:
    """The share to hold out: as asked for, or by default where the exact fit of a GLM would overfit."""
    record = run.record
    if holdout == "auto":
        free = all(run.arguments[name] is None for name in ("update", "passes", "replay"))
        overfits = isinstance(record.problem, GLM) and FEWEST <= record.length < CROWDED * record.dim
        if free and overfits and record.is_spread and isinstance(run.buffer, Buffer):
            raise InputError(
                f"{record.length} rows for {record.dim} coordinates are so few that a share is held out, which runs on "
                "one machine: leave on=... out, or give holdout=None"
            )
        return DEFAULT_SHARE if free and overfits and not record.on_disk else None
    if holdout is None:
        return None
    if isinstance(holdout, bool | str) or not isinstance(holdout, int | float | np.number) or not 0 < holdout < 1:
        raise InputError(f"holdout must be a share in (0, 1), 'auto' or None, not {holdout!r}")
    if record.on_disk:
        raise InputError("holdout=... needs a buffer in memory: buffer.load(), if it fits")
    return float(holdout)
