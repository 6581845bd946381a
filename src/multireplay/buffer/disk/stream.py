"""Blocks of rows in order: filled, checked, with the rows that a shift reaches over, and read ahead by a thread."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import numpy as np

from multireplay.buffer.columns import Array
from multireplay.buffer.disk.layout import Assembly, Layout
from multireplay.buffer.disk.memory import Pool, in_words
from multireplay.buffer.disk.source import Source
from multireplay.errors import InputError

T = TypeVar("T")

BLOCK = 2**24
"""Bytes of a block, where the budget allows it: larger ones are not read faster."""
IN_FLIGHT = 4  # one at the caller, one ready, one being read, and the copies that some layouts need


def block_rows(assembly: Assembly, memory: int, overlap: int, aside: int = 0) -> int:
    """Rows of a block, such that all that is in flight stays within the budget.

    To leave so many bytes aside, blocks are made up to four times smaller.
    """
    a_row = max(assembly.row_bytes, assembly.scratch_bytes, 1)
    overhead = assembly.source.overhead(assembly.names)
    room = (memory - overhead) // IN_FLIGHT
    rows = min(BLOCK, max(room - aside // IN_FLIGHT, room // 4)) // a_row - overlap
    if rows < 1:
        needed = overhead + IN_FLIGHT * a_row * (overlap + 1)
        raise InputError(
            f"memory={in_words(memory)!r} is too little to read {assembly.source.label}; it needs at least "
            f"{in_words(needed * 1.1)}"
        )
    return rows if rows < 8 else rows // 8 * 8


def stream(
    assembly: Assembly, first: int, last: int, rows: int, overlap: int = 0
) -> Generator[tuple[int, dict[Layout, Array]], None, None]:
    """Blocks of `rows` rows from `first` to before `last`; each has `overlap` rows more, with which the next begins."""
    pool = Pool()
    tails: dict[Layout, Array] = {}
    with closing(assembly.source.reader(assembly.names, first)) as reader:
        for start in range(first, last, rows):
            count = min(rows, last - start) + overlap
            known = len(next(iter(tails.values()))) if tails else 0
            block = {layout: pool.array(field, rows + overlap)[:count] for layout, field in assembly.fields.items()}
            for layout, tail in tails.items():
                block[layout][:known] = tail
            fresh = {layout: array[known:] for layout, array in block.items()}
            assembly.read(reader, fresh, start + known)
            if overlap:  # copies: the caller may write into its block
                tails = {layout: array[count - overlap :].copy() for layout, array in block.items()}
            yield start, block
            del block, fresh


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """These items in their order, each prepared by a thread while the caller has the one before.

    An exception of `items` is raised where its item would have come. The thread ends with the last item, or when this
    generator is closed, at the latest after the item it is at.
    """
    with closing(items), ThreadPoolExecutor(1, "multireplay-read-ahead") as thread:
        pending = thread.submit(_next, items)
        while ready := pending.result():
            pending = thread.submit(_next, items)
            yield ready.pop()


def _next(items: Generator[T, None, None]) -> list[T]:
    """The next item in a list, so that handing it on leaves no reference behind; an empty list at the end."""
    for item in items:
        return [item]
    return []


def check_order(source: Source, time: Layout, memory: int) -> None:
    """Read the time column once and raise where it goes back, within a file or from one file to the next."""
    name = time.parts[0].name
    assembly = Assembly(source, [time])
    before = np.empty(0, assembly.fields[time].dtype)
    with closing(read_ahead(stream(assembly, 0, source.rows, block_rows(assembly, memory, 0)))) as blocks:
        for start, block in blocks:
            times = np.concatenate([before, block[time]])
            back = np.flatnonzero(times[1:] < times[:-1])
            if len(back):
                row = start - len(before) + int(back[0])
                (last, at), (file, inside) = source.place(name, row), source.place(name, row + 1)
                where = f"row {at} of the same file" if last == file else f"the last row of {last}"
                raise InputError(
                    f"the rows are not in time order: {file} has {name} = {times[back[0] + 1]} at row {inside} "
                    f"(counting from 0), after {times[back[0]]} in {where}"
                )
            before = times[-1:].copy()  # a view would keep them all
