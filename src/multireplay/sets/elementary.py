"""The feasible sets whose projection is one formula."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multireplay._check import Vector, whole_number
from multireplay.errors import InputError
from multireplay.sets import projections
from multireplay.sets.base import (
    BuiltInSet,
    finite,
    frozen_vector,
    number,
    positive,
    same_dimension,
)


class WholeSpace(BuiltInSet):
    """All of R^d: no constraint.

    Examples
    --------
    >>> WholeSpace().projected([3.0, -4.0])
    array([ 3., -4.])
    """

    def spec(self, dim: int) -> Vector:
        whole_number("WholeSpace: dim", dim, least=1)
        return np.array([projections.WHOLE], dtype=np.float64)

    def _project(self, x: Vector) -> None:
        self.check(x.size)

    def check(self, dim: int) -> None:
        """There is nothing to try, only the dimension."""
        whole_number("WholeSpace: dim", dim, least=1)


class NonNegative(BuiltInSet):
    """The vectors without a negative entry, {x : x_i ≥ 0}.

    Examples
    --------
    >>> NonNegative().projected([3.0, -4.0])
    array([3., 0.])
    """

    def spec(self, dim: int) -> Vector:
        whole_number("NonNegative: dim", dim, least=1)
        return np.array([projections.NONNEGATIVE], dtype=np.float64)

    def _project(self, x: Vector) -> None:
        whole_number("NonNegative: dim", x.size, least=1)
        x[x < 0.0] = 0.0


class Ball(BuiltInSet):
    """The Euclidean ball {x : ‖x − center‖₂ ≤ radius}.

    Parameters
    ----------
    radius
        A positive finite number.
    center
        A finite vector; None is the origin, in any dimension.

    Examples
    --------
    >>> Ball(1.0).projected([3.0, -4.0])
    array([ 0.6, -0.8])
    >>> Ball(1.0, center=[3.0, 0.0]).projected([3.0, -4.0])
    array([ 3., -1.])
    """

    radius: float
    center: Vector | None

    def __init__(self, radius: float, center: ArrayLike | None = None) -> None:
        self._keep(
            radius=positive(radius, "Ball: radius"),
            center=None if center is None else frozen_vector(center, "Ball: center", finite=True),
        )

    def spec(self, dim: int) -> Vector:
        if self.center is None:
            center = np.zeros(whole_number("Ball: dim", dim, least=1))
        else:
            same_dimension(dim, self.center.size, f"Ball with a center of {self.center.size} entries")
            center = self.center
        return np.concatenate(([projections.BALL, self.radius], center))


class Box(BuiltInSet):
    """The box {x : lower_i ≤ x_i ≤ upper_i}.

    Parameters
    ----------
    lower, upper
        A number, which bounds every entry in any dimension, or a vector. A lower bound may be −inf, an upper
        bound inf.

    Examples
    --------
    >>> Box(-1.0, 1.0).projected([3.0, -4.0, 0.5])
    array([ 1. , -1. ,  0.5])
    >>> Box([0.0, -np.inf], 2.0).projected([-3.0, -4.0])
    array([ 0., -4.])
    """

    lower: float | Vector
    upper: float | Vector

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low = _bound(lower, "Box: lower")
        high = _bound(upper, "Box: upper")
        if isinstance(low, np.ndarray) and isinstance(high, np.ndarray) and low.size != high.size:
            raise InputError(
                f"Box: lower has {low.size} entries and upper {high.size}, but they must have equally many."
            )
        lows, highs = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
        for index in np.flatnonzero((lows > highs) | (lows == np.inf) | (highs == -np.inf)):
            a, b = lows[index], highs[index]
            raise InputError(f"Box: no number lies between lower[{index}] = {a} and upper[{index}] = {b}.")
        self._keep(lower=low, upper=high)

    def spec(self, dim: int) -> Vector:
        dim = whole_number("Box: dim", dim, least=1)
        for bound, name in ((self.lower, "lower"), (self.upper, "upper")):
            if isinstance(bound, np.ndarray):
                same_dimension(dim, bound.size, f"Box with {name} bounds for {bound.size} entries")
        encoded = np.empty(1 + 2 * dim)
        encoded[0] = projections.BOX
        encoded[1 : 1 + dim] = self.lower
        encoded[1 + dim :] = self.upper
        return encoded

    def _project(self, x: Vector) -> None:
        lower, upper = self.spec(x.size)[1:].reshape(2, -1)
        np.copyto(x, lower, where=x < lower)
        np.copyto(x, upper, where=x > upper)


class Halfspace(BuiltInSet):
    """The halfspace {x : ⟨normal, x⟩ ≤ offset}.

    Parameters
    ----------
    normal
        A finite vector that is not zero; its length does not matter but for the offset.
    offset
        A finite number.

    Examples
    --------
    >>> Halfspace([1.0, 1.0], 2.0).projected([3.0, 5.0])
    array([0., 2.])
    >>> Halfspace([1.0, 1.0], 2.0).projected([-3.0, 5.0])
    array([-3.,  5.])
    """

    normal: Vector
    offset: float

    def __init__(self, normal: ArrayLike, offset: float) -> None:
        direction = frozen_vector(normal, "Halfspace: normal", finite=True)
        if not direction.any():
            raise InputError(f"Halfspace: normal must not be zero, but all its {direction.size} entries are 0.")
        self._keep(normal=direction, offset=finite(offset, "Halfspace: offset"))
        if not np.isfinite(self.spec(direction.size)[1]):
            raise InputError(
                f"Halfspace: offset = {self.offset} divided by the length of normal is beyond the "
                f"floating-point range; the halfspace is everything or nothing."
            )

    def spec(self, dim: int) -> Vector:
        same_dimension(dim, self.normal.size, f"Halfspace with a normal of {self.normal.size} entries")
        # By a power of two, which rounds nothing, so that squares of the largest entries keep in range.
        exponent = int(np.frexp(np.abs(self.normal).max())[1])
        normal = np.ldexp(self.normal, -exponent)
        with np.errstate(over="ignore"):
            offset = np.ldexp(self.offset, -exponent)
        return np.concatenate(([projections.HALFSPACE, offset, normal @ normal], normal))


class Simplex(BuiltInSet):
    """The simplex {x : x_i ≥ 0, Σ x_i = total}; the probability vectors for total = 1.

    Parameters
    ----------
    total
        A positive finite number.

    Examples
    --------
    >>> Simplex().projected([0.9, 0.5, -3.0])
    array([0.7, 0.3, 0. ])
    >>> Simplex(total=3.0).projected([0.0, 0.0])
    array([1.5, 1.5])
    """

    total: float

    def __init__(self, total: float = 1.0) -> None:
        self._keep(total=positive(total, "Simplex: total"))

    def spec(self, dim: int) -> Vector:
        whole_number("Simplex: dim", dim, least=1)
        return np.array([projections.SIMPLEX, self.total], dtype=np.float64)


class L1Ball(BuiltInSet):
    """The cross-polytope {x : Σ |x_i| ≤ radius}, whose projections are sparse.

    Parameters
    ----------
    radius
        A positive finite number.

    Examples
    --------
    >>> L1Ball(2.0).projected([2.5, -1.0, 0.25])
    array([ 1.75, -0.25,  0.  ])
    >>> L1Ball(2.0).projected([0.5, -1.0, 0.25])
    array([ 0.5 , -1.  ,  0.25])
    """

    radius: float

    def __init__(self, radius: float = 1.0) -> None:
        self._keep(radius=positive(radius, "L1Ball: radius"))

    def spec(self, dim: int) -> Vector:
        whole_number("L1Ball: dim", dim, least=1)
        return np.array([projections.L1_BALL, self.radius], dtype=np.float64)


def _bound(values: ArrayLike, what: str) -> float | Vector:
    """Return a bound of a box: a float if it is one number, a read-only vector otherwise."""
    return number(values, what) if np.ndim(values) == 0 else frozen_vector(values, what)
