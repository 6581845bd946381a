"""The folder form: one .npy file a column, and a page that says what should be there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multireplay.buffer.disk.arrays import ArraySource
from multireplay.buffer.disk.files import visible
from multireplay.buffer.disk.npy import ArrayFile
from multireplay.buffer.disk.sums import Sums
from multireplay.errors import InputError

PAGE_NAME = "multireplay.json"
FORMAT = "multireplay buffer"
VERSION = 1


@dataclass(frozen=True)
class Entry:
    """What the page says of one column."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    sums: Sums


def write_page(entries: list[Entry]) -> str:
    """The page's text."""
    columns = [
        {
            "name": entry.name,
            "file": entry.file,
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "crc32": {"rows": entry.sums.chunk, "values": list(entry.sums.values)},
        }
        for entry in entries
    ]
    return json.dumps({"format": FORMAT, "version": VERSION, "rows": entries[0].shape[0], "columns": columns}, indent=1)


def open_folder(folder: Path) -> ArraySource:
    """The columns of a folder: those of its page, or every .npy file where there is none."""
    page = folder / PAGE_NAME
    if page.exists():
        return ArraySource(str(folder), {entry.name: _open(folder, entry) for entry in _read_page(page)})
    files = [path for path in visible(folder) if path.suffix == ".npy"]
    return ArraySource(str(folder), {path.stem: ArrayFile.open(path) for path in files})


def _open(folder: Path, entry: Entry) -> ArrayFile:
    path = folder / entry.file
    if not path.exists():
        raise InputError(f"{path} is missing: {folder / PAGE_NAME} says that it holds the column {entry.name!r}")
    found = ArrayFile.open(path, entry.sums)
    told = (entry.dtype, entry.shape, False)
    if (found.header.dtype.str, found.header.shape, found.header.fortran) != told:
        raise InputError(
            f"{path} holds {found.header.dtype.str} of shape {found.header.shape}, but {folder / PAGE_NAME} says "
            f"{entry.dtype} of shape {entry.shape}: it is not the file that was saved"
        )
    return found


def _read_page(page: Path) -> list[Entry]:
    try:
        told: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))
        if told["format"] != FORMAT or told["version"] != VERSION:
            raise InputError(f"{page} is of version {told['version']}; this program reads version {VERSION}")
        return [_entry(column) for column in told["columns"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{page} cannot be understood ({type(error).__name__}: {error}); is it corrupt?") from None


def _entry(column: dict[str, Any]) -> Entry:
    shape = tuple(int(side) for side in column["shape"])
    sums = Sums(int(column["crc32"]["rows"]), tuple(int(value) for value in column["crc32"]["values"]))
    if sums.chunk < 1 or len(sums.values) != -(-shape[0] // sums.chunk):
        raise ValueError(f"the checksums of {column['name']!r} are not as many as its rows need")
    return Entry(str(column["name"]), str(column["file"]), str(column["dtype"]), shape, sums)
