"""The folder form: one .npy file a column, and a page that says what should be there.

It is written into a folder beside the wanted one, which takes its name only when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np

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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
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
    wanted = Path(path).absolute()
    _check_place(wanted)
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _beside(wanted, "unfinished")
        try:
            columns = _write_columns(unfinished, fields, rows, blocks)
            page = {"format": FORMAT, "version": VERSION, "rows": rows, "columns": columns, "feature_names": names}
            with (unfinished / PAGE_NAME).open("w", encoding="utf-8") as file:
                json.dump(page, file, indent=1)
                _to_disk(file)
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
            _to_disk(file)
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


def _to_disk(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _put(unfinished: Path, wanted: Path) -> None:
    """Give the finished folder its name; what was there before goes only once the new one is in its place."""
    if not wanted.exists():
        unfinished.rename(wanted)
        return
    before = _beside(wanted, "replaced")
    wanted.rename(before / "old")
    try:
        unfinished.rename(wanted)
    except OSError:
        (before / "old").rename(wanted)
        raise
    finally:
        shutil.rmtree(before, ignore_errors=True)


def _beside(wanted: Path, what: str) -> Path:
    """A new hidden folder in the same place, hence on the same disk."""
    found = wanted.with_name(f".{wanted.name}-{uuid.uuid4().hex[:8]}.{what}")
    found.mkdir()
    return found
