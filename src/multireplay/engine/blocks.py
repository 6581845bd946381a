"""Blocks of consecutive rows: which rows make one, and how they are put together from what a record hands out."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multireplay._check import Positions

if TYPE_CHECKING:
    from multireplay.buffer.columns import Columns
    from multireplay.buffer.record import Record


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


def blocks_of(record: Record, extent: Extent, aside: int) -> Generator[RowBlock, None, None]:
    """The blocks of these rows, put together from what the record hands out."""
    edges = _edges(extent)
    start, end, stretch, closes = next(edges, (0, 0, 0, False))
    waiting: list[Columns] = []
    have = extent.first  # the row after those that wait
    with closing(record.parts(extent.first, aside, extent.last)) as parts:
        for begin, columns in parts:
            last = begin + int(next(iter(columns.values())).shape[0])
            while start < end <= last:
                here = {name: _straight(column[have - begin : end - begin]) for name, column in columns.items()}
                yield RowBlock(stretch, _joined([*waiting, here]) if waiting else here, end - start, end, closes)
                waiting, have = [], end
                start, end, stretch, closes = next(edges, (end, end, stretch, closes))
            if have < last:  # copied, so that the memory of the part is free again
                waiting.append({name: column[have - begin :].copy() for name, column in columns.items()})
                have = last


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


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
