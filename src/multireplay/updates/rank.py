"""What a record says nothing of: a basis of the directions that it does know, and the others by name."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.extremes import SecondMoments
from multireplay.engine.sums import Folding, fold
from multireplay.problems.residual import refuse_overflow
from multireplay.updates.slope import Slope

ENOUGH = 1e-6
"""Second moments in a basis with no eigenvalue below this are known to ten digits: the basis need not be bettered."""
LEAST = 1e-14
"""Eigenvalues below this share of the largest are rounding: the next pass tells how small they are."""
PASSES = 4
PART = 1e-4
"""A coordinate has part in a free direction where it is more than this share of the largest in it."""
SHOWN = 4
"""Directions by chance that stand for all that few rows leave free: what has part in some has part in each of these."""


@dataclass(frozen=True, eq=False)
class Known:
    """A basis B in which the known directions of the features have second moments of about 1, and the free ones."""

    basis: Vector
    free: Vector
    """The others, a row each: x may be moved along them without any change."""
    scale: Vector
    """Units in which all features are of one size."""
    passes: int
    span: Vector | None = None
    """An orthonormal basis of what few rows span, a column each: then `free` has some directions that stand for all."""
    told: str = ""
    """How many directions these leave free, in words."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The coordinates that have part in the free directions, in groups that share none."""
        groups: list[set[int]] = []
        for direction in np.abs(self.free / self.scale):
            here = set(np.flatnonzero(direction > PART * direction.max()).tolist())
            if self.span is not None and not self.span[list(here)].any():
                groups += [{column} for column in here if {column} not in groups]  # never active, each by itself
                continue
            apart = [group for group in groups if not group & here]
            groups = [*apart, here.union(*(group for group in groups if group & here))]
        return tuple(sorted(tuple(sorted(group)) for group in groups))

    def shortest(self, points: Vector) -> Vector:
        """Each row of points without its part in the free directions, so that it is the shortest there is."""
        if not len(self.free):
            return points
        if self.span is not None:
            return np.asarray((points @ self.span) @ self.span.T)
        inside = np.linalg.qr(self.free.T)[0]
        return np.asarray(points - (points @ inside) @ inside.T)

    @property
    def unknown(self) -> Vector:
        """The free directions, with 0 for coordinates that have no part in them."""
        sizes = np.abs(self.free / self.scale)
        return np.where(sizes > PART * sizes.max(axis=1, keepdims=True, initial=0.0), self.free, 0.0)


class SlopeIn(Slope):
    """B(BᵀJB)⁻¹Bᵀ: the inverse of J on the directions of a basis B, and 0 on the others. `matrix` is BᵀJB."""

    def __init__(self, matrix: Vector, basis: Vector) -> None:
        super().__init__(matrix, np.ones(len(matrix)))
        lengths = np.linalg.norm(basis, axis=1)
        self.basis, self.scale = basis, np.where(lengths > 0, lengths, 1.0)

    def solve(self, values: Vector) -> Vector:
        return self.images(values @ self.basis)

    def images(self, values: Vector, inside: bool = False) -> Vector:
        found = self.divide(values.T).T
        return found if inside else np.asarray(found @ self.basis.T)


def known_directions(record: Record, how: Folding) -> Known:
    """The directions of the features that the record knows, to the last digit that the features have.

    Second moments have twice the digits of a direction in their condition number: near collinearity that is there in
    the features is lost in them. So the eigenvectors of one pass are the basis of the next, in which what was small
    is large (as Cholesky QR with shifts; Fukaya et al. 2020), until nothing new is found. A penalty counts.
    """
    dim, eps = record.dim, np.finfo(np.float64).eps
    penalty = record.problem.penalty_diagonal(dim)
    moments = fold(record, SecondMoments(record.problem, dim), how=how)[0][0] / record.length + np.diag(penalty)
    sizes = np.sqrt(np.diag(moments))
    active, scale = sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0)
    basis, free, passes = np.diag(scale)[:, active], [np.eye(dim)[:, ~active]], 1
    moments = (scale[:, None] * moments * scale)[np.ix_(active, active)]
    while basis.size:
        values, vectors = np.linalg.eigh(moments)
        directions = basis @ vectors
        lengths = np.linalg.norm(directions / scale[:, None], axis=0)
        most = np.sqrt(np.maximum(values, 0.0) + dim * eps * values[-1]) / lengths  # that rounding lets it be
        live = most > 8 * dim * eps
        free.append((directions / scale[:, None] / lengths)[:, ~live])
        values, basis = values[live], directions[:, live] / np.sqrt(np.maximum(values, LEAST * values[-1]))[live]
        if not live.any() or values[0] >= ENOUGH * values[-1] or passes == PASSES:
            break
        moments = fold(record, SecondMoments(record.problem, basis.shape[1], basis), how=how)[0][0] / record.length
        moments += basis.T @ (penalty[:, None] * basis)
        passes += 1
    outside = np.linalg.qr(np.concatenate(free, axis=1))[0]
    inside = basis / scale[:, None]
    inside = inside - outside @ (outside.T @ inside)  # what rounding has left of the free directions in the others
    found = Known(scale[:, None] * inside, _sparse_basis(outside.T) * scale, scale, passes)
    return replace(found, basis=found.shortest(found.basis.T).T)  # next features may see the free ones


