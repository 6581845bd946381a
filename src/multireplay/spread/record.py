"""A record whose sums are made, and whose rows are taken, by workers that read it where it is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._check import Positions
from multireplay.buffer import Buffer, StoredBuffer
from multireplay.buffer.columns import Columns
from multireplay.buffer.record import StoredRecord, as_a_whole
from multireplay.engine.sums import BlockSum, Extent, Group, groups_of
from multireplay.errors import InputError
from multireplay.spread.where import Where, brought_to_disk, opened, where_is
from multireplay.spread.workers import Workers, as_workers

if TYPE_CHECKING:
    from multireplay.problems import Problem

SHARES = 6
"""Tasks for each worker in a pass, where that makes them no smaller or larger than …"""
LEAST, MOST = 2**27, 2**30
"""… so many bytes; but …"""
TASKS = 2**13
"""… no pass has more tasks."""


class SpreadRecord(StoredRecord):
    """A record on disk that workers read: its sums are theirs, added here in the order of the blocks."""

    is_spread = True

    def __init__(self, problem: Problem, stored: StoredBuffer, workers: Workers) -> None:
        super().__init__(problem, stored)
        self.workers, self.where = workers, where_is(stored)

    def summed_elsewhere(self, block_sum: BlockSum, extent: Extent) -> Generator[Group, None, None]:
        """The sums over groups of blocks, made by the workers."""
        ends = _cuts(extent, self._rows_a_task())
        shape = self.names, self.dim, self.row_bytes
        tasks = (Summing(self.where, shape, block_sum, extent._replace(first=a, last=b)) for a, b in pairwise(ends))
        with closing(self.workers.map(tasks)) as found:
            for groups in found:
                yield from groups

    def _taken(self, rows: Positions, verified: bool) -> Columns:
        edges = np.arange(0, self.length + self._rows_a_task(), self._rows_a_task())
        order = np.argsort(rows, kind="stable")
        cuts = np.unique(np.searchsorted(rows[order], edges))
        lots = [rows[order[low:high]] for low, high in pairwise(cuts.tolist())]
        with closing(self.workers.map(Taking(self.where, self.names, lot, verified) for lot in lots)) as found:
            parts = list(found)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        columns = {name: np.concatenate([part[name] for part in parts])[place] for name in self.names}
        return self._checked_at(columns, rows)

    def _rows_a_task(self) -> int:
        size = self.length * self.row_bytes
        wanted = min(MOST, max(LEAST, size // (SHARES * self.workers.count)))
        return max(1, max(wanted, size // TASKS) // self.row_bytes)


@dataclass(frozen=True)
class Summing:
    """A task: the sums over the groups of blocks from one row of the record to another."""

    where: Where
    shape: tuple[tuple[str, ...], int, int]
    block_sum: Any
    extent: Extent

    def __call__(self) -> list[Group]:
        record = _Rows(self.where, self.shape, self.block_sum.problem)
        with closing(groups_of(record, self.block_sum, self.extent)) as groups:
            return list(groups)


@dataclass(frozen=True)
class Taking:
    """A task: some rows of the record, ascending."""

    where: Where
    names: tuple[str, ...]
    rows: Positions
    verified: bool

    def __call__(self) -> Columns:
        return opened(self.where).take(self.rows, self.names, self.verified)


class _Rows(StoredRecord):
    """The record as a worker sees it, who is told its shape."""

    def __init__(self, where: Where, shape: tuple[tuple[str, ...], int, int], problem: Problem) -> None:
        self.problem, self.stored = problem, opened(where)
        self.names, self.dim, self.row_bytes = shape
        self.length, self.budget = len(self.stored), where.memory


def _cuts(extent: Extent, rows: int) -> Iterator[int]:
    """Where tasks of about so many rows begin and end: where groups do."""
    yield extent.first
    begun = extent.first
    for begin, stop in pairwise(extent.bounds.tolist()):
        for end in (*range(begin + extent.group, stop, extent.group), stop):
            if end > begun and (end - begun >= rows or end == extent.last):
                yield end
                begun = end


def spread_over(problem: Problem, buffer: Buffer | StoredBuffer, on: Any) -> SpreadRecord:
    """The record of a buffer, read by the workers of a Dask client or an executor.

    One that is in memory is written to a temporary folder, which workers on this machine can read.
    """
    workers = as_workers(on)
    return as_a_whole(SpreadRecord(problem, reachable(buffer, workers), workers))


def reachable(buffer: Buffer | StoredBuffer, workers: Workers) -> StoredBuffer:
    """The record where workers can read it: as it is, or in a temporary folder, if all of them see that."""
    if isinstance(buffer, StoredBuffer):
        return buffer
    stored = brought_to_disk(buffer)
    if workers.see(stored.made_of[0]):
        return stored
    raise InputError(
        "the record is in memory, and not all workers are on this machine: buffer.save(...) it where they all can read "
        "it, and open that with mr.Buffer.open(..., memory='100 MB'); rows are never sent to workers"
    )
