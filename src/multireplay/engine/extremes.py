"""Sums that are seldom needed: what a record says of every direction, and the rows and values that stand out in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Vector
from multireplay.engine.sums import BlockSum, MomentSum, Part
from multireplay.problems.base import as_double

if TYPE_CHECKING:
    from multireplay.buffer.columns import Columns
    from multireplay.problems import Problem


class SecondMoments(MomentSum):
    """Σ_t ψ_t ψ_tᵀ in a basis: what the record says of every direction, whatever is solved."""

    def zero(self) -> Part:
        return (np.zeros((self.dim, self.dim)),)

    def of(self, block: Columns) -> Part:
        problem, rows = self.problem.in_basis(as_double(block), self.basis)
        return (problem.second_moments(rows),)


class ExtremeRows(BlockSum):
    """Rows among which are those that the Lipschitz constant and the limit of a run from x0 depend on."""

    def __init__(self, problem: Problem, x0: Vector) -> None:
        self.problem, self.x0 = problem, x0

    def zero(self) -> Part:
        return ()

    def of(self, block: Columns) -> Part:
        rows = self.problem.extreme_rows(self.problem.samples(block), self.x0)
        return ({name: column[rows] for name, column in block.items()},)

    def add(self, total: Part, part: Part) -> Part:
        return total + part

    def samples(self, found: Part) -> Any:
        """The packed samples of the rows that were found."""
        return self.problem.samples({name: np.concatenate([part[name] for part in found]) for name in found[0]})


class Largest(BlockSum):
    """The largest value that a function of packed samples has on a block."""

    def __init__(self, problem: Problem, function: Callable[[Any], float]) -> None:
        self.problem, self.function = problem, function

    def zero(self) -> Part:
        return (-np.inf,)

    def of(self, block: Columns) -> Part:
        return (self.function(self.problem.samples(block)),)

    def add(self, total: Part, part: Part) -> Part:
        return (max(total[0], part[0]),)
