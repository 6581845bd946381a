"""The directions that rows of features have part in, found on the rows themselves, to the last digit that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.problems.base import row_blocks
from multireplay.problems.packed import IndexedRows, Rows

CLOSE_TO_SINGULAR = 1e-8
"""A matrix with a smaller reciprocal condition number has lost half of the digits of the features in it."""


@dataclass(frozen=True, eq=False)
class Directions:
    """A basis B in which features are uncorrelated and of size 1, and the directions without any, of length 1."""

    basis: Vector
    free: Vector

    def shortest(self, z: Vector) -> Vector:
        """x = Bz without its part in the free directions, so that it is the shortest there is."""
        x = self.basis @ z
        return np.asarray(x - self.free @ (self.free.T @ x))


def directions_of(rows: Rows, weights: Vector | None, scale: Vector, penalty: Vector) -> Directions:
    """The directions of these rows, and of a penalty, in units of `scale`, by QR and singular values.

    QR of one block of rows after the other keeps no more than a triangle of them.
    """
    triangle, dim = np.diag(np.sqrt(penalty) / scale), len(scale)
    if isinstance(rows, IndexedRows):
        rows, weights = rows.table, np.bincount(rows.index, minlength=rows.table.shape[0]).astype(np.float64)
        count = weights.sum()
    else:
        count = rows.shape[0]
    roots = np.sqrt((np.ones(rows.shape[0]) if weights is None else weights) / count)
    for block, root in zip(row_blocks(rows), row_blocks(roots), strict=True):
        dense: Any = block.toarray() if issparse(block) else block
        triangle = np.asarray(np.linalg.qr(np.concatenate([triangle, root[:, None] * (dense / scale)]), mode="r"))
    active = np.flatnonzero(triangle.any(axis=0))
    _, sizes, known = np.linalg.svd(triangle[:, active])
    live = sizes > 8 * dim * np.finfo(np.float64).eps * sizes.max(initial=1.0)
    basis, open_ones = np.zeros((dim, live.sum())), np.zeros((dim, (~live).sum()))
    basis[active] = known[live].T / sizes[live] / scale[active, None]
    open_ones[active] = known[~live].T / scale[active, None]
    never = np.delete(np.eye(dim), active, axis=1)
    free = np.concatenate([np.linalg.qr(open_ones)[0], never], axis=1)
    return Directions(basis - free @ (free.T @ basis), free)  # what features do not see, next features may


def is_nearly_singular(matrix: Vector) -> bool:
    """Whether a matrix is singular or nearly so in any units of its rows and columns; not if it is not finite."""
    sizes = np.abs(matrix).max(axis=1, keepdims=True)
    scaled = matrix / np.where(sizes > 0, sizes, 1.0)
    sizes = np.abs(scaled).max(axis=0)
    scaled = scaled / np.where(sizes > 0, sizes, 1.0)
    if not np.isfinite(scaled).all():
        return False
    values = np.linalg.svd(scaled, compute_uv=False)
    return bool(values[-1] <= CLOSE_TO_SINGULAR * values[0])
