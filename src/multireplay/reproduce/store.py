"""Finished instances on disk, so that an interrupted run goes on where it was."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from multireplay.reproduce.curves import Arrays


class Store:
    """One folder of finished instances of one experiment at one size and seed.

    The folder's name carries a digest of the settings, so that instances of other settings are never mixed in.
    """

    def __init__(self, out: Path, name: str, size: str, seed: int, settings: str) -> None:
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        self.folder = (out / "instances" / f"{name}-{size}-seed{seed}-{digest}").absolute()  # workers may be elsewhere

    def path(self, phase: str, instance: int) -> Path:
        return self.folder / f"{phase}-{instance:04d}.npz"

    def has(self, phase: str, instance: int) -> bool:
        return self.path(phase, instance).exists()

    def save(self, phase: str, instance: int, arrays: Arrays) -> None:
        """Write one instance; the file appears only when it is complete."""
        path = self.path(phase, instance)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("wb") as file:
            np.savez(file, **{name.replace("/", "|"): array for name, array in arrays.items()})  # type: ignore[arg-type]
        os.replace(partial, path)

    def load(self, phase: str, instance: int) -> Arrays:
        with np.load(self.path(phase, instance)) as file:
            return {name.replace("|", "/"): file[name] for name in file.files}

    def load_all(self, phase: str, count: int) -> list[Arrays]:
        return [self.load(phase, instance) for instance in range(count)]
