"""The L2 penalty of a problem: λx added to its operator, but for the last few coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse

from multireplay._check import Vector, number_in, whole_number
from multireplay.errors import InputError


@dataclass(frozen=True)
class Penalty:
    """λx on all coordinates of x but the last `unpenalized`.

    It is part of the operator and the same on every sample, so that its mean is exact.
    """

    ridge: float
    unpenalized: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", number_in("ridge", self.ridge))
        object.__setattr__(self, "unpenalized", whole_number("unpenalized", self.unpenalized, least=0))

    def check(self, dim: int) -> None:
        """Raise if there are fewer coordinates than are to be left out."""
        if self.unpenalized > dim:
            raise InputError(f"unpenalized={self.unpenalized} is more than the {dim} coordinates there are")

    @property
    def fields(self) -> tuple[float | None, int]:
        """What the loops read: no ridge is None, for which they are compiled without one."""
        return self.ridge or None, self.unpenalized

    @property
    def text(self) -> str:
        """How it is written among the arguments of a problem; empty without a ridge."""
        left_out = f", unpenalized={self.unpenalized}" if self.unpenalized else ""
        return f", ridge={self.ridge:g}{left_out}" if self.ridge else ""

    def diagonal(self, dim: int) -> Vector:
        """λ by coordinate, 0 where it is left out."""
        values = np.full(dim, self.ridge)
        values[dim - self.unpenalized :] = 0.0
        return values

    def added(self, value: Vector, x: Vector) -> Vector:
        """F + λx; F itself without a ridge."""
        return value + self.diagonal(len(x)) * x if self.ridge else value


def plus_diagonal(matrix: Any, diagonal: Vector) -> Any:
    """The matrix with these numbers added to its diagonal."""
    if not diagonal.any():
        return matrix
    if issparse(matrix):
        return (matrix + diags_array(diagonal)).tocsr()
    return matrix + np.diag(diagonal)
