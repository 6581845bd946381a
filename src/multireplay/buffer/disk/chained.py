"""RowChains of a record in a file: its groups and its time column are read, and no row is made of two of them."""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.buffer import Buffer, buffer_of
from multireplay.buffer.chains import RowChains
from multireplay.buffer.disk.layout import Assembly, resolve_time
from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.disk.stream import block_rows, stream
from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError

BATCH = 2**16
A_ROW = 64
"""Bytes that finding the chains takes for every row, at most."""


class ChainColumns(NamedTuple):
    """The stored columns that say which series a row is of and when it was, if any."""

    groups: Any = None
    time: Any = None

    def __bool__(self) -> bool:
        return self.groups is not None or self.time is not None


def opened_in_chains(stored: StoredBuffer, source: Source, wanted: ChainColumns) -> Buffer | StoredBuffer:
    """The record in memory without rows that are made of two chains; or on disk, if there are no such rows."""
    fits = stored.nbytes <= stored.memory // 2
    first, last = stored.reach
    large = A_ROW * source.rows > stored.memory
    if first == last and (large or not fits):
        return stored  # every row is of one stored row
    if large:
        raise InputError(
            f"the chains of {source.label} take memory={in_words(A_ROW * source.rows)!r} to find; give that, or open "
            "it without groups and time"
        )
    labels = None if wanted.groups is None else _labels(source, wanted.groups, stored.memory)
    found = _chains(source, wanted, labels, stored.memory)
    numbers = np.cumsum(found.starts) - 1
    count = len(numbers) - last
    across = numbers[first : first + count] != numbers[last : last + count]
    straight = bool((found.rows == np.arange(len(found.rows))).all())
    if not (fits if straight and not across.any() else stored.nbytes <= stored.memory // 4):
        if straight and not across.any():
            return stored
        row = int(np.argmax(across))
        raise InputError(
            f"{across.sum()} rows of {source.label} would be made of two chains, the first at row {row} (counting from "
            "0), and rows are left out, or brought together, in memory alone: open it with "
            f"memory={in_words(5 * stored.nbytes)!r}, or store next_features as a column"
        )
    buffer = stored.load(None if straight else found.rows)
    if "terminated" in buffer:
        across &= ~as_numpy(buffer["terminated"]).astype(bool)  # what comes next is not read there
    labels = None if labels is None else labels[found.rows][first:][:count]
    chains = RowChains(numbers[first:][:count], labels, 0, found.sentences)
    if not across.any():
        return buffer_of(buffer.columns, buffer.feature_names, chains)
    kept = np.flatnonzero(~across)
    if not len(kept):
        raise InputError(f"no row of {source.label} is left: every chain is too short for shifts that far")
    left = int(across.sum())
    said = f"{left} row{'s' * (left > 1)} left out, because what would be put together is of two chains."
    here = chains.taken(kept)
    return buffer_of(
        {name: array[kept] for name, array in buffer.columns.items()}, buffer.feature_names,
        RowChains(here.numbers, here.labels, left, (*chains.sentences, said)),
    )  # fmt: skip


def _chains(source: Source, wanted: ChainColumns, labels: NDArray[Any] | None, memory: int) -> Any:
    from multireplay.tables import as_times, chained  # pyarrow takes a while to come in

    try:
        times = None if wanted.time is None else as_times(_read(source, wanted.time, memory), str(wanted.time))
        return chained(np.ones(source.rows, dtype=bool), labels, times)
    except InputError as error:
        raise InputError(f"{source.label}: {error}") from None


def _labels(source: Source, name: Any, memory: int) -> NDArray[Any]:
    """The group of every stored row."""
    from multireplay.tables.cells import as_labels

    try:
        return as_labels(_read(source, name, memory), name)
    except InputError as error:
        raise InputError(f"{source.label}: {error}") from None


def _read(source: Source, name: Any, memory: int) -> Any:
    """A stored column as Arrow's, whatever it holds."""
    import pyarrow as pa

    if isinstance(name, str) and name in source.refused and source.in_tables:
        batches = cast(Any, source).batches([name], 0, BATCH)
        return pa.chunked_array([batch.data.column(name) for batch in batches])
    layout = resolve_time(name, source)
    if source.in_tables:
        batches = cast(Any, source).batches([layout.parts[0].name], 0, BATCH)
        return pa.chunked_array([batch.data.column(0) for batch in batches])
    assembly = Assembly(source, [layout])
    with closing(stream(assembly, 0, source.rows, block_rows(assembly, memory, 0))) as blocks:
        return pa.chunked_array([pa.array(np.array(block[layout])) for _, block in blocks])
