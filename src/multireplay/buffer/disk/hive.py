"""Folders of Parquet files: those of one level, or of folders called key=value, whose keys are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from multireplay.buffer.disk.files import natural, visible
from multireplay.buffer.disk.remote import AnyPath, RemotePath
from multireplay.errors import InputError

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""The value of a key that is missing."""
PARQUET = (".parquet", ".pq")


class TableFiles(NamedTuple):
    """Files in the natural order of their paths, and for every key of their folders its value in each of them."""

    files: Sequence[AnyPath]
    keys: Mapping[str, Sequence[str | None]]


def table_files(folder: AnyPath) -> TableFiles:
    """The Parquet files in a folder and the folders key=value in it: part-2 before part-10, month=9 before month=10."""
    found = _far(folder) if isinstance(folder, RemotePath) else _near(folder, ())
    found = sorted(found, key=lambda one: [natural(part) for part in (*one[0], one[1].name)])
    levels = [[part.partition("=") for part in between] for between, _ in found]
    names = [tuple(name for name, _, _ in level) for level in levels]
    for (between, file), level, here in zip(found, levels, names, strict=True):
        other = next((part for part, (name, sign, _) in zip(between, level, strict=True) if not (name and sign)), None)
        if other is not None:
            raise InputError(_mixed(folder, other))
        if here != names[0] or len(set(here)) < len(here):
            shown = ["/".join(one) or "no key" for one in (names[0], here)]
            raise InputError(f"{found[0][1]} is in folders of {shown[0]}, but {file} in folders of {shown[1]}")
    values = {
        name: [None if level[place][2] == NOTHING else unquote(level[place][2]) for level in levels]
        for place, name in enumerate(names[0] if names else ())
    }
    return TableFiles([file for _, file in found], values)


def _near(folder: Path, between: tuple[str, ...]) -> list[tuple[tuple[str, ...], AnyPath]]:
    there = visible(folder)
    found: list[tuple[tuple[str, ...], AnyPath]] = [(between, one) for one in there if one.suffix in PARQUET]
    deeper = [one for one in there if one.suffix not in PARQUET and one.is_dir()]
    keyed = [one for one in deeper if "=" in one.name]
    if (found and deeper) or len(keyed) not in (0, len(deeper)):
        raise InputError(_mixed(folder, next(one for one in deeper if found or one not in keyed).name))
    return found + [below for one in keyed for below in _near(one, (*between, one.name))]


def _far(folder: RemotePath) -> list[tuple[tuple[str, ...], AnyPath]]:
    parts = [(one, one.path.removeprefix(folder.path).strip("/").split("/")) for one in folder.files()]
    return [
        (tuple(names[:-1]), one)
        for one, names in parts
        if one.suffix in PARQUET and not any(name.startswith((".", "_")) for name in names)
    ]


def _mixed(folder: AnyPath, name: str) -> str:
    how = "put all files on one level, or all in folders called key=value"
    return f"{folder} has a folder {name} besides Parquet files; {how}"
