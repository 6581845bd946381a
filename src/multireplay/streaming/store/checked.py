"""A JSON file and the arrays that belong to it, both with checksums; nothing that is read is ever executed.

``name.json`` holds texts, numbers and the names of built-in classes; ``{"array": 3}`` in it is the third array of
``name.npy``, where arrays in NumPy's own format stand one after the other. The JSON file comes last, and makes both
valid.
"""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import completed
from multireplay.errors import InputError
from multireplay.online_file import described_or_named, made

VERSION = 1
"""Of the layout of a store; docs/stream_store.md describes it."""


class Damaged(InputError):
    """A file of a store is not as it was written."""


def save(path: Path, content: dict[str, Any]) -> int:
    """Write a file and its arrays, both complete and on the disk before they have their names; how many bytes."""
    arrays: list[Any] = []
    text = {name: described_or_named(value, arrays) for name, value in content.items()}
    entries, size = [], 0
    if arrays:
        with completed(path.with_suffix(".npy")) as file:
            for array in arrays:
                part = io.BytesIO()
                np.lib.format.write_array(part, np.asarray(array, order="C"), allow_pickle=False)
                data = part.getbuffer()
                entries.append({"length": len(data), "crc32": zlib.crc32(data)})
                file.write(data)
                size += len(data)
    whole = {"version": VERSION, "content": text, "arrays": entries}
    written = json.dumps({**whole, "crc32": _check(whole)}, indent=1).encode()
    with completed(path) as file:
        file.write(written)
    return size + len(written)


def load(path: Path, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """What was saved, or an error that says which file is damaged; what is `given` stands for what could not be."""
    whole = _whole(path)
    try:
        arrays = _arrays(path.with_suffix(".npy"), whole["arrays"])
        return {name: _made(path, name, text, arrays, given or {}) for name, text in whole["content"].items()}
    except InputError:
        raise
    except Exception as error:  # the checksums are right, so that somebody else wrote this
        raise Damaged(f"{path} is not what multireplay writes: {type(error).__name__}: {error}") from error


def alike(one: Any, other: Any) -> bool:
    """Whether a file would hold the same of two objects."""
    arrays: tuple[list[Any], list[Any]] = [], []
    texts = [described_or_named(value, found) for value, found in zip((one, other), arrays, strict=True)]
    return texts[0] == texts[1] and all(np.array_equal(*pair) for pair in zip(*arrays, strict=True))


def description(value: Any) -> str:
    """A problem as one text: what a file would hold of it, with a checksum of every array; one's own by its class."""
    arrays: list[Any] = []
    text = described_or_named(value, arrays)
    known = [[array.dtype.str, list(array.shape), zlib.crc32(array.tobytes())] for array in arrays]
    return json.dumps([{name: part for name, part in text.items() if name != "yours"}, known], sort_keys=True)


def refuse_another(before: str, problem: Any) -> None:
    """Raise where a `description` is not that of this problem, and say what differs."""
    (was, _), (now, _) = found = [json.loads(text) for text in (before, description(problem))]
    if found[0] == found[1]:
        return
    if was["is"] != now["is"]:
        raise InputError(f"this state is of a {was['is']}, and not of {problem!r}")
    pairs = {name: (value, now.get("with", {}).get(name)) for name, value in was.get("with", {}).items()}
    differ = [f"{name} was {json.dumps(a)}" for name, (a, b) in pairs.items() if a != b] or ["its arrays were others"]
    raise InputError(f"this state is of another problem than {problem!r}: {', '.join(differ)}")


def _made(path: Path, name: str, text: Any, arrays: list[Any], given: dict[str, Any]) -> Any:
    if isinstance(text, dict) and "yours" in text:
        if given.get(name) is None:
            own = f"{path.parent} was made with a {name} of your own, {text['yours']}, which a file cannot hold"
            raise InputError(f"{own}; give it again: mr.Stream.open(path, {name}=...)")
        if type(given[name]).__name__ != text["is"]:
            raise InputError(f"{path.parent} was made with {text['yours']} as its {name}, not {given[name]!r}")
        return given[name]
    return made(text, arrays)


def _whole(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        check = found.pop("crc32")
        version = found["version"]
        right = check == _check(found)
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged(f"{path} is damaged: it is not the JSON that was written") from None
    if not right:
        raise Damaged(f"{path} is damaged: its checksum is not that of its content")
    if version != VERSION:
        raise InputError(f"{path} is of version {version}, and this multireplay knows {VERSION}: use a newer one")
    return dict(found)


def _check(whole: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode())


def _arrays(path: Path, entries: list[dict[str, int]]) -> list[Any]:
    if entries and not path.exists():
        raise Damaged(f"{path} is not there, which belongs to {path.with_suffix('.json').name}")
    data = path.read_bytes() if entries else b""
    if len(data) != sum(entry["length"] for entry in entries):
        raise Damaged(f"{path} is damaged: it has {len(data)} bytes, which are not those that were written")
    arrays, at = [], 0
    for entry in entries:
        part = data[at : at + entry["length"]]
        if zlib.crc32(part) != entry["crc32"]:
            raise Damaged(f"{path} is damaged between bytes {at} and {at + len(part)}: a checksum is wrong")
        arrays.append(np.lib.format.read_array(io.BytesIO(part), allow_pickle=False))
        at += len(part)
    return arrays
