"""Sums of all that a stream has seen about one point, which follows the answer, and the rows that correct them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.engine.sums import one_thread_each
from multireplay.problems import Problem
from multireplay.streaming.batches import EqualBatches, Memory, Sums
from multireplay.streaming.beliefs import Around
from multireplay.streaming.fading import Fading
from multireplay.streaming.fitting import Fitting, sums_of
from multireplay.streaming.remainder import Remainder
from multireplay.streaming.spread_rows import HeavyRows, SpreadRows, Stretches, kept_between

DROWNS = 16.0
"""A block drowns others whose Jacobian has a diagonal so many times as large."""


MANY = 64
"""With fewer coordinates only what is worked out now and then is worth the time that it takes to ask for one thread."""
Given = ParamSpec("Given")
Found = TypeVar("Found")


def on_one_thread(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """A method whose linear algebra has one thread where there are many coordinates: several wait for one another."""

    @functools.wraps(function)
    def limited(*given: Given.args, **named: Given.kwargs) -> Found:
        with one_thread_each() if given[0].dim >= MANY else nullcontext():  # type: ignore[attr-defined]
            return function(*given, **named)

    return limited


class Linearized:
    """Batches of sums at one point, sums that forget, and the rows that tell what linearization leaves out of both."""

    def __init__(self, problem: Problem, example: Columns, memory: Memory) -> None:
        self.problem, self.memory = problem, memory
        self.dim = problem.dim(example)
        self.penalty = problem.penalty_diagonal(self.dim)
        self.rows, self.now = 0, 0.0
        """Rows of all full blocks, and the stamp of the last."""
        self.point = np.zeros(self.dim)
        self.around: Around | None = None
        """What is known about the answer so far."""
        self.fading = Fading(problem, self.dim)
        self._example = {name: column[:1] for name, column in example.items()}
        self._begin()

    def _begin(self) -> None:
        self.batches = EqualBatches(self.dim, self.memory.window, self.memory.half_life)
        self.spread, self.heavy = SpreadRows(self._example), HeavyRows(self._example, self.problem)

    def _keep(self, block: Columns, part: Sums, first: int, shares: Vector) -> None:
        """Put a block away, whose first row has that number: its sums, and those of its rows that are kept."""
        if self.batches.add(part, self.now):
            self.spread.drop_before(int(self.batches.dropped))
            self.heavy.drop_before(int(self.batches.dropped))
        self.spread.add(block, first, row_count(block))
        self.heavy.add(block, first, shares, self.point, self.batches.diagonal)

    def _sums(self, block: Columns) -> Sums:
        """The sums of a block; where they would drown all others, about another point, which knows of the block.

        In a direction that rows have hardly shown an answer may be far off, and exp() has no bounds.
        """
        part, zero = sums_of(self.problem, self.point, block), np.zeros(self.dim)
        if self.problem.is_linear or self._is_tame(part, block):
            return part
        held = 0.0 if self.around is None else self.around.held
        fitting = Fitting(self.problem, self.point)
        for point in (fitting.root(self.batches.total(self.now), self._kept(), block, zero, held).x, zero):
            self._move(point)
            part = sums_of(self.problem, self.point, block)
            if self._is_tame(part, block):
                break
        return part

    def _is_tame(self, part: Sums, block: Columns) -> bool:
        """Whether a block is no more than some times what it would be at 0 and what there is, by coordinate."""
        own = np.abs(np.diag(part.slopes))
        if not (np.isfinite(part.values).all() and np.isfinite(part.slopes).all()):
            return False
        usual = np.abs(self.batches.diagonal)
        if self.around is not None:
            usual += part.rows * np.abs(np.diag(self.around.slope))
        if (own <= DROWNS * usual).all():
            return True
        at_zero = np.abs(self.problem.jacobian_diagonal(np.zeros(self.dim), block))
        return bool((own <= DROWNS * (usual + at_zero)).all())

    def _but(self, some: NDArray[np.bool_], block: Columns, part: Sums) -> tuple[Columns, Sums]:
        """A block but for some rows, and its sums: F̂ of what tells most of a coordinate says nothing of a change."""
        if not some.any():
            return block, part
        rest = {name: column[~some] for name, column in block.items()}
        return rest, sums_of(self.problem, self.point, rest)._replace(rows=part.rows)

    def _move(self, point: Vector) -> None:
        """Linearize all sums at another point."""
        step, batches, count = point - self.point, self.batches, self.batches.count
        self.fading.move(step)
        if count:
            values, slopes = self._left_out_of_each(point)
            batches.values[:count] += batches.slopes[:count] @ step + values
            batches.slopes[:count] += slopes
            self.fading.add_left_out(values, slopes, batches.rows[:count])
        self.point = point
        self.around = self.around and self.around._replace(point=point)

    def _left_out_of_each(self, x: Vector) -> tuple[Vector, Vector]:
        """What linearization leaves out of every batch at x."""
        return Remainder(self.problem, self.point, self._kept_by_batch()).each(x, self.batches.count)

    def _kept_by_batch(self) -> list[Stretches]:
        rows = self.batches.rows[: self.batches.count]
        ends = (self.batches.dropped + np.cumsum([0, *rows])).astype(int)
        return kept_between(self.spread, self.heavy, ends, rows)

    def _kept(self) -> list[Stretches]:
        if self.problem.is_linear or not self.spread.length:
            return []
        weights = self.batches.weights(self.now)
        if weights is None:
            return kept_between(self.spread, self.heavy, np.array([0, self.rows]), self.batches.rows.sum(keepdims=True))
        return [kept.weighing(weights) for kept in self._kept_by_batch()]

    def _at(self, x: Vector) -> tuple[Vector, Vector]:
        """Σ F̃ and the Jacobian of every batch at another point than that of the sums."""
        batches, count = self.batches, self.batches.count
        scores = batches.values[:count] + batches.slopes[:count] @ (x - self.point)
        slopes = batches.slopes[:count].copy()
        if not self.problem.is_linear:
            more, steeper = self._left_out_of_each(x)
            scores, slopes = scores + more, slopes + steeper
        return scores, slopes
