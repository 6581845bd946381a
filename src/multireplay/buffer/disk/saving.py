"""Writing the folder form: into a folder beside the wanted one, which takes its name only when it is complete."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from multireplay.buffer.disk.folder import PAGE_NAME, Entry, write_page
from multireplay.buffer.disk.source import Array, Field
from multireplay.buffer.disk.sums import Running, Sums, chunk_rows
from multireplay.errors import InputError

_PIECE = 2**22


def save_arrays(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Write columns that are in memory."""
    for name, array in columns.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"column {name!r} is a {type(array).__name__}; only dense columns can be saved")
    fields = {name: Field(array.dtype, array.shape[1] if array.ndim == 2 else None) for name, array in columns.items()}
    save_folder(path, fields, len(next(iter(columns.values()))), [columns])


def save_folder(
    path: str | os.PathLike[str], fields: Mapping[str, Field], rows: int, blocks: Iterable[Mapping[str, Array]]
) -> None:
    """Write blocks of rows, which come in order, as a folder. A saved buffer that is there already is replaced."""
    wanted = Path(path).absolute()
    _check_place(wanted)
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _beside(wanted, "unfinished")
        try:
            entries = _write_columns(unfinished, fields, rows, blocks)
            _write_file(unfinished / PAGE_NAME, write_page(entries).encode())
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
) -> list[Entry]:
    names = _file_names(fields)
    running = {name: Running(chunk_rows(field.row_bytes), rows) for name, field in fields.items()}
    sums: dict[str, list[int]] = {name: [] for name in fields}
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / names[name]).open("wb")) for name in fields}
        for name, field in fields.items():
            header = {"descr": field.dtype.str, "fortran_order": False, "shape": field.shape(rows)}
            np.lib.format.write_array_header_1_0(files[name], header)
        for block in blocks:
            for name, field in fields.items():
                step = max(1, _PIECE // field.row_bytes)
                for start in range(0, len(block[name]), step):
                    piece = np.ascontiguousarray(block[name][start : start + step], dtype=field.dtype)
                    files[name].write(piece.data)
                    sums[name].extend(found for _, found in running[name].add(piece))
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return [
        Entry(name, names[name], field.dtype.str, field.shape(rows), Sums(running[name].chunk, tuple(sums[name])))
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


def _write_file(path: Path, text: bytes) -> None:
    with path.open("wb") as file:
        file.write(text)
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
