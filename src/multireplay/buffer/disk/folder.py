"""The folder form: one .npy file a column, and a page that says what should be there.

It is written into a folder beside the wanted one, which takes its name only when it is complete. A process that is
killed while the old folder makes way for the new one leaves both: `recover`, which opening calls, puts the new one in
its place, and the next save removes what is left over.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from multireplay._write import beside, leftovers, sync_folder, to_disk
from multireplay.buffer.columns import Array
from multireplay.buffer.disk import files
from multireplay.buffer.disk.files import Checksums, RunningChecksums
from multireplay.buffer.disk.npy import ArrayFile, ArraySource
from multireplay.buffer.disk.source import Field
from multireplay.buffer.names import Names, as_names, require_count
from multireplay.errors import InputError

PAGE_NAME = "multireplay.json"
FORMAT = "multireplay buffer"
VERSION = 1
_PIECE = 2**22
"""Bytes that are written at a time."""
_NEW, _OLD = "unfinished", "replaced"
"""How the hidden folders end that a save makes: the one it writes, and the one that made way for it."""
_PATIENCE = 2.0
"""Seconds that another process may take to put its folder in place of the old one."""


def open_saved(folder: Path) -> ArraySource:
    """The columns of a folder that was saved, as its page names them."""
    page = folder / PAGE_NAME
    try:
        told: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))
        if told["format"] != FORMAT or told["version"] != VERSION:
            raise InputError(f"{page} is of version {told['version']}; this program reads version {VERSION}")
        files = {str(column["name"]): _open(page, column) for column in told["columns"]}
        names = told.get("feature_names")
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{page} cannot be understood ({type(error).__name__}: {error}); is it corrupt?") from None
    found = ArraySource(str(folder), files)
    if names is not None:
        what = f"feature_names in {page}"
        found.feature_names = {"features": as_names(names, what)}
        if "features" in files:
            require_count(found.feature_names["features"], files["features"].field.width or 1, what)
    return found


def _open(page: Path, told: dict[str, Any]) -> ArrayFile:
    """The file of one column, if it is what the page says of it."""
    shape = tuple(int(side) for side in told["shape"])
    sums = Checksums(int(told["crc32"]["rows"]), tuple(int(value) for value in told["crc32"]["values"]))
    if sums.chunk < 1 or len(sums.values) != -(-shape[0] // sums.chunk):
        raise ValueError(f"the checksums of {told['name']!r} are not as many as its rows need")
    path = page.parent / str(told["file"])
    if path.parent != page.parent or path.name != told["file"] or path.name == "..":
        raise InputError(f"{page} names {told['file']!r} for the column {told['name']!r}, which is not in its folder")
    if not path.exists():
        raise InputError(f"{path} is missing: {page} says that it holds the column {told['name']!r}")
    found = ArrayFile.open(path, sums)
    if (found.dtype.str, found.shape, found.fortran) != (str(told["dtype"]), shape, False):
        raise InputError(
            f"{path} holds {found.dtype.str} of shape {found.shape}, but {page} says "
            f"{told['dtype']} of shape {shape}: it is not the file that was saved"
        )
    return found


def save_arrays(path: str | os.PathLike[str], columns: Mapping[str, Any], names: Names | None = None) -> None:
    """Write columns that are in memory, and the names of their features."""
    for name, array in columns.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"column {name!r} is a {type(array).__name__}; only dense columns can be saved")
    fields = {name: Field(array.dtype, array.shape[1] if array.ndim == 2 else None) for name, array in columns.items()}
    save_folder(path, fields, len(next(iter(columns.values()))), [columns], names)


def save_folder(
    path: str | os.PathLike[str],
    fields: Mapping[str, Field],
    rows: int,
    blocks: Iterable[Mapping[str, Array]],
    names: Names | None = None,
) -> None:
    """Write blocks of rows, which come in order, as a folder. A saved buffer that is there already is replaced."""
    wanted = Path(os.path.realpath(path))
    recover(wanted)
    _check_place(wanted)
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        for left in (*leftovers(wanted, _NEW), *leftovers(wanted, _OLD)):
            shutil.rmtree(left, ignore_errors=True)
        unfinished = beside(wanted, _NEW)
        unfinished.mkdir()
        try:
            columns = _write_columns(unfinished, fields, rows, blocks)
            page = {"format": FORMAT, "version": VERSION, "rows": rows, "columns": columns, "feature_names": names}
            with (unfinished / PAGE_NAME).open("w", encoding="utf-8") as file:
                json.dump(page, file, indent=1)
                to_disk(file)
            sync_folder(unfinished)
            _put(unfinished, wanted)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise InputError(f"the buffer could not be saved to {wanted}: {error.strerror or error}") from error


def _check_place(wanted: Path) -> None:
    if not wanted.exists():
        return
    if not wanted.is_dir():
        raise InputError(f"{wanted} is a file; a buffer is saved as a folder, give another name")
    there = list(wanted.iterdir())
    foreign = [item.name for item in there if item.suffix != ".npy" and item.name != PAGE_NAME]
    if foreign or (there and not (wanted / PAGE_NAME).exists()):
        example = foreign[0] if foreign else there[0].name
        raise InputError(f"{wanted} has other things in it, such as {example}; give the name of a new folder")


def _write_columns(
    folder: Path, fields: Mapping[str, Field], rows: int, blocks: Iterable[Mapping[str, Array]]
) -> list[dict[str, Any]]:
    names = _file_names(fields)
    running = {
        name: RunningChecksums(max(1, files.CHUNK_BYTES // field.row_bytes), rows) for name, field in fields.items()
    }
    sums: dict[str, list[int]] = {name: [] for name in fields}
    with ExitStack() as stack:
        opened = {name: stack.enter_context((folder / names[name]).open("wb")) for name in fields}
        for name, field in fields.items():
            header = {"descr": field.dtype.str, "fortran_order": False, "shape": field.shape(rows)}
            np.lib.format.write_array_header_1_0(opened[name], header)
        for block in blocks:
            for name, field in fields.items():
                step = max(1, _PIECE // field.row_bytes)
                for start in range(0, len(block[name]), step):
                    piece = np.ascontiguousarray(block[name][start : start + step], dtype=field.dtype)
                    opened[name].write(piece.data)
                    sums[name].extend(found for _, found in running[name].add(piece))
        for file in opened.values():
            to_disk(file)
    return [
        {
            "name": name,
            "file": names[name],
            "dtype": field.dtype.str,
            "shape": field.shape(rows),
            "crc32": {"rows": running[name].chunk, "values": sums[name]},
        }
        for name, field in fields.items()
    ]


def _file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for every column, distinct also where upper and lower case are the same."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = quote(name, safe=" ()+,=@[]{}")
        file, number = f"{stem}.npy", 1
        while file.lower() in taken:
            number += 1
            file = f"{stem}-{number}.npy"
        taken.add(file.lower())
        found[name] = file
    return found


def _put(unfinished: Path, wanted: Path) -> None:
    """Give the finished folder its name; what was there before goes only once the new one is in its place."""
    old = unfinished.with_suffix(f".{_OLD}")
    try:
        if wanted.exists():
            wanted.rename(old)
        unfinished.rename(wanted)
    except BaseException:
        if old.exists() and not wanted.exists():
            old.rename(wanted)
        raise
    sync_folder(wanted.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover(path: Path) -> None:
    """Put a saved folder in its place where a process was killed between taking the old one away and that.

    The old one goes only when the new one is complete, and so it is the new one that is put there. Where a process
    that is at work is just there, it is waited for.
    """
    wanted = Path(os.path.realpath(path))
    aside, deadline = f".{glob.escape(wanted.name)}.*.{_OLD}", time.monotonic() + _PATIENCE
    while not wanted.exists() and (under_way := list(wanted.parent.glob(aside))):
        for old in leftovers(wanted, _OLD)[-1:]:
            new = old.with_suffix(f".{_NEW}")
            with files.named(f"{path} was put aside as {old} by a save that was stopped, and cannot be put back"):
                (new if (new / PAGE_NAME).exists() else old).rename(wanted)
            return
        if time.monotonic() > deadline:
            raise InputError(f"{path} is being saved by another process, which has put it aside as {under_way[0]}")
        time.sleep(0.01)
