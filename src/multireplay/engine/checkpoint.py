"""A file from which a run that was interrupted goes on."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.errors import InputError

EVERY = 30.0
"""Seconds between two savings while a run goes on."""

State = Mapping[str, NDArray[Any]]


class Checkpoint:
    """Keeps the state of one pass over a record in a file: every half minute, and when the run is interrupted.

    Parameters
    ----------
    path : path
        The file. If it is there, the run goes on from it; it is removed when the run ends.
    settings : str
        What the run was asked to do. A file that was written for another run is refused.
    """

    def __init__(self, path: str | os.PathLike[str], settings: str) -> None:
        self.path = Path(path)
        self.digest = hashlib.sha256(settings.encode()).hexdigest()
        self._noted: tuple[int, State] | None = None
        self._saved = time.monotonic()

    def restore(self, state: State) -> int:
        """Write the state that was kept into these arrays; the number of rows that have been read."""
        if not self.path.exists():
            return 0
        try:
            with np.load(self.path) as kept:
                if str(kept["digest"]) != self.digest:
                    raise InputError(
                        f"checkpoint {self.path} belongs to another run (other data, problem or arguments); "
                        "remove it, or give another file"
                    )
                for name, array in state.items():
                    found = kept[name]
                    if (found.shape, found.dtype) != (array.shape, array.dtype):
                        raise ValueError(f"{name!r} is {found.dtype} of shape {found.shape}")
                    array[...] = found
                return int(kept["row"])
        except InputError:
            raise
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise InputError(f"checkpoint {self.path} cannot be read ({error}); remove it to begin again") from error

    def note(self, row: int, state: State) -> None:
        """Remember where the run is, and save it if it is time."""
        self._noted = row, state
        if time.monotonic() - self._saved > EVERY:
            self.save()

    def save(self) -> None:
        """Write the file; it has its name only once it is complete."""
        if self._noted is None:
            return
        row, state = self._noted
        partial = self.path.with_name(self.path.name + ".partial")
        with partial.open("wb") as file:
            arrays: dict[str, Any] = {**state, "row": np.array(row), "digest": np.array(self.digest)}
            np.savez(file, **arrays)
        os.replace(partial, self.path)
        self._saved = time.monotonic()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.path.unlink(missing_ok=True)
        else:
            self.save()
