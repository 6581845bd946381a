"""Sets that constrain one block of the variables each."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from multireplay._check import Vector, whole_number
from multireplay.buffer.foreign import Array, namespace
from multireplay.errors import InputError
from multireplay.sets import projections
from multireplay.sets.base import BuiltInSet, Projection, Set, same_dimension


class Product(BuiltInSet):
    """The Cartesian product of sets: the first block of entries in the first set, and so on.

    Parameters
    ----------
    *factors
        Pairs ``(set, dim)``: each set with the number of entries it constrains. A product among them is
        replaced by its own factors. If one of the sets is yours and has no spec, neither has the product.

    Examples
    --------
    >>> from multireplay.sets import Ball, NonNegative
    >>> both = Product((Ball(1.0), 2), (NonNegative(), 1))
    >>> both.projected([3.0, -4.0, -7.0])
    array([ 0.6, -0.8,  0. ])
    >>> both
    Product((Ball(radius=1.0), 2), (NonNegative(), 1))
    """

    factors: tuple[tuple[Set, int], ...]

    def __init__(self, *factors: tuple[Set, int]) -> None:
        if not factors:
            raise InputError("Product: factors must hold at least one pair (set, dim), but there is none.")
        flat: list[tuple[Set, int]] = []
        for position, factor in enumerate(factors):
            flat.extend(_flattened(factor, f"Product: factors[{position}]"))
        self._keep(factors=tuple(flat))

    @property
    def dim(self) -> int:
        """The dimension of the product, the sum of its factors' dimensions."""
        return sum(dim for _, dim in self.factors)

    def _blocks(self, dim: int) -> list[tuple[Set, int, slice]]:
        """Every factor with its dimension and the place of its entries, in a point of the product's own dimension."""
        same_dimension(dim, self.dim, f"Product of {len(self.factors)} factors")
        ends = accumulate(width for _, width in self.factors)
        return [(one, width, slice(end - width, end)) for (one, width), end in zip(self.factors, ends, strict=True)]

    def spec(self, dim: int) -> Vector | None:  # type: ignore[override]
        parts = [np.array([projections.PRODUCT, len(self.factors)], dtype=np.float64)]
        for factor, width, _ in self._blocks(dim):
            encoded = factor.spec(width)
            if encoded is None:
                return None
            parts += [np.array([width, encoded.size], dtype=np.float64), encoded]
        return np.concatenate(parts)

    def _project(self, x: Vector) -> None:
        for factor, _, part in self._blocks(x.size):
            factor.project(x[part])

    def derivative(self, x: Vector) -> Vector:
        return np.asarray(block_diag(*(factor.derivative(x[part]) for factor, _, part in self._blocks(x.size))))

    def in_units(self, scale: Vector) -> Product | None:
        parts = [(factor.in_units(scale[part]), width) for factor, width, part in self._blocks(len(scale))]
        known = [(one, width) for one, width in parts if one is not None]
        return Product(*known) if len(known) == len(parts) else None

    def check(self, dim: int) -> None:
        for factor, width, _ in self._blocks(dim):
            factor.check(width)

    def rowwise(self, dim: int, point: Array) -> Projection:
        xp = namespace(point)
        made = [(factor.rowwise(width, point), part) for factor, width, part in self._blocks(dim)]
        return lambda X: xp.concat([project(X[:, part]) for project, part in made], axis=1)

    def _arguments(self) -> tuple[Any, ...]:
        return self.factors

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"


def _flattened(factor: tuple[Set, int], what: str) -> tuple[tuple[Set, int], ...]:
    """Check one factor, and open it if it is a product itself."""
    if not (isinstance(factor, tuple | list) and len(factor) == 2 and isinstance(factor[0], Set)):
        raise InputError(f"{what} must be a pair (set, dim), but is {factor!r}.")
    constraint, dim = factor[0], whole_number(f"{what}: dim", factor[1], least=1)
    try:
        constraint.spec(dim)
    except InputError as error:
        raise InputError(f"{what} does not fit: {error}") from error
    return constraint.factors if isinstance(constraint, Product) else ((constraint, dim),)
