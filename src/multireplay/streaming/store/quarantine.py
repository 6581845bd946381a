"""Rows that cannot be used, put aside in a text file a line each, with their position and why."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.streaming.given import readable

BESIDE = ("time", "group")
"""Columns beside those of the problem: one number a row."""


class Quarantine:
    """The side file of a store, ``quarantine.ndjson``. What is in it is in the journal too, as a count."""

    def __init__(self, folder: Path, count: int, position: int, waits: bool) -> None:
        self.path, self.count, self._waits = folder / "quarantine.ndjson", count, waits
        self.cut(position)

    def add(self, position: int, row: Mapping[str, Any], why: str) -> None:
        """Write a row."""
        text = json.dumps({"position": position, "why": why, "row": {name: _plain(row[name]) for name in row}})
        with self.path.open("ab") as file:
            start = file.tell()
            try:
                file.write(f'{text[:-1]}, "crc32": {zlib.crc32(text.encode())}}}\n'.encode())
                file.flush()
                if self._waits:
                    os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), start)
                raise

    def cut(self, position: int) -> None:
        """Remove lines of rows that will come again, as the journal does not have them."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        lines = data.splitlines(keepends=True)
        while lines and (not lines[-1].endswith(b"\n") or _position(lines[-1]) >= position):
            lines.pop()
        size = sum(map(len, lines))
        if size < len(data):
            os.truncate(self.path, size)


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The rows in a side file, and how many lines are damaged."""
    found, damaged = [], 0
    for line in path.read_bytes().splitlines() if path.exists() else []:
        body, _, check = line.rpartition(b', "crc32": ')
        if check != b"%d}" % zlib.crc32(body + b"}"):
            damaged += 1
            continue
        found.append(json.loads(body + b"}"))
    return found, damaged


def _position(line: bytes) -> int:
    try:
        return int(json.loads(line)["position"])
    except (ValueError, KeyError, TypeError):
        return -1


def _plain(value: Any) -> Any:
    """A value as JSON has it; numbers that JSON has no name for are texts."""
    value = value.to_numpy() if hasattr(value, "to_numpy") else value
    found = getattr(value, "tolist", lambda: value)()
    if isinstance(found, list | tuple):
        return [_plain(entry) for entry in found]
    if isinstance(found, float) and not np.isfinite(found):
        return f"{found}"
    return found if found is None or isinstance(found, bool | int | float | str) else f"{found}"


def rows_in(given: Mapping[str, Any], known: Mapping[str, int]) -> int | None:
    """How many rows there are in what was given to `observe`: None where it is one row without an axis of time.

    Raises where columns are not of one length: it cannot be said then how many rows were meant.
    """
    readable(given)
    given = {name: value for name, value in given.items() if value is not None or name not in BESIDE}
    depth = {np.ndim(value) - known[name] for name, value in given.items() if name in known}
    if depth == {-1}:
        return None
    lengths = {int(np.shape(value)[0]) for value in given.values() if np.ndim(value)}
    if depth != {0} or len(lengths) != 1 or not all(np.ndim(given[name]) for name in BESIDE if name in given):
        shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in given.items())
        raise InputError(f"it cannot be said how many rows these are: the shapes are {shapes}")
    return lengths.pop()


def part_of_rows(given: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Some rows of a block, as the same kind of columns."""
    return {
        name: getattr(value, "iloc", value)[start:stop] if np.ndim(value) else value for name, value in given.items()
    }
