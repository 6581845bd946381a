"""What a result knows of its own uncertainty: what the update left of it, or one pass over the record."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.foreign import require_finite
from multireplay.buffer.names import names_in
from multireplay.errors import InputError, UncertaintyWarning, warn
from multireplay.inference.doubts import NAMED
from multireplay.inference.left_out import FULL, HELD, LONGER, SEVERAL
from multireplay.inference.on_set import boundary_sentence
from multireplay.inference.residuals import distance_of, standard_errors
from multireplay.inference.sight import SPREAD, RecordAt
from multireplay.inference.slow import PIECES, stretched
from multireplay.inference.uncertainty import FEW, Uncertainty
from multireplay.result import CONVERGED
from multireplay.show.text import plural
from multireplay.updates.base import Unsuitable
from multireplay.updates.doubts import separated_note
from multireplay.updates.measure import bias_at, held_at, images_at, is_bent, left_out_at

if TYPE_CHECKING:
    from multireplay.inference.images import Images
    from multireplay.inference.longrun import LongRun
    from multireplay.inference.summary import Summary
    from multireplay.problems import Problem
    from multireplay.result import Result
    from multireplay.solving.run import Run

HALF, FAR = 0.5, 2.0
"""A bias of fewer standard errors costs at most 2 % of coverage, and is left alone; of more, it is marked: no interval
around what is left would hold x itself."""
BIASED = "with few rows a coordinate the fit is off by up to {:.2g} standard errors: intervals allow for it"
TOLD = 1.05
LONG = (
    "the record's memory looks longer than 32 batches can show: standard errors allow for it as LongMemory() does, and "
    "are up to {:.2g} times those of the batches"
)
NO_FIT = "the fit was not found, or does not exist, so that x is no estimate"
HUGE, BEYOND = 1e150, "numbers are so large, or so small, that their squares are no numbers: bring them to another unit"
LEFT_BEHIND = "the result was pickled before they were worked out, and has left its record behind"


def uncertainty_of(result: Result) -> Uncertainty:
    """How well the record knows the answer of a result; measured in one pass where the update has left no images."""
    run, x = result.run, result.x
    names = tuple(f"x[{i}]" for i in range(len(x))) if run is None else run.names
    images, why, pulled = result.images, "", 0.0
    if result.status.code == "diverged":
        images, why = None, "the run diverged"
    elif result.measured == np.inf:
        images, why = None, NO_FIT
    elif images is None and (run is None or run.record is None):
        why = LEFT_BEHIND
    elif images is None:
        try:
            images = images_at(run, x)
        except Unsuitable as reason:
            why = str(reason)
    if images is not None and len(images.values) < 2:
        images, why = None, "a single row does not show how rows vary"
    elif images is not None and any(s > HUGE or 0 < s < 1 / HUGE for s in np.abs(images.values).max(axis=0).tolist()):
        images, why = None, BEYOND
    source = None if run is None else RecordAt(run.record, x, run.threads, partial(images_at, run, x))
    if images is not None and run is not None and run.problem is not None:
        pulled = _pulled(run.problem, x, images)
        images = replace(images, held=held_at(run, x, images, pulled))
    notes = () if images is None else _notes(result, images, names, pulled)
    found = Uncertainty(x, names, images, source, why, notes)
    whole = run is not None and run.record is not None and run.on_the_whole_space
    whole = whole and images is not None and images.unknown is None
    if images is not None and whole and found.crowded > HELD:
        images = found.images = _left_out(run, found, images)
    if images is not None and source is not None and images.through is not None and found.slow:
        images = found.images = _of_long_memory(found, source, images)
    if images is not None and whole and result.measured is not None and result.measured <= CONVERGED:
        found.images = _centred(run, found, images)
    return found


def _left_out(run: Run, found: Uncertainty, images: Images) -> Images:
    """Images with each batch left out in turn, as it holds the answer; longer ones where neighbours hold it too."""
    typical = sorted(np.asarray(found.visits).tolist())[len(found.x) // 2]
    if typical < FEW and found.crowded * typical > SEVERAL and found.crowded < FULL:
        return left_out_at(run, found.x, images, LONGER)
    return images if images.left_out else left_out_at(run, found.x, images)


def _of_long_memory(found: Uncertainty, source: RecordAt, images: Images) -> Images:
    """Images with the spread that `LongMemory` finds, in one more pass, and a note where it is more than they have."""
    slow = stretched(images, found.images_of(source.scores(PIECES)))
    if (most := float(np.max(slow.stretch))) > TOLD:
        found.notes = (*found.notes, LONG.format(most))
    return slow


def _centred(run: Run, found: Uncertainty, images: Images) -> Images:
    """Images with what the curvature of a link moves the answer by, where that is much beside a standard error.

    Not where a ridge moves it by as much: then what is estimated is the penalized fit, and the two may cancel.
    """
    if not is_bent(run.record.problem):
        return images
    visits = np.zeros(1) if found.visits is None else found.visits * max(1.0, run.rows / SPREAD)
    many = len(found.x) ** 2 > visits.min() and len(found.x) ** 2 > np.median(visits)  # which takes its time
    finer = left_out_at(run, found.x, images) if many and len(images.values) == LONGER else images  # for all of Var(x)
    off = bias_at(run, found.x, finer) if many else None
    if off is None or _pulled(run.record.problem, found.x, images) > HALF:
        return images
    away = np.abs(off) / np.where((error := images.standard_error) > 0, error, np.inf)
    known, lost = (away > HALF) & (away <= FAR), away > FAR
    if known.any():
        found.notes = (*found.notes, BIASED.format(away[known].max()))
    return replace(images, off=np.where(known, off, 0.0), lost=lost) if (known | lost).any() else images


def _notes(result: Result, images: Images, names: tuple[str, ...], pulled: float) -> tuple[str, ...]:
    """What holds for all intervals: how far x is from the fit, what a set or a penalty does to them."""
    notes: list[str] = []
    run, away = result.run, result.measured
    if away is None and run.on_the_whole_space:  # the pass that gave the images gives the distance too
        move = np.average(images.values, axis=0, weights=images.rows)
        away = distance_of(move, standard_errors(images.values), result.x, np.ones(len(move)))
    elif away is None:
        away = result.distance
    if away > CONVERGED:
        notes.append(f"x is about {away:.2g} standard errors from the exact fit, which intervals do not count")
    if images.set_active and images.boundary is not None:
        held = [names[i] for i in np.flatnonzero(images.boundary)]
        notes.append(boundary_sentence(held, repr(run.feasible), len(held) < len(names)))
    elif images.set_active:
        notes.append(f"{run.feasible!r} is active: intervals hold given that")
    if pulled > CONVERGED:
        notes.append("intervals are for the penalized fit: what the ridge pulls towards 0 is not in them")
        notes += () if run.record is None else separated_note(run, result.x)
    return tuple(notes)


def _pulled(problem: Problem, x: Vector, images: Images) -> float:
    """What a ridge moves x by, to first order, in standard errors of the worst coordinate; infinite if not known."""
    penalty = problem.penalty_diagonal(len(x))
    if not penalty.any():
        return 0.0
    if images.through is None:
        return np.inf
    error = images.standard_error
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs(images.of((penalty * x)[None, :])[0]) / error
    return float(np.nan_to_num(moved, nan=0.0, posinf=np.inf).max())


def summary_of(result: Result, level: float, by: LongRun | None) -> Summary:
    """The table of a result, with how it was made below it."""
    what = "" if result.run is None else repr(result.run.problem)
    return result.uncertainty.summary(level, by, made_of(result, what))


def made_of(result: Result, what: str) -> list[str]:
    """How a fit was made, in sentences; the first begins with what was fitted."""
    run, made = result.run, []
    if run is not None:
        took = f"{result.passes:.3g} pass{'es' * (result.passes != 1)}"
        made.append(f"{what} on {plural(run.rows, 'row')}, {took}: {run.why.rstrip('.')}.")
    if result.measured is not None and np.isfinite(result.measured):
        made.append(f"Distance to the exact fit: {result.measured:.2g} standard errors in the worst coordinate.")
    return [*made, *(f"Note: {note}." for note in result.notes)]


def _in_order(rows: Any, names: tuple[str, ...] | None) -> Any:
    """Rows of a data frame with its columns in the order of the features, by their names."""
    own = names_in(rows)
    if own is None or names is None or own == names:
        return rows
    if set(own) != set(names):
        parts = [("lack", set(names) - set(own)), ("have also", set(own) - set(names))]
        told = " and ".join(f"{what} {', '.join(map(repr, sorted(some)[:NAMED]))}" for what, some in parts if some)
        raise InputError(f"the rows need the features of the record, no more and no fewer, by name: they {told}")
    return rows.select(list(names)) if hasattr(rows, "select") else rows[list(names)]


def predict_interval_of(result: Result, rows: Any, level: float, by: LongRun | None) -> tuple[Vector, Vector, Vector]:
    """The mean response at rows of features, and its interval: that of the score, through the link."""
    run: Run = result.run
    if run is None or run.problem is None:
        raise InputError("the problem was lost in pickling, so that nothing can be predicted")
    table = getattr(run.problem, "table", None)
    if table is not None and np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iu":
        rows = table[np.asarray(rows)]
    response = run.problem.response
    response(np.zeros(0))  # says why, where there is none
    rows, known = _in_order(rows, run.feature_names), result.uncertainty
    if not hasattr(rows, "tocsr") and np.ndim(rows) == 2:
        require_finite("rows", np.asarray(rows, dtype=np.float64), run.feature_names)
    ends = known.interval(level, of=rows, by=by)
    held = int(np.isnan(ends[:, 0]).sum())
    if held and known.images is not None and known.images.boundary is not None:
        names = [known.names[i] for i in np.flatnonzero(known.images.boundary)]
        which = boundary_sentence(names, repr(run.feasible), len(names) < len(known.names))
        which = which.partition("; the other")[0].partition(": there is no")[0]
        warn(f"no interval for {plural(held, 'row')}: {which}", UncertaintyWarning)
    fitted = np.asarray(np.atleast_2d(rows) @ result.x if not hasattr(rows, "tocsr") else rows @ result.x)
    return response(fitted), response(ends[:, 0]), response(ends[:, 1])
