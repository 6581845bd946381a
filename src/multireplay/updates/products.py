"""Dividing by the Jacobian of many samples without working it out, where their features are all but uncorrelated."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from multireplay._check import Vector
from multireplay.buffer.columns import Columns
from multireplay.updates.samples import Samples

WIDER = 1024
"""Up to so many coordinates the matrix itself costs no more than products with it."""
LOOKS = 12
"""Steps of Lanczos's method: enough to see one eigenvalue in thousands that is apart from the others."""
EVEN = 1 / 12
"""The reciprocal condition number above which a few products divide by the matrix."""
LEFT, LESS = 0.4, 0.1
"""Shares of an error that they leave at most: of a correction, and of what standard errors are made of."""


class Products:
    """Products with the symmetric Jacobian of samples at z, and conjugate gradients (Hestenes and Stiefel 1952).

    It has what `Lapack` has of a matrix that is worked out, as far as gradients that are not linear need it.
    """

    def __init__(self, samples: Samples, z: Vector) -> None:
        self.samples, self.z, self.kind = samples, z, np.dtype(samples.precision)
        slopes = samples.problem.slopes(samples.place(z), samples.columns)
        self.columns: Columns = {"features": samples.features, "slopes": np.asarray(slopes)}
        self.units, self.penalty = (v.astype(self.kind)[:, None] for v in (samples.units, samples.penalty))
        self.mean, self.condition = self._spectrum()
        self.factor = max(1e-3, 1 - self.condition**0.5) / (1 + self.condition**0.5)

    @classmethod
    def suit(cls, samples: Samples) -> bool:
        """Whether products may be quicker than the matrix, and are all that is needed."""
        problem, many = samples.problem, len(samples.scale) > WIDER
        return many and problem.is_gradient and not problem.is_linear and isinstance(samples.features, np.ndarray)

    def times(self, values: Vector) -> Vector:
        """The matrix times each column."""
        scaled = self.units * values

        def part(block: Columns) -> Vector:
            rows = block["features"]
            return np.asarray(np.dot(rows.T, block["slopes"][:, None] * np.dot(rows, scaled)))

        total = self.samples.added(part, self.samples.blocks(0, self.columns))
        return np.asarray(self.units / self.samples.count * total + self.penalty * values, dtype=self.kind)

    def divide(self, values: Vector, transposed: bool = False, left: float = LESS) -> Vector:
        """The inverse of the matrix times each column, but for a share of it in the norm that the matrix makes."""
        rest = np.asarray(values, dtype=self.kind)
        found, way, size = np.zeros_like(rest), rest, np.square(rest).sum(axis=0)
        for _ in range(int(np.ceil(np.log(left / 2) / np.log(self.factor)))):
            moved = self.times(way)
            share = size / np.maximum((way * moved).sum(axis=0), np.finfo(self.kind).tiny)
            found, rest = found + share * way, rest - share * moved
            before, size = size, np.square(rest).sum(axis=0)
            way = rest + size / np.maximum(before, np.finfo(self.kind).tiny) * way
        return found

    def roughly(self, values: Vector, mean: Vector) -> Vector:
        """The inverse times each column, as if the matrix had one eigenvalue; that of their mean is to a few digits."""
        return np.asarray((values - mean) / self.mean + self.divide(mean, left=LEFT))

    @np.errstate(all="ignore")
    def _spectrum(self) -> tuple[float, float]:
        """The mean of the eigenvalues, and the smallest over the largest, as far as is seen of them (Lanczos 1950)."""
        vector = np.random.default_rng(0).standard_normal((len(self.z), 1)).astype(self.kind)
        before, size = np.zeros_like(vector), 0.0
        diagonal, beside = [], []
        for _ in range(LOOKS):
            vector /= np.linalg.norm(vector)
            moved = self.times(vector) - size * before
            diagonal.append(float((moved * vector).sum()))
            before, vector = vector, moved - diagonal[-1] * vector
            size = float(np.linalg.norm(vector))
            beside.append(size)
        if not np.isfinite([*diagonal, *beside]).all():
            return np.nan, 0.0
        values = eigvalsh_tridiagonal(diagonal, beside[:-1])
        return diagonal[0], max(0.0, float(values[0] / values[-1]))

    @cached_property
    def whole(self) -> Vector:
        """The matrix itself, for who needs it after all."""
        return np.asarray(sum(self.samples.jacobians(self.z)) / 2)
