"""What a person should know of a fit beside its numbers: what is free, what does not exist, what is not monotone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.foreign import Array
from multireplay.buffer.names import listed
from multireplay.engine.extremes import Largest
from multireplay.engine.sums import Folding, fold, operator_batches
from multireplay.inference.residuals import standard_errors
from multireplay.problems import Problem
from multireplay.updates.samples import COARSE
from multireplay.updates.slope import POWER_STEPS, Slope

if TYPE_CHECKING:
    from multireplay.solving.run import Run

FAR_OUT = 15.0
"""Scores beyond this are looked at: fitted probabilities within 3e-7 of 0 or 1."""
EXCEPT = 1e-6
"""A direction separates the classes if no row is on its wrong side by more than this share of a usual score."""
SURE = 4.0
"""Standard errors by which a form must be below 0 to be called so: it is the smallest of many."""
WOBBLES = 1.5
"""… and a matrix of some rows by so many times of what its two halves differ by, before it is looked at."""
BEYOND, LASTING = 1e3, 1e-3
"""How many times the last move is gone on, to see whether there is a root, if it is not below this share of x."""
FOR_EVER = 1e100
"""How far one goes along a direction, to see whether a set lets one go on."""
NAMED = 6
SEPARABLE = (
    "the fit does not exist: the data are separable{}, and the loss falls for ever in one direction. "
    "Give a small ridge=..., which makes it exist"
)
FLAT = (
    "the data are separable: the loss falls up to the boundary of {!r}, but is flat to rounding long before. Give a "
    "smaller set, or a small ridge=..."
)
LEFT_OUT = (
    "the fit does not exist: the columns that the penalty leaves out separate the data{}, and the "
    "loss falls for ever in one direction. Let the penalty count for them too"
)

NO_ROOT = (
    "there is no root: in one direction the operator vanishes on the way to infinity. A small multiple of x, added to "
    "the operator, makes one exist"
)

BESIDE = 1e-14
"""A feature whose mean square is below this share of the largest is rounding in a matrix with it, …"""
UNEVEN = (
    "features differ so much in size that, on a set, the small ones are lost in rounding beside the large ones. Bring "
    "the columns to one size"
)


def lost_beside_others(matrix: Vector) -> bool:
    """… which on a set where features have to keep their units nothing puts right."""
    sizes = np.abs(np.diag(matrix))
    return bool(0 < sizes[sizes > 0].min(initial=np.inf) < BESIDE * sizes.max(initial=0.0))


def free_note(free: tuple[tuple[int, ...], ...], names: Sequence[str] | None = None, told: str = "") -> tuple[str, ...]:
    """On directions that the record says nothing of; `names` are those of the features, if they have any.

    What is `told` of all of them stands for a list.
    """
    if not free:
        return ()
    never = [group[0] for group in free if len(group) == 1]
    parts = []
    if never:
        parts.append(f"{_named(never, names)} {'is' if len(never) == 1 else 'are'} never active")
    combined = [f"{_named(group, names)} are combinations of one another" for group in free if len(group) > 1][:NAMED]
    parts += [told] if told else combined
    shortest = "x has no part in the directions that it says nothing of"
    return (f"the record does not settle all coordinates: {'; '.join(parts)}. {shortest}",)


def runaway_note(run: Run, x: Vector, move: Vector, lost: bool = False) -> tuple[str, ...]:
    """Whether the fit does not exist, because the loss falls for ever along x or the last move.

    Or, where it was `lost`, falls up to the boundary of a set, far beyond where it is flat to rounding.
    """
    problem = run.record.problem
    if problem.is_linear or problem.penalty_diagonal(len(x)).all():
        return ()
    samples = problem.samples(run.record.spread(COARSE))
    if problem.recession(samples, x) is None:
        return (NO_ROOT,) if run.on_the_whole_space and _vanishes(run, x, move) else ()
    if np.abs(problem.scores(samples, x)).max() < FAR_OUT:  # type: ignore[attr-defined]
        return ()
    for direction in (_open_part(run, x, way) for way in (x, move)):
        if _separates(run, samples, direction):
            told = LEFT_OUT if problem.penalty_diagonal(len(x)).any() else SEPARABLE
            return (told.format(_by_which(run, samples, direction)),)
    return (FLAT.format(run.feasible),) if lost and not run.on_the_whole_space and _separates(run, samples, x) else ()


def separated_note(run: Run, x: Vector) -> tuple[str, ...]:
    """Whether a penalized fit exists only because of the penalty: by a column, or a few, or where x says so."""
    problem = run.record.problem
    samples = problem.samples(run.record.spread(COARSE))
    if problem.is_linear or problem.recession(samples, x) is None:
        return ()
    if np.abs(problem.scores(samples, x)).max() < FAR_OUT:  # type: ignore[attr-defined]
        return ()
    by = _by_which(run, samples, x)
    some = by or _separates(run, samples, x)
    return (f"the data are separable{by}: only the penalty makes the fit exist",) if some else ()


def _separates(run: Run, samples: Any, direction: Vector) -> bool:
    """Whether no row is on the wrong side of a direction: at first none of these samples."""
    problem, size = run.record.problem, _usual_score(run.record.problem, direction, samples)
    if not 0 < size < np.inf or _wrong_side(problem, direction / size, samples) > EXCEPT:
        return False
    wrong = Largest(problem, partial(_wrong_side, problem, direction / size))
    return bool(fold(run.record, wrong, how=Folding(run.threads))[0][0] <= EXCEPT)


def _by_which(run: Run, samples: Any, direction: Vector) -> str:
    """By which columns, where one does it, or a few of those that the direction has most part in; or nothing.

    One column separates the classes by itself, or, where there is a constant, where they meet.
    """
    rows, problem = samples.features, run.record.problem
    if not (isinstance(rows, np.ndarray) and problem.by_feature and run.on_the_whole_space):
        return ""
    constant = np.flatnonzero((rows == rows[0]).all(axis=0) & (rows[0] != 0) & (direction != 0))[:1]
    largest = np.argsort(-np.abs(direction * np.abs(rows).mean(axis=0)), kind="stable")
    largest = largest[direction[largest] != 0][: NAMED + len(constant)]
    for column in largest:
        alone = np.where(np.arange(len(direction)) == column, np.sign(direction), 0.0)
        if _separates(run, samples, alone):
            return f" by {_named([column], run.feature_names)} alone"
        if len(constant) and column != constant[0]:
            top = Largest(problem, partial(_top_of_none, problem, alone))
            alone[constant] = -fold(run.record, top, how=Folding(run.threads))[0][0] / rows[0, constant]
            if _separates(run, samples, alone):
                return f" by {_named([column], run.feature_names)} alone"
    several = largest[~np.isin(largest, constant)]
    for count in range(2, min(len(several), len(np.flatnonzero(direction)) - 1 - len(constant)) + 1):
        some = np.where(np.isin(np.arange(len(direction)), [*several[:count], *constant]), direction, 0.0)
        if _separates(run, samples, some):
            return f" by {_named(several[:count].tolist(), run.feature_names)} together"
    return ""


def _top_of_none(problem: Any, direction: Vector, samples: Any) -> float:
    """The largest score along a direction of a row with the outcome 0."""
    scores, weights = problem.scores(samples, direction), problem.weights_of(samples)
    none = problem.outcomes_of(samples) == 0
    return float(scores[none if weights is None else none & (weights > 0)].max(initial=-np.inf))


def _open_part(run: Run, x: Vector, direction: Vector) -> Vector:
    """The part of a direction that neither the penalty nor the set holds: one may go on along it for ever; or 0."""
    free = np.where(run.record.problem.penalty_diagonal(len(x)) > 0, 0.0, direction)
    size = float(np.abs(free).max())
    if run.on_the_whole_space or not 0 < size < np.inf:
        return free
    found = run.feasible.projected(x + FOR_EVER / size * free) / FOR_EVER * size
    return found if np.abs(found).max() > EXCEPT * size else np.zeros_like(x)


def _usual_score(problem: Problem, direction: Vector, samples: Any) -> float:
    """The largest score along a direction of a row whose features are of their usual sizes, whatever outliers are."""
    rows = samples.features
    if not isinstance(rows, np.ndarray) or not problem.by_feature:
        return float(np.abs(problem.scores(samples, direction)).max())  # type: ignore[attr-defined]
    usual = [np.median(np.abs(column[column != 0])) if column.any() else 0.0 for column in rows.T]
    return float(np.abs(direction * usual).max())


def _vanishes(run: Run, x: Vector, move: Vector) -> bool:
    """Whether the operator stays as small far beyond the last move, where about a root it grows with the distance."""
    if not (np.abs(move) > LASTING * np.abs(x)).any() or not np.isfinite(move).all():
        return False
    beyond, here = operator_batches(run.record, [x + BEYOND * move, x], Folding(run.threads))
    return bool(abs(beyond.mean @ move) <= BEYOND / 100 * abs(here.mean @ move))


def _wrong_side(problem: Problem, direction: Vector, samples: Any) -> float:
    found = problem.recession(samples, direction)
    return np.inf if found is None else found


def wrong_way_note(run: Run, slope: Slope, half: Array = None) -> tuple[str, ...]:
    """Whether the operator is surely not monotone: vᵀJv < 0 for some v, on rows spread over the record too.

    `half` is about what J would differ by of more rows, where it is not of all of them.
    """
    monotone = slope.factors.is_monotone(0.0)
    if not monotone and half is not None:
        monotone = slope.factors.is_monotone(WOBBLES * slope.factors.wobble(half, POWER_STEPS))
    if not monotone:
        matrix = slope.factors.whole.astype(np.float64)
        v = np.linalg.eigh(matrix + matrix.T)[1][:, 0]
        v = slope.basis @ v if hasattr(slope, "basis") else slope.scale * v
        spread = run.record.part(run.record.spread(COARSE))
        there, here = (batches.means @ v for batches in operator_batches(spread, [v, np.zeros_like(v)]))
        forms = (there - here)[:, None]
        if forms.mean() + SURE * standard_errors(forms)[0] < 0:
            return (
                "the problem is not monotone (A + Aᵀ has a negative eigenvalue): the fit is a root of the mean "
                "operator, but steps towards it may lead away. Rows that are not of one policy's own chain do this",
            )
    return ()


def _named(coordinates: Sequence[int], names: Sequence[str] | None) -> str:
    return listed([f"x[{i}]" if names is None else repr(names[i]) for i in coordinates], NAMED)
