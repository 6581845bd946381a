"""What kind of file is this: the one door to all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk.chained import ChainColumns, opened_in_chains
from multireplay.buffer.disk.files import named, visible
from multireplay.buffer.disk.folder import PAGE_NAME, open_saved, recover
from multireplay.buffer.disk.hive import PARQUET, TableFiles, table_files
from multireplay.buffer.disk.layout import BARE, resolve, resolve_time
from multireplay.buffer.disk.memory import bytes_of
from multireplay.buffer.disk.npy import ArrayFile, ArraySource
from multireplay.buffer.disk.remote import AnyPath, RemotePath, as_path
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.disk.stream import check_order
from multireplay.buffer.disk.zipped import open_members
from multireplay.errors import InputError

FEATHER = (".feather", ".arrow", ".ipc")
TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat")
PACKED = (".gz", ".bz2", ".zst")
"""What a text table may be packed in."""
STORE_NAME = "store.json"
"""What the folder of a stream has in it."""


def open_buffer(
    path: Any,
    columns: Any = None,
    memory: Any = "512 MB",
    time: Any = None,
    names: Iterable[str] | None = None,
    groups: Any = None,
) -> Buffer | StoredBuffer:
    """A buffer from a file or folder, as `Buffer.open` says."""
    budget = bytes_of(memory)
    return opened(
        _partitioned(path, time is not None) or find_source(path, budget), columns, budget, time, names, groups
    )


def opened(
    source: Source,
    columns: Any,
    budget: int,
    time: Any = None,
    names: Iterable[str] | None = None,
    groups: Any = None,
) -> Buffer | StoredBuffer:
    """A buffer of the columns of a source, loaded if it fits."""
    if groups is None and columns is None and "groups" in source.fields:  # as Buffer.save writes them
        groups = "groups"
    chosen = resolve(columns, source, (time, groups))
    as_text = source.in_tables and time in source.refused and time not in source.times
    in_order = time is not None and groups is None and not as_text
    if in_order:
        check_order(source, resolve_time(time, source), budget)
    stored = StoredBuffer(source, chosen, budget, names)
    wanted = ChainColumns(groups, time, checked=in_order or time is None)
    found = opened_in_chains(stored, source, wanted) if wanted else stored
    if isinstance(found, Buffer):
        return found
    if found is stored and stored.nbytes <= budget // 2:
        return stored.load()
    found.blocks().close()  # raises if the budget is too small for the smallest blocks
    return found


def find_source(given: Any, memory: int, dialect: Any = None) -> Source:
    """The columns of a file or folder, here or elsewhere, by what its name ends in or what it holds.

    What says itself how it is opened, such as a file and a recipe for its columns, has `as_source`.
    """
    if hasattr(given, "as_source"):
        found: Source = given.as_source(memory)
        return found
    path = as_path(given)
    with named(f"{path} cannot be read"):
        source = _found(path, memory, dialect)
    source.where = path if isinstance(path, RemotePath) else path.absolute()
    return source


def _partitioned(given: Any, in_time: bool) -> Source | None:
    """The columns of what is Dask's, which is imported by whoever gives it."""
    if isinstance(given, str | os.PathLike | tuple | RemotePath):
        return None
    from multireplay.buffer.disk.partitions import partitioned

    return partitioned(given, in_time)


def _found(path: AnyPath, memory: int, dialect: Any) -> Source:
    if isinstance(path, Path):
        recover(path)
        if not path.exists():
            raise InputError(f"{path} does not exist")
    if path.is_dir():
        return _folder(path)
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        if isinstance(path, RemotePath):
            raise InputError(
                f"{path} is elsewhere, and a {suffix} file is read from a disk: bring it here, or write it as Parquet"
            )
        return ArraySource(str(path), {BARE: ArrayFile.open(path)} if suffix == ".npy" else open_members(path))
    if suffix in PARQUET:
        return _parquet(path, TableFiles([path], {}))
    if suffix in FEATHER:
        from multireplay.buffer.disk.whole import FeatherSource

        return FeatherSource(path, memory)
    unpacked = Path(path.stem).suffix.lower() if suffix in PACKED else suffix
    if unpacked in TEXT:
        from multireplay.buffer.disk.whole import CsvSource

        return CsvSource(path, memory, dialect)
    kinds = ".npy, .npz, .parquet, .feather, .csv (.tsv, .txt, also .gz)"
    if suffix in (".xls", ".xlsx", ".ods"):
        raise InputError(f"{path} is a workbook: save its sheet as .csv")
    raise InputError(f"{path} is none of {kinds}, nor a folder of .npy or Parquet files")


def _folder(path: AnyPath) -> Source:
    if isinstance(path, RemotePath):
        tables = table_files(path)
        if not tables.files:
            raise InputError(f"{path} has no Parquet files in it; of what is elsewhere, only those make up a folder")
        return _parquet(path, tables)
    if (path / PAGE_NAME).exists():
        return open_saved(path)
    if (path / STORE_NAME).exists():
        from multireplay.streaming.store.columns import MappedRows  # who writes it knows how to read it

        return MappedRows(path)
    there = visible(path)
    arrays = [file for file in there if file.suffix == ".npy"]
    if not arrays:
        tables = table_files(path)
        if tables.files:
            return _parquet(path, tables)
        found = ", ".join(file.name for file in there[:10]) or "nothing"
        raise InputError(f"{path} has no .npy or Parquet files in it, but {found}")
    if any(file.suffix in PARQUET for file in there):
        raise InputError(f"{path} holds both .npy and Parquet files: open one kind, in a folder of its own")
    return ArraySource(str(path), {file.stem: ArrayFile.open(file) for file in arrays})


def _parquet(path: AnyPath, tables: TableFiles) -> Source:
    from multireplay.buffer.disk.parquet import ParquetSource  # pyarrow takes a while to come in

    return ParquetSource(str(path), tables)
