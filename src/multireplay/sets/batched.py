"""Projections of many points at once, one a row, on arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from multireplay.buffer.foreign import Array, describe, like, namespace, row_dots
from multireplay.errors import InputError
from multireplay.sets.base import Set
from multireplay.sets.elementary import Ball, Box, Halfspace, L1Ball, NonNegative, Simplex, WholeSpace
from multireplay.sets.product import Product

Projection: TypeAlias = Callable[[Array], Array]


def batched_projection(constraint: Set, dim: int, point: Array) -> Projection:
    """The function that takes an array of shape (lanes, dim) to the nearest points of the set, row by row.

    The built-in sets are written in the operations of the array API standard, so that they run where the points lie;
    a set of the user's is called once a row, which only NumPy allows. As in the projection of one point, nan is never
    projected away. The array given may be changed or returned as it is.

    Parameters
    ----------
    constraint
        The set.
    dim
        The dimension of the points.
    point
        Any array of the library, type and device that the points will have.

    Raises
    ------
    InputError
        If the set has no points of this dimension, or is the user's own and the points are not in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.sets import Simplex
    >>> X = np.array([[0.9, 0.5, -3.0], [0.2, 0.3, 0.5]])
    >>> batched_projection(Simplex(), 3, X)(X)
    array([[0.7, 0.3, 0. ],
           [0.2, 0.3, 0.5]])
    """
    constraint.spec(dim)  # checks the dimension
    make = _MAKERS.get(type(constraint))
    if make is not None:
        return make(constraint, dim, point)
    if isinstance(point, np.ndarray):
        return _row_by_row(constraint)
    raise InputError(
        f"{constraint!r} is a plain Python set, which projects one NumPy vector at a time; with arrays of "
        f"{describe(point)} use one of the built-in sets, or give the columns as NumPy arrays"
    )


def _whole(constraint: WholeSpace, dim: int, point: Array) -> Projection:
    return lambda X: X


def _nonnegative(constraint: NonNegative, dim: int, point: Array) -> Projection:
    xp, zero = namespace(point), like(np.zeros(()), point)
    return lambda X: xp.maximum(X, zero)


def _box(constraint: Box, dim: int, point: Array) -> Projection:
    xp = namespace(point)
    lower = like(np.broadcast_to(constraint.lower, dim), point)
    upper = like(np.broadcast_to(constraint.upper, dim), point)
    return lambda X: xp.minimum(xp.maximum(X, lower), upper)


def _ball(constraint: Ball, dim: int, point: Array) -> Projection:
    xp, radius = namespace(point), constraint.radius
    center = like(np.zeros(dim) if constraint.center is None else constraint.center, point)

    def project(X: Array) -> Array:
        away = X - center
        peak = xp.max(xp.abs(away), axis=1, keepdims=True)  # in units of it squares neither over- nor underflow
        unit = away / xp.where(peak > 0, peak, xp.ones_like(peak))
        norm = xp.sqrt(row_dots(xp, unit, unit))[:, None]
        return xp.where(peak * norm > radius, center + unit * (radius / norm), X)

    return project


def _halfspace(constraint: Halfspace, dim: int, point: Array) -> Projection:
    xp = namespace(point)
    encoded = constraint.spec(dim)
    offset, square, normal = float(encoded[1]), float(encoded[2]), like(encoded[3:], point)
    edge = offset / square * normal

    def project(X: Array) -> Array:
        height = X @ normal
        inner = X - (height / square)[:, None] * normal
        inner = inner - (inner @ normal / square)[:, None] * normal  # what rounding left of the normal part
        return xp.where((height > offset)[:, None], inner + edge, X)

    return project


def _simplex(constraint: Simplex, dim: int, point: Array) -> Projection:
    pour = _pour(constraint.total, dim, point)
    xp = namespace(point)
    return lambda X: pour(X - xp.max(X, axis=1, keepdims=True))


def _l1_ball(constraint: L1Ball, dim: int, point: Array) -> Projection:
    xp, pour = namespace(point), _pour(constraint.radius, dim, point)

    def project(X: Array) -> Array:
        size = xp.abs(X)
        onto = xp.sign(X) * pour(size - xp.max(size, axis=1, keepdims=True))
        return xp.where(xp.sum(size, axis=1, keepdims=True) > constraint.radius, onto, X)

    return project


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


def _product(constraint: Product, dim: int, point: Array) -> Projection:
    xp = namespace(point)
    parts: list[tuple[slice, Projection]] = []
    start = 0
    for factor, width in constraint.factors:
        parts.append((slice(start, start + width), batched_projection(factor, width, point)))
        start += width
    return lambda X: xp.concat([project(X[:, part]) for part, project in parts], axis=1)


def _row_by_row(constraint: Set) -> Projection:
    def project(X: Array) -> Array:
        return np.stack([constraint.projected(row) for row in X]).astype(X.dtype, copy=False)

    return project


_MAKERS: dict[type[Set], Callable[[Any, int, Array], Projection]] = {
    WholeSpace: _whole,
    NonNegative: _nonnegative,
    Box: _box,
    Ball: _ball,
    Halfspace: _halfspace,
    Simplex: _simplex,
    L1Ball: _l1_ball,
    Product: _product,
}
