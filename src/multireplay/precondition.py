"""A preconditioner of small rank from a small part of the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from multireplay.errors import InputError
from multireplay.problems.base import row_blocks
from multireplay.replay.dyadic import dyadic_order

Vector = NDArray[np.float64]
PREFIX = 4096
LONG = 10.0
"""The first direction is shortened automatically where its second moment is this many times the next one's."""


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P = I + Σ_k stretch_k a_k a_kᵀ with orthonormal axes a_k: it shortens the directions in which features are long.

    A step x ← x − ηP F̃(x, ξ) is a plain step in the variables z = P^(−1/2)x on the rows P^(1/2)ψ; done this way it
    needs no copy of the rows, and the iterate stays in the original variables.
    """

    axes: Vector
    stretch: Vector

    @property
    def rank(self) -> int:
        """Number of directions that are shortened."""
        return len(self.stretch)

    def apply(self, value: Vector) -> Vector:
        """P times a vector."""
        return np.asarray(value + self.axes.T @ (self.stretch * (self.axes @ value)))

    def root(self) -> Vector:
        """P^(1/2)."""
        return np.asarray(np.eye(self.axes.shape[1]) + (self.axes.T * (np.sqrt(1 + self.stretch) - 1)) @ self.axes)

    def largest_square(self, features: NDArray[Any]) -> float:
        """max ‖P^(1/2)ψ_t‖² over the rows, in one pass."""
        largest = 0.0
        for block in row_blocks(features):
            rows = block.astype(np.float64, copy=False)
            squares = np.einsum("ij,ij->i", rows, rows) + ((rows @ self.axes.T) ** 2) @ self.stretch
            largest = max(largest, float(squares.max()))
        return largest


def none(dim: int) -> Preconditioner:
    """The identity."""
    return Preconditioner(np.zeros((0, dim)), np.zeros(0))


def from_prefix(features: NDArray[Any], rank: int | Literal["auto"]) -> Preconditioner:
    """The preconditioner of that rank from 4096 samples spread over the record, in dyadic order.

    With v_k and λ_k the leading eigenvectors and eigenvalues of their second-moment matrix, P shortens v_1, …, v_rank
    to the length of the next one: stretch_k = λ_{rank+1}/λ_k − 1.
    """
    length, dim = features.shape
    if rank != "auto" and rank >= dim:
        raise InputError(f"precondition={rank} needs more than {rank} features; there are {dim}")
    if dim < 2 or length < 2:
        return none(dim)
    wanted = 1 if rank == "auto" else rank
    order = dyadic_order(length)[: min(length, PREFIX)] - 1
    sample = np.ascontiguousarray(features[order], dtype=np.float64)
    moments, axes = _leading(sample, wanted + 1)
    if not moments[-1] > 0 or (rank == "auto" and moments[0] <= LONG * moments[1]):
        return none(dim)
    return Preconditioner(np.ascontiguousarray(axes[:wanted]), moments[-1] / moments[:wanted] - 1)


def _leading(sample: Vector, count: int) -> tuple[Vector, Vector]:
    """The largest eigenvalues of the second-moment matrix and their eigenvectors, by rows, in falling order."""
    count = min(count, *sample.shape)
    if count >= min(sample.shape):
        _, values, axes = np.linalg.svd(sample, full_matrices=False)
    else:
        _, values, axes = svds(sample, k=count, v0=np.ones(min(sample.shape)), return_singular_vectors="vh")
    falling = np.argsort(values)[::-1][:count]
    return np.asarray(values[falling] ** 2 / len(sample)), np.asarray(axes[falling])
