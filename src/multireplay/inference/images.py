"""What is kept of a fit to tell how well the record knows it: J⁻¹F̂ of every batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Vector
from multireplay.inference.longrun.batch_means import mean_and_variance


@dataclass(frozen=True, eq=False)
class Images:
    """F̂ of consecutive batches at the answer, and what each alone would have moved the answer by.

    The error of an estimate is −J⁻¹F̂ to first order, and so is that of every batch: between them they show how large
    it is, whatever the dependence inside a batch. A pickled one leaves `through` behind.
    """

    values: Vector
    """J⁻¹F̂_b, of shape (batches, d), or better (`left_out`); on a feasible set, the solution's derivative times F̂_b."""
    scores: Vector
    """F̂_b, of shape (batches, d)."""
    rows: Vector
    """Rows of every batch."""
    through: Callable[[Vector], Vector] | None = None
    """What makes images of scores: J⁻¹ times each row."""
    unknown: Vector | None = None
    """Directions that the record says nothing of, a row each."""
    boundary: NDArray[np.bool_] | None = None
    """Which coordinates a feasible set holds where they are; None without one, or where it holds nothing."""
    set_active: bool = False
    """Whether the feasible set matters to the answer."""
    left_out: bool = False
    """Whether the values are what the answer moves by without a batch, see `left_out`."""

    off: Vector | None = None
    """What the curvature of the operator moves the answer by on average: intervals are around x − off."""
    lost: NDArray[np.bool_] | None = None
    """Coordinates that it moves by more than can be known."""
    held: Vector | None = None
    """Directions that only a penalty settles, a row each."""
    stretch: Vector | float = 1.0
    """How many times as far as batches the values are spread, where memory is long, see `stretched`."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "through": None}

    def of(self, scores: Vector) -> Vector:
        """The images of other scores; these must be of the same record and point."""
        assert self.through is not None
        return self.through(scores)

    @cached_property
    def variance(self) -> Vector:
        """Of the mean of every column of the values, by batch means."""
        return mean_and_variance(self.values)[1]

    def scores_beside(self, others: Vector) -> tuple[Vector, Vector, Vector]:
        """The variance of the mean score, and mean and variance of others, at once: nearly all of it is the call."""
        if len(others) != len(self.scores):
            return mean_and_variance(self.scores)[1], *mean_and_variance(others)
        dim = self.scores.shape[1]
        mean, found = mean_and_variance(np.concatenate((self.scores, self.values, others), axis=1))
        self.__dict__["variance"] = found[dim : 2 * dim]
        return found[:dim], mean[2 * dim :], found[2 * dim :]

    @property
    def standard_error(self) -> Vector:
        """Of every coordinate, by batch means; infinite where the record says nothing, NaN on the boundary of a set."""
        return self.marked(None, np.sqrt(self.variance))

    def marked(self, functionals: Any, error: Vector) -> Vector:
        """Standard errors of these functionals, infinite where they have part in what is unknown, NaN if held fixed."""
        error, unknown = error.copy(), self.unknown is not None and len(self.unknown) > 0
        if hasattr(functionals, "toarray") and self.boundary is not None:
            functionals = functionals.toarray()
        if self.boundary is not None:
            held = self.boundary if functionals is None else ~(functionals[:, ~self.boundary] != 0).any(axis=1)
            error[held] = np.nan
        if self.unknown is not None and unknown:
            error[has_part(self.unknown, functionals)] = np.inf
        return error


CANCELS = 1e-3
"""A functional has no part in an unknown direction where its terms cancel to less than this share of the largest."""


def has_part(unknown: Vector, functionals: Any) -> Vector:
    """Which functionals (all coordinates for None; dense rows or sparse ones) change along an unknown direction."""
    if functionals is None:
        return np.asarray((unknown != 0).any(axis=0))
    found, sparse = np.zeros(functionals.shape[0], dtype=bool), issparse(functionals)
    for direction in unknown:
        terms = abs(functionals.multiply(direction[None, :]) if sparse else functionals * direction).max(axis=1)
        terms = terms.toarray().ravel() if sparse else terms
        found |= np.abs(functionals @ direction) > CANCELS * np.where(terms > 0, terms, 1.0)
    return found
