"""A preconditioner of small rank from a small part of the record."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import eigsh, svds

from multireplay._check import Vector
from multireplay.buffer.record import Record
from multireplay.engine.extremes import Largest
from multireplay.engine.stepper import Preconditioner
from multireplay.engine.sums import fold
from multireplay.errors import InputError
from multireplay.problems.base import row_blocks
from multireplay.problems.packed import Rows, distinct, largest_square, squares, take
from multireplay.problems.residual import dense_products, refuse_overflow
from multireplay.sets import Set, WholeSpace

PREFIX = 4096
WIDE = 128
RANKS = (0, 1, 2, 4, 8, 16)
"""Ranks that "auto" chooses from."""


def choose(wanted: int | Literal["auto"] | None, record: Record, feasible: Set) -> Preconditioner:
    """The preconditioner of the rank that was asked for, or an error where it cannot be had."""
    if wanted is None:
        return none(record.dim)
    whole = isinstance(feasible, WholeSpace)
    features = hasattr(record.example, "features") and record.problem.by_feature
    if whole and record.problem.on_host and features:
        rows = record.spread(PREFIX)
        return from_sample(record.problem.samples(rows).features, wanted)
    if wanted == "auto":
        return none(record.dim)
    if not record.problem.on_host:
        raise InputError(f"precondition={wanted} is not for the batched engine; leave it out, or use NumPy arrays")
    reason = "the problem has no features" if whole else f"it does not commute with {feasible!r}"
    raise InputError(f"precondition={wanted} cannot be used here: {reason}")


def shortening(record: Record, preconditioner: Preconditioner) -> Callable[[float], float] | None:
    """What the preconditioner makes of a Lipschitz constant; a ridge in it stays, no direction is shortened for it."""
    if not preconditioner.rank:
        return None
    ridge = getattr(record.example, "ridge", None) or 0.0

    def longest(square: Callable[..., float]) -> float:
        def of(samples: Any) -> float:
            return square(samples.features, getattr(samples, "weights", None))

        return float(fold(record, Largest(record.problem, of))[0][0])

    before, after = longest(largest_square), longest(partial(shortened_square, preconditioner))
    return lambda bound: (bound - ridge) * after / before + ridge


def shortened_square(preconditioner: Preconditioner, features: Rows, weights: Vector | None = None) -> float:
    """max w_t‖P^(1/2)ψ_t‖² over the rows, in one pass."""
    rows = distinct(features) if weights is None else features
    every = np.broadcast_to(1.0, rows.shape[0]) if weights is None else weights
    largest = 0.0
    for block, weight in zip(row_blocks(rows), row_blocks(every), strict=True):
        shortened = squares(block) + ((block @ preconditioner.axes.T) ** 2) @ preconditioner.stretch
        largest = max(largest, float((weight * shortened).max()))
    return largest


def none(dim: int) -> Preconditioner:
    """The identity."""
    return Preconditioner(np.zeros((0, dim)), np.zeros(0))


def from_sample(features: Rows, rank: int | Literal["auto"]) -> Preconditioner:
    """The preconditioner of that rank from the features of 4096 samples spread evenly over the record.

    With v_k and λ_k the leading eigenvectors and eigenvalues of their second-moment matrix, P shortens v_1, …, v_rank
    to the length of the next one: stretch_k = λ_{rank+1}/λ_k − 1. What limits the step is then the longest of the rows
    P^(1/2)ψ; "auto" takes the rank for which its square, times 1 + rank/4 for what the rank costs, is smallest.
    """
    length, dim = features.shape
    if rank != "auto" and rank >= dim:
        raise InputError(f"precondition={rank} needs more than {rank} features; there are {dim}")
    if dim < 2 or length < 2:
        return none(dim)
    sample = take(features, slice(None))
    refuse_overflow(sample)
    places = np.unique(sample.indices) if issparse(sample) else None
    sample = sample if places is None else sample[:, places]  # what does not occur has no part in an axis
    most = max(RANKS) if rank == "auto" else rank
    moments, axes = _leading(sample, most + 1)
    if not moments.size or not moments[0] > 0:  # no feature occurs at all
        return none(dim)
    chosen = _best_rank(sample, moments, axes) if rank == "auto" else rank
    if chosen >= len(moments) or not moments[chosen] > 0:
        return none(dim)
    stretch = moments[chosen] / moments[:chosen] - 1
    whole = np.zeros((chosen, dim))
    whole[:, slice(None) if places is None else places] = axes[:chosen]
    return Preconditioner(whole, stretch)


def _best_rank(sample: Rows, moments: Vector, axes: Vector) -> int:
    """The rank whose longest shortened row is shortest, weighed by its cost."""
    lengths, along = squares(sample), (sample @ axes.T) ** 2
    costs = {}
    for rank in RANKS:
        if rank < len(moments) and moments[rank] > 1e-12 * moments[0]:
            longest = (lengths + along[:, :rank] @ (moments[rank] / moments[:rank] - 1)).max()
            costs[rank] = float(longest) * (1 + rank / 4)
    return min(costs, key=lambda rank: costs[rank], default=0)


def _leading(sample: Rows, count: int) -> tuple[Vector, Vector]:
    """The largest eigenvalues of the second-moment matrix and their eigenvectors, by rows, in falling order."""
    length, dim = sample.shape
    count = min(count, length, dim)
    if issparse(sample) and dim > max(length, WIDE):
        return _leading_of_wide(sample, count)
    if 4 * count >= min(length, dim) or dim <= WIDE:
        values, vectors = np.linalg.eigh(dense_products(sample, sample) / length)
        return np.maximum(values[::-1][:count], 0.0), np.asarray(vectors.T[::-1][:count])
    _, singular, axes = svds(sample, k=count, v0=np.ones(min(length, dim)), return_singular_vectors="vh")
    falling = np.argsort(singular)[::-1]
    return np.asarray(singular[falling] ** 2 / length), np.asarray(axes[falling])


def _leading_of_wide(sample: Rows, count: int) -> tuple[Vector, Vector]:
    """`_leading` of more sparse features than rows, from the products of the rows with each other."""
    between = sample @ sample.T
    if 4 * count >= sample.shape[0]:
        values, vectors = np.linalg.eigh(between.toarray())
    else:
        values, vectors = eigsh(between, k=count, v0=np.ones(sample.shape[0]))
    falling = np.argsort(values)[::-1][:count]
    found = values[falling] > 1e-14 * max(values.max(), 0.0)
    singular, left = np.sqrt(values[falling][found]), vectors[:, falling[found]]
    return np.asarray(singular**2 / sample.shape[0]), np.asarray((sample.T @ left / singular).T)
