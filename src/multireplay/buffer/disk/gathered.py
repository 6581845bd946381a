"""A record whose groups take turns, brought together on disk: the rows of each one after the other, in their order."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.buffer.disk.layout import Assembly, Layout, MappedColumn, Part
from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.disk.npy import ArrayFile, ArraySource
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.disk.stream import block_rows, stream
from multireplay.errors import InputError

Pieces = Callable[[], Iterator[NDArray[Any]]]
"""The groups of all rows, piece by piece, from the beginning whenever it is called."""


def gathered(stored: StoredBuffer, source: Source, pieces: Pieces) -> tuple[StoredBuffer, Positions]:
    """The record in a folder for the time that it is used, by group, and the rows with which groups begin.

    Groups are in the order in which they appear. One pass counts their rows and one brings each to its place, so that
    nothing is kept in memory but a number a group.
    """
    counts: Counter[str] = Counter()
    for labels in pieces():
        found, first, count = np.unique(labels, return_index=True, return_counts=True)
        for at in np.argsort(first).tolist():
            counts[str(found[at])] += int(count[at])
    starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    columns = stored.made_of[1]
    layouts = list(dict.fromkeys(column.layout for column in columns.values()))
    folder = Path(tempfile.mkdtemp(prefix="multireplay-"))
    try:
        room = shutil.disk_usage(folder).free
        if stored.nbytes > room:
            raise InputError(
                f"the groups of {source.label} take turns: to bring them together takes {in_words(stored.nbytes)} in "
                f"{folder.parent}, which has {in_words(room)}; sort it by group, or set TMPDIR to where there is room"
            )
        _write(Assembly(source, layouts), folder, stored.memory, _places(pieces, dict(starts)))
        names = {layout: f"c{number}" for number, layout in enumerate(layouts)}
        origin = sha256(json.dumps(source.identity(sorted({p.name for one in layouts for p in one.parts}))).encode())
        stamp = int.from_bytes(origin.digest()[:4], "big")  # of what it was made of, where others have when it was
        for name in names.values():
            os.utime(folder / f"{name}.npy", (stamp, stamp))
        together = ArraySource(source.label, {name: ArrayFile.open(folder / f"{name}.npy") for name in names.values()})
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(together, shutil.rmtree, folder, ignore_errors=True)
    together.where = folder
    mapped = {
        name: MappedColumn(Layout((Part(names[column.layout]),), column.layout.flat), column.shift)
        for name, column in columns.items()
    }
    begun = np.array(list(starts.values()), dtype=np.int64)
    return StoredBuffer(together, mapped, stored.memory, stored.feature_names), begun


def _places(pieces: Pieces, free: dict[str, int]) -> Iterator[Positions]:
    """Where every row goes, piece by piece; `free` has the first place of every group, and is used up."""
    for labels in pieces():
        names, codes, count = np.unique(labels, return_inverse=True, return_counts=True)
        order = np.argsort(codes, kind="stable")
        within = np.empty(len(labels), dtype=np.int64)
        within[order] = np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count)
        yield np.array([free[str(name)] for name in names], dtype=np.int64)[codes] + within
        for name, more in zip(names, count.tolist(), strict=True):
            free[str(name)] += more


def _write(assembly: Assembly, folder: Path, memory: int, places: Iterator[Positions]) -> None:
    """An array file a layout, each run of neighbours at its place."""
    rows, here = assembly.source.rows, np.empty(0, dtype=np.int64)
    with ExitStack() as stack:
        files = []
        for number, field in enumerate(assembly.fields.values()):
            file = stack.enter_context((folder / f"c{number}.npy").open("wb"))
            kind = {"descr": np.lib.format.dtype_to_descr(field.dtype), "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, {**kind, "shape": field.shape(rows)})
            files.append((file, file.tell(), field.row_bytes))
            file.truncate(file.tell() + rows * field.row_bytes)
        blocks = stack.enter_context(closing(stream(assembly, 0, rows, block_rows(assembly, memory, 0, memory // 2))))
        for _, block in blocks:
            count = len(next(iter(block.values())))
            while len(here) < count:
                here = np.concatenate([here, next(places)])
            there, here = here[:count], here[count:]
            order = np.argsort(there, kind="stable")
            runs = np.flatnonzero(np.diff(there[order], prepend=-2) != 1)
            for (file, header, size), array in zip(files, block.values(), strict=True):
                for run in np.split(order, runs[1:]):
                    file.seek(header + int(there[run[0]]) * size)
                    file.write(np.ascontiguousarray(array[run]).tobytes())
