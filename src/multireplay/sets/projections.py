"""Exact Euclidean projections on arrays alone, so that a compiled loop can call them with no object in sight.

A set is one float64 array, its *spec*: ``spec[0]`` is a code below, the rest its parameters.

==============  ==========================================================================
code            spec after the code
==============  ==========================================================================
``WHOLE``       nothing
``BALL``        radius, center (d numbers)
``BOX``         lower (d numbers), upper (d numbers)
``NONNEGATIVE`` nothing
``SIMPLEX``     total
``L1_BALL``     radius
``HALFSPACE``   offset, ‖normal‖², normal (d numbers); largest entry scaled to about 1
``PRODUCT``     number of factors, then for each: dimension, length of its spec, its spec
==============  ==========================================================================

All functions work in place and allocate nothing. nan is never projected away, so that a diverging run remains
visible; an infinite entry is clipped where the limit is clear (a bound of a box) and nan or inf otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay._jit import F, kernel

WHOLE, BALL, BOX, NONNEGATIVE, SIMPLEX, L1_BALL, HALFSPACE, PRODUCT = range(8)
ENOUGH = 100_000
"""Coordinates whose projection in plain Python takes some tenths of a second, as compiling takes seconds."""


def exact(function: F) -> F:
    """Compile as it is written: a loop that calls it would hand its own fast arithmetic on to it otherwise."""
    compiled: F = kernel(function, nogil=True, error_model="numpy", fastmath=False)
    return compiled


@exact
def _ball(x: Vector, spec: Vector) -> None:
    radius = spec[1]
    center = spec[2:]
    scale = 1.0
    square = 0.0
    for i in range(x.size):
        square += (x[i] - center[i]) ** 2
    if not 1e-280 < square < 1e280:  # squares under- or overflow: measure in units of the largest entry
        scale = 0.0
        for i in range(x.size):
            scale = max(scale, abs(x[i] - center[i]))
        if scale == 0.0:
            return
        square = 0.0
        for i in range(x.size):
            square += ((x[i] - center[i]) / scale) ** 2
    norm = math.sqrt(square)
    if not scale * norm > radius:
        return
    shrink = radius / (scale * norm)
    if shrink > 1e-300:
        for i in range(x.size):
            x[i] = center[i] + (x[i] - center[i]) * shrink
    else:  # the factor itself underflows: divide first, in loops of their own, so that no compiler joins it again
        for i in range(x.size):
            x[i] = (x[i] - center[i]) / scale
        for i in range(x.size):
            x[i] /= norm
        for i in range(x.size):
            x[i] = center[i] + x[i] * radius


@exact
def _box(x: Vector, spec: Vector) -> None:
    lower = spec[1 : 1 + x.size]
    upper = spec[1 + x.size :]
    for i in range(x.size):
        if x[i] < lower[i]:
            x[i] = lower[i]
        elif x[i] > upper[i]:
            x[i] = upper[i]


@exact
def _nonnegative(x: Vector) -> None:
    for i in range(x.size):
        if x[i] < 0.0:
            x[i] = 0.0


@exact
def _halfspace(x: Vector, spec: Vector) -> None:
    offset = spec[1]
    square = spec[2]
    normal = spec[3:]
    height = 0.0
    for i in range(x.size):
        height += normal[i] * x[i]
    if not height > offset:
        return
    # To the parallel hyperplane through 0, once more to remove what rounding left of the normal part, and
    # only then out to the offset, which the one-line formula loses far away (1e20 onto x <= 1 would give 0).
    for i in range(x.size):
        x[i] -= height / square * normal[i]
    height = 0.0
    for i in range(x.size):
        height += normal[i] * x[i]
    for i in range(x.size):
        x[i] = (x[i] - height / square * normal[i]) + offset / square * normal[i]


@exact
def _pour(x: Vector, total: float) -> None:
    """Pour ``total`` of water on a ground of depths |x_i|, the least of them 0; x_i becomes the water there.

    The sign of x_i is kept. The level solves f(level) = Σ max(level − |x_i|, 0) − total = 0 by Newton's
    method from level = total, where f ≥ 0. As f is convex, the level only falls, the wet entries only become
    fewer, and the method ends at the exact level once their number stays the same. Each step cuts f·f' at
    least fourfold: at most about log2(d) + 26 passes in double precision whatever the data.
    """
    level = total
    wet = x.size + 1
    while True:
        water = 0.0
        count = 0
        for i in range(x.size):  # without a branch, which would be mispredicted half the time
            here = level - abs(x[i])
            water += max(here, 0.0)
            count += here > 0.0
        # No true level is below total / count; the rounding of a very long sum must not go there either.
        level = max(level - (water - total) / count, total / count)
        if count >= wet:  # more than before only by rounding
            break
        wet = count
    water = 0.0
    count = 0
    for i in range(x.size):
        here = max(level - abs(x[i]), 0.0)
        water += here
        count += here > 0.0
        x[i] = math.copysign(here, x[i])
    # The level is rounded at its own size, which may be far above the water in most entries: spread the rest.
    rest = (total - water) / count
    for i in range(x.size):
        x[i] = math.copysign(max(abs(x[i]) + rest, 0.0), x[i]) if x[i] != 0.0 else 0.0


@exact
def _simplex(x: Vector, total: float) -> None:
    peak = -math.inf
    broken = False
    for i in range(x.size):
        broken |= math.isnan(x[i])
        peak = max(peak, x[i])
    if broken or math.isinf(peak):
        x[:] = math.nan
        return
    # Adding a constant to all entries does not move the projection: count from the largest one, downwards.
    for i in range(x.size):
        x[i] = abs(peak - x[i])  # -0.0 - 0.0 is -0.0, whose sign would be kept
    _pour(x, total)


@exact
def _l1_ball(x: Vector, radius: float) -> None:
    norm = 0.0
    peak = 0.0
    for i in range(x.size):
        norm += abs(x[i])
        peak = max(peak, abs(x[i]))
    if not norm > radius:
        return
    if math.isinf(peak):
        x[:] = math.nan
        return
    # The projection keeps the signs and takes |x| to the simplex.
    for i in range(x.size):
        x[i] = math.copysign(peak - abs(x[i]), x[i])
    _pour(x, radius)


@exact
def _project_factor(x: Vector, spec: Vector) -> None:
    code = int(spec[0])
    if code == BALL:
        _ball(x, spec)
    elif code == BOX:
        _box(x, spec)
    elif code == NONNEGATIVE:
        _nonnegative(x)
    elif code == SIMPLEX:
        _simplex(x, spec[1])
    elif code == L1_BALL:
        _l1_ball(x, spec[1])
    elif code == HALFSPACE:
        _halfspace(x, spec)


@exact
def _project_blocks(x: Vector, spec: Vector) -> None:
    if spec[0] != PRODUCT:
        _project_factor(x, spec)
        return
    start = 0
    at = 2
    for _ in range(int(spec[1])):
        dim = int(spec[at])
        length = int(spec[at + 1])
        at += 2
        _project_factor(x[start : start + dim], spec[at : at + length])
        start += dim
        at += length


@exact
def project(x: Vector, spec: Vector) -> None:
    """Project a point on the set a spec encodes, in place; callable from Python and from compiled code.

    Nothing is checked here: the spec must come from ``Set.spec(x.size)``, which checks.
    """
    if spec[0] != WHOLE:  # the rest is a function of its own to keep this test cheap
        _project_blocks(x, spec)


@cache
def _as_written() -> Callable[[Vector, Vector], None]:
    """`project` in plain Python, and all that it calls: the same numbers to the last bit, slowly, with no compiler."""
    names: dict[str, Any] = dict(globals())
    for name, value in globals().items():
        if hasattr(value, "py_func"):
            names[name] = FunctionType(value.py_func.__code__, names)
    found: Callable[[Vector, Vector], None] = names["project"]
    return found


_interpreted = [0]
"""Coordinates that were projected in plain Python so far."""


def project_sparingly(x: Vector, spec: Vector) -> None:
    """`project` called from Python: compiled once it is called so often that this pays, which an exact fit does not."""
    if _interpreted[0] > ENOUGH or getattr(project, "signatures", False):
        project(x, spec)
        return
    _interpreted[0] += x.size
    with np.errstate(all="ignore"):
        _as_written()(x, spec)
