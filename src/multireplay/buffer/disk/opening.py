"""What kind of file is this: the one door to all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk.chained import ChainColumns, opened_in_chains
from multireplay.buffer.disk.files import visible
from multireplay.buffer.disk.folder import PAGE_NAME, open_saved, recover
from multireplay.buffer.disk.layout import BARE, resolve, resolve_time
from multireplay.buffer.disk.memory import bytes_of
from multireplay.buffer.disk.npy import ArrayFile, ArraySource
from multireplay.buffer.disk.source import Source
from multireplay.buffer.disk.stored import StoredBuffer
from multireplay.buffer.disk.stream import check_order
from multireplay.buffer.disk.zipped import open_members
from multireplay.errors import InputError

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat")
PACKED = (".gz", ".bz2", ".zst")
"""What a text table may be packed in."""


def open_buffer(
    path: str | os.PathLike[str],
    columns: Any = None,
    memory: Any = "512 MB",
    time: Any = None,
    names: Iterable[str] | None = None,
    groups: Any = None,
) -> Buffer | StoredBuffer:
    """A buffer from a file or folder, as `Buffer.open` says."""
    budget = bytes_of(memory)
    source = find_source(Path(path), budget)
    if groups is None and columns is None and "groups" in source.fields:  # as Buffer.save writes them
        groups = "groups"
    chosen = resolve(columns, source, (time, groups))
    as_text = source.in_tables and time in source.refused and time not in source.times
    if time is not None and groups is None and not as_text:
        check_order(source, resolve_time(time, source), budget)
    stored = StoredBuffer(source, chosen, budget, names)
    wanted = ChainColumns(groups, time)
    found = opened_in_chains(stored, source, wanted) if wanted else stored
    if isinstance(found, Buffer):
        return found
    if found is stored and stored.nbytes <= budget // 2:
        return stored.load()
    found.blocks().close()  # raises if the budget is too small for the smallest blocks
    return found


def find_source(path: Path, memory: int, dialect: Any = None) -> Source:
    """The columns of a file or folder, by what its name ends in or what it holds."""
    recover(path)
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        return _folder(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return ArraySource(str(path), {BARE: ArrayFile.open(path)})
    if suffix == ".npz":
        return ArraySource(str(path), open_members(path))
    if suffix in PARQUET:
        return _parquet(path, [path])
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


def _folder(path: Path) -> Source:
    there = visible(path)
    arrays = [file for file in there if file.suffix == ".npy"]
    tables = [file for file in there if file.suffix in PARQUET]
    if (path / PAGE_NAME).exists():
        return open_saved(path)
    if arrays and not tables:
        return ArraySource(str(path), {file.stem: ArrayFile.open(file) for file in arrays})
    if arrays:
        raise InputError(f"{path} holds both .npy and Parquet files: open one kind, in a folder of its own")
    if not tables:
        found = ", ".join(file.name for file in there[:10]) or "nothing"
        raise InputError(f"{path} has no .npy or Parquet files in it, but {found}")
    deeper = [file for file in there if file.is_dir()]
    if deeper:
        raise InputError(f"{path} has a folder {deeper[0].name} besides Parquet files; put all files on one level")
    return _parquet(path, tables)


def _parquet(path: Path, files: list[Path]) -> Source:
    from multireplay.buffer.disk.parquet import ParquetSource  # pyarrow takes a while to come in

    return ParquetSource(str(path), files)
