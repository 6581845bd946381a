"""Sums of all that a stream has seen about one point, which follows the answer, and the rows that correct them."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.columns import Columns, row_count
from multireplay.problems import Problem
from multireplay.streaming.batches import EqualBatches, Memory, Sums
from multireplay.streaming.beliefs import Around
from multireplay.streaming.fading import Fading
from multireplay.streaming.fitting import Fitting, sums_of
from multireplay.streaming.spread_rows import HeavyRows, SpreadPart, SpreadRows, parts_between

DROWNS = 16.0
"""A block drowns others whose Jacobian has a diagonal so many times as large."""


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
        for point in (fitting.root(self.batches.total(self.now), self._parts(), block, zero, held).x, zero):
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

    def _but(self, some: NDArray[np.bool_], block: Columns, part: Sums) -> Sums:
        """The sums of a block but for some rows: F̂ of those that tell most of a coordinate says nothing of a change."""
        if not some.any():
            return part
        rest = sums_of(self.problem, self.point, {name: column[~some] for name, column in block.items()})
        return rest._replace(rows=part.rows)

    def _move(self, point: Vector) -> None:
        """Linearize all sums at another point."""
        step, fitting, batches = point - self.point, Fitting(self.problem, self.point), self.batches
        self.fading.move(step)
        age = float(batches.rows.sum())
        for batch, parts in enumerate(self._parts_by_batch()):
            value, slope = fitting.left_out(point, iter(parts))
            batches.values[batch] += batches.slopes[batch] @ step + value
            batches.slopes[batch] += slope
            age -= float(batches.rows[batch])
            self.fading.add_left_out(value, slope, (age, age + float(batches.rows[batch])))
        self.point = point
        self.around = self.around and self.around._replace(point=point)

    def _parts_by_batch(self) -> list[list[SpreadPart]]:
        """The kept rows of every batch, and for how many rows each stands."""
        ends = (self.batches.dropped + np.cumsum([0, *self.batches.rows[: self.batches.count]])).astype(int).tolist()
        stretches = zip(itertools.pairwise(ends), self.batches.rows, strict=False)
        return [parts_between(self.spread, self.heavy, stretch, rows) for stretch, rows in stretches]

    def _parts(self) -> list[SpreadPart]:
        if self.problem.is_linear or not self.spread.length:
            return []
        weights = self.batches.weights(self.now)
        if weights is None:
            return parts_between(self.spread, self.heavy, (0, self.rows), float(self.batches.rows.sum()))
        batches = zip(weights, self._parts_by_batch(), strict=True)
        return [SpreadPart(part.columns, weight * part.weight) for weight, parts in batches for part in parts]

    def _at(self, x: Vector) -> tuple[Vector, Vector]:
        """Σ F̃ and the Jacobian of every batch at another point than that of the sums."""
        batches, count = self.batches, self.batches.count
        scores = batches.values[:count] + batches.slopes[:count] @ (x - self.point)
        slopes = batches.slopes[:count].copy()
        if not self.problem.is_linear:
            fitting = Fitting(self.problem, self.point)
            for batch, parts in enumerate(self._parts_by_batch()):
                value, slope = fitting.left_out(x, iter(parts))
                scores[batch] += value
                slopes[batch] += slope
        return scores, slopes
