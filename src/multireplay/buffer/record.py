"""The record as a run sees it: in memory, or on disk and read in blocks. A run asks the same of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from multireplay._check import Positions
from multireplay.buffer.buffer import Buffer, buffer_of
from multireplay.buffer.columns import Columns, row_count, size_of
from multireplay.buffer.disk import StoredBuffer
from multireplay.buffer.disk.stored import LOTS, PLACES
from multireplay.buffer.disk.stream import read_ahead
from multireplay.buffer.foreign import array_of, device, namespace
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.problems import Problem

WINDOW = 2**23
"""Bytes of a window in memory: small enough to stay in the cache while several epochs read it."""
EXAMPLE = 64
"""Rows from which a record on disk is known before it is read."""
GOLDEN = float((np.sqrt(5.0) - 1) / 2)
"""Multiples of it, modulo 1, are in step with nothing."""


class Chunk(NamedTuple):
    """Samples, the 1-based positions to be read among them, and those positions in the whole record."""

    samples: Any
    positions: Positions
    shown: Positions


class Window(NamedTuple):
    """Samples of consecutive rows: `base` and `last` are the 1-based positions of the first and the last of them."""

    samples: Any
    base: int
    last: int


class Record(ABC):
    """What a run asks of the data. `example` is packed samples of some rows, from which the types can be seen.

    Who reads says how many bytes of the memory budget it needs `aside`.
    """

    problem: Problem
    example: Any
    length: int
    dim: int
    on_disk: bool
    row_bytes: int
    is_spread = False
    """Whether workers elsewhere make its sums."""
    budget: int | None = None
    """Bytes of memory that a run may take, where there is a limit."""

    @abstractmethod
    def take(self, rows: Positions) -> Columns:
        """The columns at these rows, counted from 0."""

    @abstractmethod
    def parts(self, first: int, aside: int = 0, last: int | None = None) -> Generator[tuple[int, Columns], None, None]:
        """The columns from row `first` to before `last`, part after part: the row it begins with, and its columns."""

    def summed_elsewhere(self, block_sum: Any, extent: Any) -> Generator[Any, None, None] | None:
        """The sums over groups of blocks, where others make them; None where they are made here."""
        return None

    @abstractmethod
    def head(self) -> Columns:
        """The columns at the first rows."""

    def spread(self, count: int) -> Columns:
        """The columns at so many rows that are spread evenly over the record, see `spread_rows`."""
        return self.take(spread_rows(self.length, count))

    def part(self, columns: Columns) -> MemoryRecord:
        """Some rows of the record, as a record of their own."""
        return MemoryRecord(self.problem, columns)

    def block_rows(self, least: int) -> int:
        """Rows of the blocks that sums are made of: about three megabytes, so that a block is read from memory once."""
        return max(least, self.problem.block_bytes // self.row_bytes)

    @abstractmethod
    def at_once(self, aside: int = 0) -> int:
        """Positions that `chunks` can give in one chunk; a block of no more than that is never cut."""

    @abstractmethod
    def chunks(self, blocks: Iterable[Positions], aside: int = 0) -> Iterator[Chunk]:
        """The samples at these positions, block after block, in any order."""

    @abstractmethod
    def windows(self, first: int, cached: bool, aside: int = 0) -> Generator[Window, None, None]:
        """All samples in order from row `first` on, counted from 0; small windows if `cached`."""


R = TypeVar("R", bound=Record)


class MemoryRecord(Record):
    """A record in memory."""

    on_disk = False

    def __init__(self, problem: Problem, columns: Columns) -> None:
        self.problem, self.columns = problem, columns
        self.samples = self.example = problem.samples(columns)
        self.length = int(next(iter(columns.values())).shape[0])
        self.dim = problem.dim(columns)
        sizes = [column.nbytes if isinstance(column, np.ndarray) else size_of(column) for column in columns.values()]
        self.row_bytes = sum(sizes) // self.length + 1

    def head(self) -> Columns:
        rows = slice(0, min(EXAMPLE, self.length))  # not all libraries take a slice beyond the end
        return {name: column[rows] for name, column in self.columns.items()}

    def take(self, rows: Positions) -> Columns:
        return {n: c.take(rows, axis=0) if isinstance(c, np.ndarray) else c[rows] for n, c in self.columns.items()}

    def spread(self, count: int) -> Columns:
        if count >= self.length:
            return {n: np.ascontiguousarray(c) if isinstance(c, np.ndarray) else c for n, c in self.columns.items()}
        if self.problem.on_host:
            return self.take(kept_rows(self.length, count))
        return self.take(spread_rows(self.length, count, array_of(next(iter(self.columns.values())))))

    def parts(self, first: int, aside: int = 0, last: int | None = None) -> Generator[tuple[int, Columns], None, None]:
        whole = first == 0 and last in (None, self.length)
        yield first, self.columns if whole else {name: column[first:last] for name, column in self.columns.items()}

    def at_once(self, aside: int = 0) -> int:
        return self.length

    def chunks(self, blocks: Iterable[Positions], aside: int = 0) -> Iterator[Chunk]:
        return (Chunk(self.samples, positions, positions) for positions in blocks)

    def windows(self, first: int, cached: bool, aside: int = 0) -> Generator[Window, None, None]:
        rows = WINDOW // self.row_bytes + 1 if cached else 2**20
        for start in range(first, self.length, rows):
            yield Window(self.samples, 1, min(self.length, start + rows))


class StoredRecord(Record):
    """A record on disk, read within its memory budget."""

    on_disk = True

    def __init__(self, problem: Problem, stored: StoredBuffer) -> None:
        self.problem, self.stored = problem, stored
        self.length, self.budget = len(stored), stored.memory
        self._head = head = problem.columns(buffer_of(stored.take(np.arange(min(EXAMPLE, self.length)))))
        self.names = tuple(head)
        self.dim = problem.dim(head)
        self.example = problem.samples(head)
        self.row_bytes = sum(column.nbytes for column in head.values()) // row_count(head) + 1

    def head(self) -> Columns:
        return self._head

    def take(self, rows: Positions) -> Columns:
        return self._taken(rows, verified=True)

    def spread(self, count: int) -> Columns:
        return self._taken(spread_rows(self.length, count), verified=False)  # to check all for so few takes a pass

    def _taken(self, rows: Positions, verified: bool) -> Columns:
        return self._checked_at(self.stored.take(rows, self.names, verified), rows)

    def _checked_at(self, columns: Columns, rows: Positions) -> Columns:
        try:
            self.problem.check(columns)
        except InputError:
            for at, row in enumerate(rows):  # name the row of the record, not that of the lot
                self._checked({name: column[at : at + 1] for name, column in columns.items()}, int(row))
            raise
        return columns

    def parts(self, first: int, aside: int = 0, last: int | None = None) -> Generator[tuple[int, Columns], None, None]:
        with closing(self.stored.blocks(self.names, first, last, aside=aside)) as blocks:
            for start, block in blocks:
                yield start, self._checked(block, start)

    def at_once(self, aside: int = 0) -> int:
        memory = max(self.stored.memory - aside - self.stored.overhead(self.names), self.stored.memory // 4)
        return max(1, memory // (LOTS * self.row_bytes + PLACES))

    def chunks(self, blocks: Iterable[Positions], aside: int = 0) -> Generator[Chunk, None, None]:
        gathered = _gathered(blocks, self.at_once(aside))
        with closing(read_ahead((self.take(positions - 1), positions) for positions in gathered)) as lots:
            for columns, positions in lots:
                here = np.arange(1, len(positions) + 1, dtype=np.int64)
                yield Chunk(self.problem.samples(columns), here, positions)

    def windows(self, first: int, cached: bool, aside: int = 0) -> Generator[Window, None, None]:
        for start, block in self.parts(first, aside):
            yield Window(self.problem.samples(block), start + 1, start + row_count(block))

    def _checked(self, columns: Columns, first: int) -> Columns:
        try:
            self.problem.check(columns)
        except InputError as error:
            raise InputError(f"{error} (rows counted from row {first} of the record)") from None
        return columns


def _gathered(blocks: Iterable[Positions], most: int) -> Iterator[Positions]:
    """Several blocks of positions as one, at most so many positions at a time."""
    waiting: list[Positions] = []
    for block in blocks:
        for part in (block[start : start + most] for start in range(0, len(block), most)):
            if sum(map(len, waiting)) + len(part) > most:
                yield np.concatenate(waiting)
                waiting = []
            waiting.append(part)
    if waiting:
        yield np.concatenate(waiting)


def as_record(problem: Problem, buffer: Buffer | StoredBuffer) -> Record:
    """The record of a buffer, its columns checked against what the problem reads."""
    if isinstance(buffer, StoredBuffer):
        return as_a_whole(StoredRecord(problem, buffer))
    return as_a_whole(MemoryRecord(problem, problem.columns(buffer)))


def as_a_whole(record: R) -> R:
    """The record, which as a whole has a solution as far as can be seen beforehand."""
    with closing(record.parts(0)) as parts:
        record.problem.check_whole(columns for _, columns in parts)
    return record


def spread_rows(length: int, count: int, there: Any = None) -> Positions:
    """Rows, counted from 0 and increasing: one in each of `count` equal stretches, or all of a short record.

    The stretches are those between the samples of an epoch of Algorithm 1 with T = `count`. The place in them moves on
    by the golden ratio from one to the next, so that no period of the record is in step with it. They are an array of
    the library and on the device of `there`, if that is given.
    """
    xp, where = (np, {}) if there is None else (namespace(there), {"device": device(there)})
    count = min(count, length)
    t = xp.arange(0, count + 1, dtype=xp.int64, **where)
    edges = t * length // count
    along = xp.astype(t[1:], xp.float64) * GOLDEN
    places = (along - xp.floor(along)) * xp.astype(edges[1:] - edges[:-1], xp.float64)
    rows: Positions = edges[1:] - 1 - xp.astype(places, xp.int64)
    return rows


kept_rows = lru_cache(maxsize=2)(spread_rows)
