"""The feasible sets whose projection is one formula."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multireplay._check import Vector, whole_number
from multireplay.buffer.foreign import Array, like, namespace, row_dots
from multireplay.errors import InputError
from multireplay.sets import projections
from multireplay.sets.base import BuiltInSet, Projection, frozen_vector, number, same_dimension


class NonNegative(BuiltInSet):
    """The vectors without a negative entry, {x : x_i ≥ 0}.

    Examples
    --------
    >>> NonNegative().projected([3.0, -4.0])
    array([3., 0.])
    """

    code = projections.NONNEGATIVE

    def _project(self, x: Vector) -> None:
        self.spec(x.size)
        x[x < 0.0] = 0.0

    def derivative(self, x: Vector) -> Vector:
        return np.diag((x > 0.0).astype(np.float64))

    def in_units(self, scale: Vector) -> NonNegative:
        return self

    def rowwise(self, dim: int, point: Array) -> Projection:
        self.spec(dim)
        xp, zero = namespace(point), like(np.zeros(()), point)
        return lambda X: xp.maximum(X, zero)


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
            radius=number(radius, "Ball: radius", "positive finite number"),
            center=None if center is None else frozen_vector(center, "Ball: center", finite=True),
        )

    def spec(self, dim: int) -> Vector:
        if self.center is None:
            center = np.zeros(whole_number("Ball: dim", dim, least=1))
        else:
            same_dimension(dim, self.center.size, f"Ball with a center of {self.center.size} entries")
            center = self.center
        return np.concatenate(([projections.BALL, self.radius], center))

    def derivative(self, x: Vector) -> Vector:
        away = x - self.spec(x.size)[2:]
        norm = float(np.linalg.norm(away))
        return _tangent(away) * (self.radius / norm) if norm > self.radius else np.eye(x.size)

    def rowwise(self, dim: int, point: Array) -> Projection:
        xp, radius, center = namespace(point), self.radius, like(self.spec(dim)[2:], point)

        def project(X: Array) -> Array:
            away = X - center
            peak = xp.max(xp.abs(away), axis=1, keepdims=True)  # in units of it squares neither over- nor underflow
            unit = away / xp.where(peak > 0, peak, xp.ones_like(peak))
            norm = xp.sqrt(row_dots(xp, unit, unit))[:, None]
            return xp.where(peak * norm > radius, center + unit * (radius / norm), X)

        return project


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

    def derivative(self, x: Vector) -> Vector:
        lower, upper = self.spec(x.size)[1:].reshape(2, -1)
        return np.diag(((lower < x) & (x < upper)).astype(np.float64))

    def in_units(self, scale: Vector) -> Box:
        return Box(self.lower / scale, self.upper / scale)

    def rowwise(self, dim: int, point: Array) -> Projection:
        xp = namespace(point)
        lower, upper = (like(bound, point) for bound in self.spec(dim)[1:].reshape(2, -1))
        return lambda X: xp.minimum(xp.maximum(X, lower), upper)


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
        self._keep(normal=direction, offset=number(offset, "Halfspace: offset", "finite number"))
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

    def derivative(self, x: Vector) -> Vector:
        encoded = self.spec(x.size)
        return _tangent(encoded[3:]) if encoded[3:] @ x > encoded[1] else np.eye(x.size)

    def in_units(self, scale: Vector) -> Halfspace:
        return Halfspace(self.normal * scale, self.offset)

    def rowwise(self, dim: int, point: Array) -> Projection:
        xp, encoded = namespace(point), self.spec(dim)
        offset, square, normal = float(encoded[1]), float(encoded[2]), like(encoded[3:], point)
        edge = offset / square * normal

        def project(X: Array) -> Array:
            height = X @ normal
            inner = X - (height / square)[:, None] * normal
            inner = inner - (inner @ normal / square)[:, None] * normal  # what rounding left of the normal part
            return xp.where((height > offset)[:, None], inner + edge, X)

        return project


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

    code = projections.SIMPLEX
    total: float

    def __init__(self, total: float = 1.0) -> None:
        self._keep(total=number(total, "Simplex: total", "positive finite number"))

    def derivative(self, x: Vector) -> Vector:
        return _face(np.sign(self.projected(x)))

    def rowwise(self, dim: int, point: Array) -> Projection:
        self.spec(dim)
        xp, pour = namespace(point), _pour(self.total, dim, point)
        return lambda X: pour(X - xp.max(X, axis=1, keepdims=True))


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

    code = projections.L1_BALL
    radius: float

    def __init__(self, radius: float = 1.0) -> None:
        self._keep(radius=number(radius, "L1Ball: radius", "positive finite number"))

    def derivative(self, x: Vector) -> Vector:
        return _face(np.sign(self.projected(x))) if np.abs(x).sum() > self.radius else np.eye(x.size)

    def rowwise(self, dim: int, point: Array) -> Projection:
        self.spec(dim)
        xp, pour = namespace(point), _pour(self.radius, dim, point)

        def project(X: Array) -> Array:
            size = xp.abs(X)
            onto = xp.sign(X) * pour(size - xp.max(size, axis=1, keepdims=True))
            return xp.where(xp.sum(size, axis=1, keepdims=True) > self.radius, onto, X)

        return project


def _bound(values: ArrayLike, what: str) -> float | Vector:
    """Return a bound of a box: a float if it is one number, a read-only vector otherwise."""
    return number(values, what) if np.ndim(values) == 0 else frozen_vector(values, what)


def _tangent(normal: Vector) -> Vector:
    """The projection on the directions orthogonal to a vector."""
    unit = normal / np.linalg.norm(normal)
    return np.asarray(np.eye(unit.size) - np.outer(unit, unit))


def _face(signs: Vector) -> Vector:
    """The projection on a face of the simplex or the cross-polytope, where entries without a sign stay 0."""
    return np.asarray(np.diag(np.abs(signs)) - np.outer(signs, signs) / (signs @ signs))


def _pour(total: float, dim: int, point: Array) -> Projection:
    """The projection on the simplex of points whose largest entry is 0.

    It is max(x − θ, 0) with θ = max_k (u_1 + … + u_k − total)/k over the entries u_1 ≥ u_2 ≥ … in falling order: the
    mean of k entries minus its share of the total grows as long as the next entry lies above the θ so far.
    """
    xp = namespace(point)
    counts, zero = like(np.arange(1.0, dim + 1), point), like(np.zeros(()), point)

    def pour(X: Array) -> Array:
        falling = xp.sort(X, axis=1, descending=True)
        level = xp.max((xp.cumulative_sum(falling, axis=1) - total) / counts, axis=1, keepdims=True)
        water = xp.maximum(X - level, zero)
        wet = xp.astype(water > 0, X.dtype)
        # The level is rounded at its own size, which may be far above the water in most entries: spread the rest.
        rest = (total - xp.sum(water, axis=1, keepdims=True)) / xp.sum(wet, axis=1, keepdims=True)
        return xp.maximum(water + rest * wet, zero)

    return pour
