"""The passes of a run that reads the record again and again, kept so that it can go on after an interruption."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.record import Partial, Record
from multireplay.engine.checkpoint import Checkpoint
from multireplay.engine.residuals import Batches, batch_bounds

ROOM = 16
"""Passes that a file has room for."""


class Ledger:
    """What each pass found, and how far the present one is; without a checkpoint nothing is kept."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self.checkpoint = checkpoint
        self.number = 0
        self._state: dict[str, NDArray[np.float64]] = {}

    def batches(self, record: Record, x: Vector, advanced: Callable[[int], object]) -> Batches:
        """F̂(x) by batches: from the file if this pass was finished before, otherwise by reading the record."""
        if self.checkpoint is None:
            return record.batches([x], advanced)[0]
        number, self.number = self.number, self.number + 1
        if not self._state:
            batches = len(batch_bounds(record.length, record.dim)) - 1
            self._state = {"done": np.zeros(1), "sums": np.zeros((batches, record.dim))}
            self._state["passes"] = np.zeros((ROOM, batches, record.dim))
            self._row = self.checkpoint.restore(self._state)
        done, sums, passes = self._state["done"], self._state["sums"], self._state["passes"]
        sizes = np.diff(batch_bounds(record.length, record.dim))
        if number >= ROOM:
            return record.batches([x], advanced)[0]
        if number < done[0]:
            advanced(record.length)
            return Batches(passes[number] / sizes[:, None], sizes)
        start, self._row = self._row, 0
        advanced(start)
        found = record.batches([x], advanced, Partial(start, sums, self._note))[0]
        passes[number], done[0], sums[:] = found.means * sizes[:, None], number + 1, 0.0
        self._note(0)
        return found

    def _note(self, row: int) -> None:
        assert self.checkpoint is not None
        copies = {
            name: array.copy() for name, array in self._state.items()
        }  # an interruption may find a block half done
        self.checkpoint.note(row, copies)
