"""What the arguments of a run mean: the start, the step sizes, the preconditioner, and what to warn of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np

from multireplay._check import Vector, as_vector, whole_number
from multireplay.buffer.record import Record
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.problems.batched import Batched
from multireplay.problems.features import column_sizes, largest_square, take
from multireplay.replay.multiscale import scattered
from multireplay.sets import Set, WholeSpace
from multireplay.steps import Constant, Schedule
from multireplay.updates import precondition
from multireplay.updates.base import RichardsonRomberg, Update, VarianceReduced
from multireplay.updates.precondition import Preconditioner

AUTO_SHARE = 0.5
ROUND_SHARE = 1.0
DEFAULT_TAIL = 7 / 8
UNEVEN = 30.0
"""Features whose sizes differ by more than this factor are warned of."""


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


def as_threads(threads: object) -> int:
    """The number of threads asked for; by default the cores that this process may use."""
    return int(joblib.cpu_count()) if threads is None else whole_number("threads", threads, least=1)


def as_schedule(step: Any, problem: Problem, samples: Any, shorten: Callable[[float], float] | None = None) -> Schedule:
    """A schedule from a number, a schedule, or "auto", for which a preconditioner shortens the Lipschitz constant."""
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
    return Constant(AUTO_SHARE / (bound if shorten is None else shorten(bound)))


def shortening(record: Record, preconditioner: Preconditioner) -> Callable[[float], float] | None:
    """What the preconditioner makes of a Lipschitz constant; a ridge in it stays, no direction is shortened for it."""
    if not preconditioner.rank:
        return None
    ridge = getattr(record.example, "ridge", None) or 0.0
    before = record.largest(lambda samples: largest_square(*weighted_rows(samples)))
    after = record.largest(lambda samples: preconditioner.largest_square(*weighted_rows(samples)))
    return lambda bound: (bound - ridge) * after / before + ridge


def weighted_rows(samples: Any) -> tuple[Any, Vector | None]:
    """The features and, where there are any, the weights of their rows."""
    return samples.features, getattr(samples, "weights", None)


def choose_preconditioner(update: Update, record: Record, feasible: Set) -> Preconditioner:
    """The preconditioner that the update asks for, or an error where it cannot be had."""
    if isinstance(update, RichardsonRomberg) and not isinstance(feasible, WholeSpace):
        raise InputError(f"Richardson-Romberg extrapolation leaves {feasible!r}; it needs the whole space")
    wanted = update.precondition if isinstance(update, VarianceReduced) else None
    if wanted is None:
        return precondition.none(record.dim)
    if isinstance(record.problem, Batched):
        if wanted != "auto":
            raise InputError(f"precondition={wanted} is not for the batched engine; leave it out, or use NumPy arrays")
        return precondition.none(record.dim)
    usable = isinstance(feasible, WholeSpace) and hasattr(record.example, "features")
    if not usable and wanted != "auto":
        reason = (
            "the problem has no features"
            if isinstance(feasible, WholeSpace)
            else f"it does not commute with {feasible!r}"
        )
        raise InputError(f"precondition={wanted} cannot be used here: {reason}")
    if not usable:
        return precondition.none(record.dim)
    rows = record.take(scattered(record.length, precondition.PREFIX))
    return precondition.from_sample(record.problem.samples(rows).features, wanted)


def round_step(step: Any, schedule: Schedule) -> float:
    """The step of the variance-reduced passes: twice the automatic one, or the one that was given."""
    if not isinstance(schedule, Constant):
        raise InputError(
            "variance reduction needs a constant step; give a number, or update=mr.Plain() with the schedule"
        )
    longer = ROUND_SHARE / AUTO_SHARE if isinstance(step, str) else 1.0
    return longer * float(schedule.values(1, 0, 1)[0])


def warn_of_scales(record: Record) -> None:
    """Warn where features differ so much in size that one step cannot suit them all; looks at about 1000 rows."""
    if not hasattr(record.example, "features"):
        return
    features = record.problem.samples(record.take(scattered(record.length, 1000))).features
    sizes = column_sizes(take(features, slice(None)))
    sizes = sizes[sizes > 0]
    if len(sizes) and sizes.max() > UNEVEN * sizes.min():
        ratio = sizes.max() / sizes.min()
        warnings.warn(
            f"features differ in size by a factor of {ratio:.0f}: one step size cannot suit them all, and the "
            f"answer is likely to be "
            "far from converged. Standardize the columns (divide each by its standard deviation)",
            stacklevel=5,
        )
