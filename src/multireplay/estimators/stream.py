"""The rows of `partial_fit`: kept until there are enough for the online algorithm, then given to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from multireplay._check import Vector
from multireplay.estimators.standardize import Columns, Standardization
from multireplay.online import Online

if TYPE_CHECKING:
    from multireplay.estimators.base import MEREstimator

GROWTH = 1.25
"""While the buffer fills, the rows so far are solved anew each time there are this many times more of them."""


class Start(NamedTuple):
    """Where the online algorithm starts: how features are standardized, and x0 of every problem."""

    standardization: Standardization
    points: tuple[Vector, ...]


class Stream:
    """One run of the online algorithm (`multireplay.Online`) for every column of targets, on the same rows.

    The first `capacity` rows are kept as they are. While they come in, the answer is what `multireplay.solve` makes of
    the rows so far. When they are complete, the standardization they give is kept for good, and their answer is the x0
    from which every epoch of the runs restarts. After `begin` with what was known before, the runs begin at once.
    """

    def __init__(self, capacity: int, target: str) -> None:
        self.capacity = capacity
        self.target = target
        self.start: Start | None = None
        self.runs: tuple[Online, ...] = ()
        self._kept: list[Columns] = []
        self._rows = self._solved = 0

    def begin(self, host: MEREstimator, start: Start) -> None:
        """Begin the runs."""
        self.start = start
        self.runs = tuple(
            Online(host._problem(), host.capacity, host.step, repeat_last=True, average=host.average, x0=point)
            for point in start.points
        )

    def take(self, host: MEREstimator, columns: Columns, targets: Vector) -> None:
        """Take in a block of rows, with targets of shape (rows, problems)."""
        block = {**columns, self.target: targets}
        if self.runs:
            self._observe(block)
            return
        count = min(len(targets), self.capacity - self._rows)
        # a copy, because the caller may use the memory of a block for the next one
        self._kept.append({name: column[:count].copy() for name, column in block.items()})
        self._rows += count
        complete = self._rows == self.capacity
        if not complete and self._rows < GROWTH * self._solved:
            return
        record = {name: stacked([kept[name] for kept in self._kept]) for name in block}
        shared = {name: record[name] for name in columns}
        self.start, self._solved = host._solved(shared, record[self.target])[0], self._rows
        if complete:
            self._kept = []
            self.begin(host, self.start)
            self._observe(record)
            self._observe({name: column[count:] for name, column in block.items()})

    def _observe(self, block: Columns) -> None:
        assert self.start is not None
        if not len(block[self.target]):
            return
        columns = self.start.standardization.columns(block)
        targets = columns.pop(self.target)
        for index, run in enumerate(self.runs):
            run.observe(**columns, **{self.target: targets[:, index]})

    @property
    def answers(self) -> tuple[Vector, ...]:
        """The answer of every run, x0 until its first epoch of the last scale is finished.

        The shorter epochs before that have seen less than the rows that x0 comes from.
        """
        assert self.start is not None
        if not self.runs or len(self.runs[0].epochs) < self.runs[0].last_scale:
            return self.start.points
        return tuple(point if run.x is None else run.x for run, point in zip(self.runs, self.start.points, strict=True))


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows one after the other: sparse where all are, arrays of numbers or of rows otherwise."""
    if all(sparse.issparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    return np.concatenate([block.toarray() if sparse.issparse(block) else block for block in blocks])
