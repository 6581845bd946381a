"""Where the rows are: a small description from which a worker opens the same record, lazily and once."""

from __future__ import annotations

import os
import tempfile
import weakref
import zlib
from functools import lru_cache
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np

from multireplay.buffer import Buffer, StoredBuffer
from multireplay.buffer.disk.layout import MappedColumn, resolve
from multireplay.buffer.disk.opening import find_source
from multireplay.buffer.disk.scaled import Scaled, ScaledBuffer
from multireplay.errors import InputError

KEPT = 4
"""Records that a worker keeps open: an opened one holds no files, but the indexes of all of them."""
MEMORY = 2**29
"""Bytes with which a record that was in memory is read."""


class Where(NamedTuple):
    """A record on disk or in object storage: the path, what its columns are made of, and the memory to read it with."""

    path: Any
    columns: tuple[tuple[str, MappedColumn], ...]
    memory: int
    rows: int
    left_out: bytes
    """Rows that are left out: the steps from one to the next, packed."""
    scaled: Scaled | None
    """How features are standardized as they are read, if they are."""
    fingerprint: str
    """Of the record as it was when the run began: a worker that finds another one refuses."""


def where_is(stored: StoredBuffer) -> Where:
    """The description of a record that is not in memory; a relative path is that of the process that asks."""
    (label, columns, left_out), path = stored.made_of, stored.where
    if path is None:
        raise InputError(f"workers cannot open {label} by themselves: write it to Parquet files, and open those")
    if isinstance(path, Path):
        path = Path(os.path.abspath(path))
    scaled = stored.scaled if isinstance(stored, ScaledBuffer) else None
    packed = zlib.compress(np.diff(left_out, prepend=0).tobytes(), 1)
    return Where(path, tuple(columns.items()), stored.memory, len(stored), packed, scaled, stored.fingerprint())


@lru_cache(maxsize=KEPT)
def opened(where: Where) -> StoredBuffer:
    """The record that a description is of, opened here; its files have to be those that were described."""
    left_out = np.cumsum(np.frombuffer(zlib.decompress(where.left_out), dtype=np.int64))
    source = find_source(where.path, where.memory)
    stored = StoredBuffer(source, dict(where.columns), where.memory, None, left_out)
    if where.scaled is not None:
        stored = ScaledBuffer(stored, where.scaled, min(len(stored), where.rows))
    if stored.fingerprint() != where.fingerprint:
        raise InputError(f"{where.path} has changed since the run began: a file of it was written, added or removed")
    return stored


def brought_to_disk(buffer: Buffer) -> StoredBuffer:
    """A record in memory as a folder of .npy files, for workers on this machine; the folder goes with what is given."""
    folder = tempfile.mkdtemp(prefix="multireplay-")
    try:
        path = Path(folder, "record")
        buffer.save(path)
        source = find_source(path, MEMORY)
        stored = StoredBuffer(source, resolve({name: name for name in buffer}, source), MEMORY, buffer.feature_names)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(stored, rmtree, folder, ignore_errors=True)
    return stored
