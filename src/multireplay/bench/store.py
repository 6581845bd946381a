"""Finished instances on disk, so that an interrupted run goes on where it was and no other run is taken for it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import multireplay
from multireplay._check import Vector
from multireplay._write import completed, save_text
from multireplay.errors import InputError

Arrays = dict[str, Vector]
"""What one instance leaves, by name."""

NO_MATTER = {
    "cli", "report", "show", "estimators", "rl", "torchrl", "__main__.py", "online.py",
    "bench/pictures.py", "bench/table.py", "bench/scores.py", "bench/demo.py", "bench/demo_files.py",
    "bench/claims.py", "bench/paired.py", "bench/theory_claims.py", "bench/reproduction.py", "tables",
}  # fmt: skip
"""Rooms and files of the library that no number of an instance depends on."""


@cache
def code_version() -> str:
    """A digest of the library's sources, but for those that do not matter: after a change all is worked out again."""
    root = Path(multireplay.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name not in NO_MATTER and name.split("/")[0] not in NO_MATTER:
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def digest_of(settings: Mapping[str, Any]) -> str:
    """A short name for settings that can be written as JSON."""
    return hashlib.sha256(_spelled(settings).encode()).hexdigest()[:16]


def _spelled(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, ensure_ascii=False, indent=1) + "\n"


class Store:
    """One folder of finished instances that depend on the same settings and the same code.

    The folder's name carries a digest of both, so that instances of other settings, or of an older version of the
    code, are never mixed in; settings.json inside spells them out. Instances are plain .npz files of numbers.
    """

    def __init__(self, out: Path, name: str, settings: Mapping[str, Any]) -> None:
        whole = {"code": code_version(), **settings}
        slug = "".join(letter if letter.isalnum() or letter == "-" else "-" for letter in name)
        self.settings = _spelled(whole)
        self.folder = (out / "instances" / f"{slug}-{digest_of(whole)}").absolute()  # workers may be elsewhere

    def path(self, phase: str, instance: int) -> Path:
        return self.folder / f"{phase}-{instance:04d}.npz"

    def has(self, phase: str, instance: int) -> bool:
        return self.path(phase, instance).exists()

    def save(self, phase: str, instance: int, arrays: Arrays) -> None:
        """Write one instance; the file appears only when it is complete."""
        path = self.path(phase, instance)
        save_text(path.parent / "settings.json", self.settings)
        with completed(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def load(self, phase: str, instance: int) -> Arrays:
        path = self.path(phase, instance)
        try:
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (ValueError, EOFError, zipfile.BadZipFile) as damage:
            raise InputError(f"{path} is damaged ({damage}): delete it, and it is worked out again") from None