def _sparse_basis(directions: Vector) -> Vector:
    """These directions after elimination, so that each has part of as few coordinates as that gives."""
    rows = directions.copy()
    for at in range(len(rows)):
        rest = np.abs(rows[at:])
        row, column = divmod(int(rest.argmax()), rest.shape[1])
        rows[[at, at + row]] = rows[[at + row, at]]
        rows[at] /= rows[at, column]
        others = np.arange(len(rows)) != at
        rows[others] -= np.outer(rows[others, column], rows[at])
    return rows


def spanned_by_rows(record: Record) -> Known:
    """The directions that few rows span, by their singular values, at O(n²d); a penalty settles all the others at 0.

    A fit with a penalty λx = −Σ_t ψ_t r_t has part in no other direction, but for coordinates that the penalty leaves
    out.
    """
    columns = record.take(np.arange(record.length))
    rows, width = np.asarray(columns["features"], dtype=np.float64), columns["features"].shape[1]
    if "weights" in columns:
        rows = rows * np.sqrt(columns["weights"])[:, None]
    penalty = record.problem.penalty_diagonal(record.dim)[:width]
    held = penalty > 0 if penalty.any() else np.ones(width, dtype=bool)
    with np.errstate(over="ignore"):
        sizes = np.sqrt(np.mean(rows**2, axis=0))
    if not np.isfinite(sizes).all():
        refuse_overflow(rows)
    active, scale = held & (sizes > 0), 1 / np.where((sizes > 0) & (penalty == 0), sizes, 1.0)
    _, values, vectors = np.linalg.svd(rows[:, active] * scale[active] / np.sqrt(record.length), full_matrices=False)
    live = values > 8 * width * np.finfo(np.float64).eps * values.max(initial=0.0)
    found, directions = np.zeros((width, int(live.sum()))), vectors[live].T
    found[active] = scale[active, None] * directions / np.sqrt(values[live] ** 2 + penalty.max())
    outside = np.zeros((width, int((~held).sum())))
    outside[~held] = np.diag(scale[~held])
    free, span = np.zeros((0, width)), np.zeros_like(found)
    if not penalty.any():
        span[active] = np.linalg.qr(directions / scale[active, None])[0]
        free = scale * _some_outside(directions, active)
    copies = record.dim // width
    lost = f"{(width - found.shape[1]) * copies:,} of the {record.dim:,} directions"
    basis, free, span = (
        np.asarray(np.kron(np.eye(copies), part), dtype=np.float64)
        for part in (np.concatenate([found, outside], axis=1), free, span)
    )
    told = f"{lost} are not determined by {record.length} rows"
    known = Known(basis, free, np.tile(scale, copies), 1, span, told)
    return known if penalty.any() else replace(known, basis=known.shortest(basis.T).T)


def _some_outside(directions: Vector, active: NDArray[np.bool_]) -> Vector:
    """Some directions that rows have no part in: through all active features, and through all others."""
    drawn = np.random.default_rng(0).standard_normal((2 * SHOWN, len(active)))
    through = np.where(active, drawn[:SHOWN], 0.0), np.where(active, 0.0, drawn[SHOWN:])
    through[0][:, active] -= (through[0][:, active] @ directions) @ directions.T
    return np.concatenate([part for part, some in zip(through, (active, ~active), strict=True) if some.any()])
