"""Sums over fixed blocks of consecutive rows: the second way of running, beside chains.

A sum says what it is of nothing (`zero`), of a block (`of`), and how a part is added (`add`). Blocks and their groups
depend on the record alone and are added in order: threads, disk and a cluster give the same answer to the last bit.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import threadpoolctl
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Positions, Vector
from multireplay.buffer.disk.memory import Pool
from multireplay.buffer.foreign import as_numpy
from multireplay.problems.base import as_double

if TYPE_CHECKING:
    from multireplay.buffer.columns import Columns
    from multireplay.buffer.record import Record
    from multireplay.problems import Problem

Part: TypeAlias = tuple[Any, ...]
"""What a sum is of some rows: arrays, all but always."""

BATCHES, FEWEST_BATCHES = 32, 8
BATCH_NUMBERS = 2**22
"""Where the sums of 32 batches would be more numbers than this, fewer batches are taken, but at least 8."""
TOGETHER = 2**24
"""Bytes of blocks that a thread is given at a time, so that handing them out costs nothing beside reading them."""
GROUP, MOST_GROUPS, WORTH = 2**26, 2**13, 32
"""Bytes of a group of blocks at least, groups of a record at most, and how many times its sum a group is at least."""


class BlockSum(ABC):
    """Something that is added up over all rows."""

    least: int = 16
    """Rows that a block has at least: a matrix is worth adding only for as many rows as it has."""

    @abstractmethod
    def zero(self) -> Part:
        """The sum over no rows."""

    @abstractmethod
    def of(self, block: Columns) -> Part:
        """The sum over the rows of one block."""

    def add(self, total: Part, part: Part) -> Part:
        """The sum of both; `total` may be changed and given back."""
        for one, other in zip(total, part, strict=True):
            one += other
        return total


class OperatorSum(BlockSum):
    """Σ_t F̃(x, ξ_t) at each of the points, without the penalty, which is no sum over rows."""

    def __init__(self, problem: Problem, points: Vector) -> None:
        self.problem, self.points = problem, points

    def zero(self) -> Part:
        return (np.zeros_like(self.points),)

    def of(self, block: Columns) -> Part:
        return (self.problem.operator_sums(self.points, block),)


class MomentSum(BlockSum):
    """A = Σ_t A_t and b = Σ_t b_t of a linear operator F̃(x, ξ_t) = A_t x − b_t, without the penalty.

    With a `basis` B they are those of x = Bz: BᵀAB and Bᵀb, of rows ψᵀB, so that nothing is lost in a difference.
    """

    def __init__(self, problem: Problem, dim: int, basis: Vector | None = None) -> None:
        self.problem, self.dim, self.basis, self.least = problem, dim, basis, max(16, 2 * dim)

    def zero(self) -> Part:
        return np.zeros((self.dim, self.dim)), np.zeros(self.dim)

    def of(self, block: Columns) -> Part:
        problem, rows = self.problem.in_basis(as_double(block), self.basis)
        moments = problem.moments(rows)
        assert moments is not None
        return (moments[0].toarray() if issparse(moments[0]) else moments[0]), moments[1]


class Linearization(BlockSum):
    """Σ_t F̃(x, ξ_t), Σ_t of its derivative at x, and of the loss, NaN where there is none; all without the penalty."""

    def __init__(self, problem: Problem, x: Vector, basis: Vector | None = None) -> None:
        self.problem, self.x, self.basis, self.least = problem, x, basis, max(16, 2 * len(x))
        self.dim = len(x) if basis is None else basis.shape[1]
        self.place: Vector = x if basis is None else np.asarray(np.linalg.lstsq(basis, x, rcond=None)[0])

    def zero(self) -> Part:
        return np.zeros(len(self.x)), np.zeros((self.dim, self.dim)), np.zeros(1)

    @np.errstate(over="ignore", invalid="ignore")
    def of(self, block: Columns) -> Part:
        wide = as_double(block)
        problem, rows = self.problem.in_basis(wide, self.basis)
        loss, total = self.problem.descent(self.x, wide) or (
            np.nan,
            self.problem.operator_sums(self.x[None, :], wide)[0],
        )
        matrix = problem.jacobian_sum(self.place, rows)
        return total, matrix if problem.on_host else as_numpy(matrix), loss


class Kept(NamedTuple):
    """A sum that was begun: the rows that are in it, the totals by stretch, and who is told of more."""

    row: int
    totals: list[Part]
    note: Callable[[int], object]


class Folding(NamedTuple):
    """How a sum is carried out: on how many threads, who is told of the rows that are done, and in how many batches."""

    threads: int = 1
    advanced: Callable[[int], object] = lambda rows: None
    pieces: int = BATCHES


ALONE = Folding()
"""On one thread, and nobody is told."""


class Extent(NamedTuple):
    """Rows of a block and of a group, the stretches, and the rows that are added up, from where a group begins."""

    rows: int
    group: int
    bounds: Positions
    first: int
    last: int


class RowBlock(NamedTuple):
    """Rows of one stretch, the row after the last of them, and whether their group ends with them."""

    stretch: int
    columns: Columns
    rows: int
    end: int
    closes: bool


class Group(NamedTuple):
    """The sum over a group of blocks of one stretch, its rows, and the row after the last of them."""

    stretch: int
    part: Part
    rows: int
    end: int


@functools.lru_cache(maxsize=8)
def batch_bounds(length: int, dim: int, pieces: int = BATCHES) -> Positions:
    """Where the batches of a record of that length begin and end, for sums of `dim` numbers; `pieces` at most."""
    batches = min(pieces, length, max(FEWEST_BATCHES, max(1, pieces // 1024) * BATCH_NUMBERS // dim))
    bounds = np.linspace(0, length, batches + 1).astype(np.int64)
    bounds.flags.writeable = False  # it is kept
    return bounds


def fold(
    record: Record,
    block_sum: BlockSum,
    bounds: Positions | None = None,
    how: Folding = ALONE,
    kept: Kept | None = None,
) -> list[Part]:
    """The sum over each stretch of the record, from bounds[i] to before bounds[i + 1]; by default over all of it.

    With `kept`, a sum that was begun before goes on.
    """
    ends = np.array([0, record.length]) if bounds is None else bounds
    totals = [block_sum.zero() for _ in ends[1:]] if kept is None else kept.totals
    with closing(grouped(record, block_sum, ends, how, 0 if kept is None else kept.row)) as groups:
        for group in groups:
            totals[group.stretch] = block_sum.add(totals[group.stretch], group.part)
            if kept is not None:
                kept.note(group.end)
    return totals


def grouped(
    record: Record, block_sum: BlockSum, bounds: Positions, how: Folding = ALONE, first: int = 0
) -> Generator[Group, None, None]:
    """The sums over groups of blocks from row `first` on, in their order: here, or where the record has them made."""
    rows = record.block_rows(block_sum.least)
    size = sum(getattr(array, "nbytes", 0) for array in block_sum.zero())
    group = max(GROUP, WORTH * size, record.length * record.row_bytes // MOST_GROUPS)
    extent = Extent(rows, rows * max(1, group // (rows * record.row_bytes)), bounds, first, record.length)
    elsewhere = record.summed_elsewhere(block_sum, extent)
    if elsewhere is None:
        yield from groups_of(record, block_sum, extent, how)
        return
    with closing(elsewhere):
        for found in elsewhere:
            how.advanced(found.rows)
            yield found


def groups_of(
    record: Record, block_sum: BlockSum, extent: Extent, how: Folding = ALONE
) -> Generator[Group, None, None]:
    """The sums over the groups of these rows, made here."""
    rows = extent.rows
    together = TOGETHER if record.budget is None else min(TOGETHER, record.budget // 32)
    many = max(1, together // (rows * record.row_bytes)) if block_sum.least <= 16 else 1

    def work(blocks: list[RowBlock]) -> list[Part]:
        return [block_sum.of(block.columns) for block in blocks]

    alone = record.problem.users_code or not record.problem.on_host
    threads = 1 if alone else min(how.threads, -(-(extent.last - extent.first) // (rows * many)) or 1)
    ahead = 2 * threads if record.budget is None else threads + 1
    blocks = _blocks(record, extent, aside=ahead * many * rows * record.row_bytes)
    narrow = one_thread_each() if record.problem.on_host else nullcontext()
    total, begun = block_sum.zero(), extent.first
    with narrow, ThreadPoolExecutor(threads) as pool, closing(blocks):
        for done, parts in _in_order(pool if threads > 1 else None, work, _groups(blocks, many), ahead):
            for block, part in zip(done, parts, strict=True):
                total = block_sum.add(total, part)
                how.advanced(block.rows)
                if block.closes:
                    yield Group(block.stretch, total, block.end - begun, block.end)
                    total, begun = block_sum.zero(), block.end


def one_thread_each() -> Any:
    """Linear algebra on one thread: its own threads would add in another order on another machine.

    Going back to several takes tens of milliseconds, so that who sums several times does it once around all.
    """
    return _controller().limit(limits=1, user_api="blas")


@functools.lru_cache(maxsize=1)
def _controller() -> Any:
    return threadpoolctl.ThreadpoolController()  # looks at every loaded library, once


def _groups(blocks: Iterable[RowBlock], count: int) -> Iterator[list[RowBlock]]:
    iterator = iter(blocks)
    while group := list(islice(iterator, count)):
        yield group


def _in_order(
    pool: ThreadPoolExecutor | None,
    work: Callable[[list[RowBlock]], list[Part]],
    groups: Iterator[list[RowBlock]],
    ahead: int,
) -> Iterator[tuple[list[RowBlock], list[Part]]]:
    """The work on each group, in their order, with no more than `ahead` of them under way."""
    if pool is None:
        for group in groups:
            yield group, work(group)
        return
    waiting = deque((group, pool.submit(work, group)) for group in islice(groups, ahead - 1))
    while waiting:
        waiting.extend((group, pool.submit(work, group)) for group in islice(groups, 1))
        done, future = waiting.popleft()
        yield done, future.result()


def _blocks(record: Record, extent: Extent, aside: int) -> Generator[RowBlock, None, None]:
    """The blocks of these rows; one that comes in several parts is put together in memory of a pool, which stays."""
    edges, pool = _edges(extent), functools.cache(Pool)
    start, end, stretch, closes = next(edges, (0, 0, 0, False))
    have = extent.first
    begun: dict[str, Any] = {}
    with closing(record.parts(extent.first, aside, extent.last)) as parts:
        for begin, columns in parts:
            last = begin + int(next(iter(columns.values())).shape[0])
            while have < (until := min(end, last)):
                here = {name: _straight(column[have - begin : until - begin]) for name, column in columns.items()}
                if until - have < end - start:
                    begun = begun or {name: pool().like(column, end - start) for name, column in here.items()}
                    for name, column in here.items():
                        begun[name][have - start : until - start] = column
                    here = begun
                have = until
                if until == end:
                    yield RowBlock(stretch, here, end - start, end, closes)
                    begun = {}
                    start, end, stretch, closes = next(edges, (end, end, stretch, closes))


def _edges(extent: Extent) -> Iterator[tuple[int, int, int, bool]]:
    """First row, the row after the last, and stretch of every block, and whether its group ends there."""
    for stretch, (begin, stop) in enumerate(pairwise(extent.bounds.tolist())):
        for start in range(begin, stop, extent.rows):
            if extent.first <= start < extent.last:
                end = min(start + extent.rows, stop)
                yield start, end, stretch, end == stop or (end - begin) % extent.group == 0


def _straight(column: Any) -> Any:
    """The rows of a column side by side in memory, as they are on disk: products would differ in their last bit."""
    return np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column


class Batches(NamedTuple):
    """F̂ on each of up to 32 consecutive batches of the record, a row each, and their numbers of samples."""

    means: Vector
    sizes: NDArray[np.int64]

    @property
    def mean(self) -> Vector:
        """F̂ over the whole record."""
        return np.asarray(self.sizes / self.sizes.sum() @ self.means)


def operator_batches(
    record: Record, points: Iterable[Vector], how: Folding = ALONE, kept: Kept | None = None
) -> list[Batches]:
    """F̂ at each of the points by batches, in one pass over the record in order."""
    places = np.array(list(points))
    bounds = batch_bounds(record.length, record.dim, how.pieces)
    if kept is None and not record.problem.on_host:
        sums = record.problem.stretch_sums(places, next(record.parts(0))[1], bounds)
        how.advanced(record.length)
    else:
        sums = np.array([part for (part,) in fold(record, OperatorSum(record.problem, places), bounds, how, kept)])
    return as_batches(record, places, sums, bounds)


def as_batches(record: Record, points: Vector, sums: Vector, bounds: Positions) -> list[Batches]:
    """The means of these sums over batches, of shape (batches, points, d), for each point."""
    sizes = np.diff(bounds)
    means = sums / sizes[:, None, None]
    means += record.problem.penalty_diagonal(points.shape[1]) * points
    return [Batches(means[:, index], sizes) for index in range(len(points))]
