"""What the arguments of a run mean: the start, the step sizes, the preconditioner, and what to warn of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay import precondition
from multireplay.arrays import as_numpy, is_foreign, rows_of
from multireplay.errors import InputError
from multireplay.precondition import Preconditioner
from multireplay.problems import Problem
from multireplay.problems.base import largest_square
from multireplay.problems.batched import Batched
from multireplay.sets import Set, WholeSpace
from multireplay.steps import Constant, Schedule
from multireplay.tracking import as_vector
from multireplay.updates import RichardsonRomberg, Update, VarianceReduced

Vector = NDArray[np.float64]
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


def choose_preconditioner(update: Update, problem: Problem, samples: Any, feasible: Set, dim: int) -> Preconditioner:
    """The preconditioner that the update asks for, or an error where it cannot be had."""
    if isinstance(update, RichardsonRomberg) and not isinstance(feasible, WholeSpace):
        raise InputError(f"Richardson-Romberg extrapolation leaves {feasible!r}; it needs the whole space")
    wanted = update.precondition if isinstance(update, VarianceReduced) else None
    if wanted is None:
        return precondition.none(dim)
    if isinstance(problem, Batched):
        if wanted != "auto":
            raise InputError(f"precondition={wanted} is not for the batched engine; leave it out, or use NumPy arrays")
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


def warn_of_scales(samples: Any) -> None:
    """Warn where features differ so much in size that one step cannot suit them all; looks at about 1000 rows."""
    features = getattr(samples, "features", None)
    if features is None:
        return
    if is_foreign(features):
        features = as_numpy(rows_of(features, slice(None, None, max(1, features.shape[0] // 1000))))
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
