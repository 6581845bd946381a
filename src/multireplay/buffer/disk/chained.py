"""RowChains of a record in a file: its groups and its time column are read, and no row is made of two of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.buffer.buffer import Buffer, buffer_of
from multireplay.buffer.chains import RowChains
from multireplay.buffer.disk.gathered import gathered
from multireplay.buffer.disk.layout import Assembly, resolve_time
from multireplay.buffer.disk.memory import in_words
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.disk.stream import block_rows, stream
from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.tables import ChainedRows

BATCH = 2**16
A_ROW = 64
"""Bytes that finding chains takes for every row, at most, unless they are groups that lie one after the other."""
NONE_LEFT = "no row of {} is left: every chain is too short for shifts that far"


class ChainColumns(NamedTuple):
    """The stored columns that say which series a row is of and when it was, if any."""

    groups: Any = None
    time: Any = None
    checked: bool = True
    """Whether it is known already that time does not go back."""

    def __bool__(self) -> bool:
        return self.groups is not None or self.time is not None


def opened_in_chains(stored: StoredBuffer, source: Source, wanted: ChainColumns) -> Buffer | StoredBuffer:
    """The record without rows that are made of two chains, in memory if there is room, otherwise on disk."""
    first, last = stored.reach
    if stored.nbytes > stored.memory // 2 or A_ROW * source.rows > stored.memory:
        straight = first == last and wanted.checked  # every row is of one stored row
        return stored if straight else _on_disk(stored, source, wanted)
    labels, found = _chains(source, wanted, stored.memory)
    across = _crossing(np.flatnonzero(found.starts), stored)
    straight = _is_straight(found.rows)
    if (len(across) or not straight) and stored.nbytes > stored.memory // 4:
        return _without(stored if straight else _gathered(stored, source, wanted.groups)[0], source, across)
    buffer = stored.load(None if straight else found.rows)
    across = _going_on(across, buffer["terminated"][across] if "terminated" in buffer else None)
    labels = None if labels is None else labels[found.rows][first:][: len(buffer)]
    chains = RowChains((np.cumsum(found.starts) - 1)[first:][: len(buffer)], labels, 0, found.sentences)
    if not len(across):
        return buffer_of(buffer.columns, buffer.feature_names, chains)
    kept = np.delete(np.arange(len(buffer)), across)
    if not len(kept):
        raise InputError(NONE_LEFT.format(source.label))
    left = len(across)
    said = f"{left} row{'s' * (left > 1)} left out, because what would be put together is of two chains."
    here = chains.taken(kept)
    return buffer_of(
        {name: array[kept] for name, array in buffer.columns.items()}, buffer.feature_names,
        RowChains(here.numbers, here.labels, left, (*chains.sentences, said)),
    )  # fmt: skip


def _on_disk(stored: StoredBuffer, source: Source, wanted: ChainColumns) -> StoredBuffer:
    """A record that is too large to load, without rows of two chains."""
    if wanted.time is None:
        starts = group_starts(source, wanted.groups, stored.memory)
        if starts is None:
            stored, starts = _gathered(stored, source, wanted.groups)
        return _without(stored, source, _crossing(starts, stored))
    if A_ROW * source.rows > stored.memory:
        raise InputError(
            f"the gaps in time of {source.label} take memory={in_words(A_ROW * source.rows)!r} to find; give that, or "
            "open it without time"
        )
    _, found = _chains(source, wanted, stored.memory)
    if stored.reach[0] == stored.reach[1]:
        return stored
    if not _is_straight(found.rows):
        stored, _ = _gathered(stored, source, wanted.groups)
    return _without(stored, source, _crossing(np.flatnonzero(found.starts), stored))


def _without(stored: StoredBuffer, source: Source, across: Positions) -> StoredBuffer:
    over = stored.take(across, ["terminated"])["terminated"] if len(across) and "terminated" in stored.names else None
    across = _going_on(across, over)
    if len(across) == len(stored):
        raise InputError(NONE_LEFT.format(source.label))
    return stored.without(across) if len(across) else stored


def _crossing(starts: Positions, stored: StoredBuffer) -> Positions:
    """The rows that shifts make of stored rows before a start of a chain, the first left out, and from it on."""
    rows = np.unique(starts[1:, None] - 1 - np.arange(*stored.reach))
    return rows[(rows >= 0) & (rows < len(stored))]


def _going_on(across: Positions, terminated: Any) -> Positions:
    """Those of the rows after which something is read: not where an episode has terminated."""
    return across if terminated is None else across[~as_numpy(terminated).astype(bool)]


def _is_straight(rows: Positions) -> bool:
    return bool((rows == np.arange(len(rows))).all())


def _gathered(stored: StoredBuffer, source: Source, name: Any) -> tuple[StoredBuffer, Positions]:
    """The record by group, on disk, and the rows with which groups begin."""

    def labels() -> Iterator[NDArray[Any]]:
        row = 0
        for piece in _pieces(source, name, stored.memory):
            yield _labelled(source, name, piece, row)
            row += len(piece)

    return gathered(stored, source, labels)


def group_starts(source: Source, name: Any, memory: int) -> Positions | None:
    """The stored rows with which groups begin, of a column that is read piece by piece; None where they take turns."""
    starts, seen, last, row = [], set(), None, 0
    for piece in _pieces(source, name, memory):
        labels = _labelled(source, name, piece, row)
        for at in np.flatnonzero(np.append(row == 0 or labels[0] != last, labels[1:] != labels[:-1])).tolist():
            if labels[at] in seen:
                return None
            seen.add(str(labels[at]))
            starts.append(row + at)
        last, row = labels[-1], row + len(labels)
    return np.array(starts, dtype=np.int64)


def _chains(source: Source, wanted: ChainColumns, memory: int) -> tuple[NDArray[Any] | None, ChainedRows]:
    """The group of every row, if there are groups, and the chains."""
    from multireplay.tables import as_times, chained  # pyarrow takes a while to come in

    name = wanted.groups
    labels = None if name is None else _labelled(source, name, _read(source, name, memory))
    try:
        times = None if wanted.time is None else as_times(_read(source, wanted.time, memory), str(wanted.time))
        return labels, chained(np.ones(source.rows, dtype=bool), labels, times, source.at)
    except InputError as error:
        raise InputError(f"{source.label}: {error}") from None


def _labelled(source: Source, name: Any, piece: Any, row: int = 0) -> NDArray[Any]:
    """The groups of rows from this one on."""
    from multireplay.tables.cells import as_labels

    try:
        return as_labels(piece, name, row)
    except InputError as error:
        raise InputError(f"{source.label}: {error}") from None


def _read(source: Source, name: Any, memory: int) -> Any:
    """A stored column as Arrow's, whatever it holds."""
    import pyarrow as pa

    return pa.chunked_array(list(_pieces(source, name, memory)))


def _pieces(source: Source, name: Any, memory: int) -> Iterator[Any]:
    """A stored column piece by piece."""
    import pyarrow as pa

    refused = isinstance(name, str) and name in source.refused and source.in_tables
    layout = None if refused else resolve_time(name, source)
    if layout is None or source.in_tables:
        stored = name if layout is None else layout.parts[0].name
        for batch in cast(Any, source).batches([stored], 0, BATCH):
            yield batch.data.column(stored)
        return
    assembly = Assembly(source, [layout])
    with closing(stream(assembly, 0, source.rows, block_rows(assembly, memory, 0))) as blocks:
        for _, block in blocks:
            yield pa.array(np.array(block[layout]))
