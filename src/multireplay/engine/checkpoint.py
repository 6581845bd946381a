"""A file from which a run that was interrupted goes on, and the passes of sums that it keeps."""

from __future__ import annotations

import os
import time
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions, Vector
from multireplay._write import completed, remove_orphans
from multireplay.engine.sums import (
    Batches,
    BlockSum,
    Folding,
    Kept,
    Part,
    as_batches,
    batch_bounds,
    fold,
    operator_batches,
)
from multireplay.errors import InputError

if TYPE_CHECKING:
    from multireplay.buffer.record import Record

EVERY = 30.0
"""Seconds between two savings while a run goes on."""
OFTEN = 0.5
"""Seconds between two copies of the state of a sum, from which an interrupted run can be saved."""
ROOM = 16
"""Passes of sums that a file has room for."""

State = Mapping[str, NDArray[Any]]


class Checkpoint:
    """Keeps the state of one run in a file: every half minute, and when the run is interrupted.

    If the file is there, the run goes on from it; it is removed when the run ends. One that was written for another
    run, with another fingerprint, is refused.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        folder = self.path.parent
        if self.path.is_dir():
            raise InputError(f"checkpoint {self.path} is a folder; give the name of a file")
        if not folder.is_dir():
            raise InputError(f"checkpoint {self.path}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK):
            raise InputError(f"checkpoint {self.path}: the folder {folder} cannot be written to")
        self.fingerprint = fingerprint
        remove_orphans(self.path)
        self._noted: tuple[int, State] | None = None
        self._saved, self._when = time.monotonic(), -np.inf

    def restore(self, state: State) -> int:
        """Write the state that was kept into these arrays; the number of rows that have been read."""
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                if str(kept["fingerprint"]) != self.fingerprint:
                    raise InputError(
                        f"checkpoint {self.path} belongs to another run (other data, problem or arguments); "
                        "remove it, or give another file"
                    )
                found = {name: kept[name] for name in state}
                row = int(kept["row"])
            for name, array in state.items():
                if (found[name].shape, found[name].dtype) != (array.shape, array.dtype):
                    raise ValueError(f"{name!r} is {found[name].dtype} of shape {found[name].shape}")
                array[...] = found[name]
            return row
        except FileNotFoundError:
            return 0
        except InputError:
            raise
        except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"checkpoint {self.path} cannot be read ({error}); remove it to begin again") from error

    @property
    def ripe(self) -> bool:
        """Whether the last note is so old that another one is worth a copy of the state."""
        return time.monotonic() - self._when > OFTEN

    def note(self, row: int, state: State) -> None:
        """Remember where the run is, and save it if it is time."""
        self._noted, self._when = (row, state), time.monotonic()
        if time.monotonic() - self._saved > EVERY:
            self.save()

    def save(self) -> None:
        """Write the file."""
        if self._noted is None:
            return
        row, state = self._noted
        arrays: dict[str, Any] = {**state, "row": np.array(row), "fingerprint": np.array(self.fingerprint)}
        with completed(self.path) as file:
            np.savez(file, allow_pickle=False, **arrays)
        self._saved = time.monotonic()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.path.unlink(missing_ok=True)
        else:
            self.save()


class KeptPasses:
    """F̂ by batches in pass after pass over the record, of which those that are done are not done again."""

    def __init__(self, record: Record, checkpoint: Checkpoint) -> None:
        self.record, self.checkpoint, self.number = record, checkpoint, 0
        self.bounds = batch_bounds(record.length, record.dim)
        shape = len(self.bounds) - 1, record.dim
        self._done, self._sums, self._passes = np.zeros(1, np.int64), np.zeros(shape), np.zeros((ROOM, *shape))
        self._state = {"done": self._done, "sums": self._sums, "passes": self._passes}
        self._row = checkpoint.restore(self._state)

    def batches(self, x: Vector, how: Folding) -> Batches:
        """F̂(x) by batches: from the file if this pass was finished before, otherwise by reading the record."""
        number, self.number = self.number, self.number + 1
        if number >= ROOM:
            return operator_batches(self.record, [x], how)[0]
        if number < self._done[0]:
            how.advanced(self.record.length)
            return as_batches(self.record, x[None], self._passes[number][:, None], self.bounds)[0]
        start, self._row = self._row, 0
        how.advanced(start)
        totals: list[Part] = [(part[None],) for part in self._sums]  # views of the state
        found = operator_batches(self.record, [x], how, Kept(start, totals, self._note))[0]
        self._passes[number], self._done[0] = self._sums, number + 1
        self._sums[:] = 0.0
        self.checkpoint.note(0, _copies(self._state))
        return found

    def _note(self, row: int) -> None:
        if self.checkpoint.ripe:
            self.checkpoint.note(row, _copies(self._state))


def kept_fold(record: Record, block_sum: BlockSum, bounds: Positions, how: Folding, kept: Checkpoint) -> list[Part]:
    """A sum of arrays by stretches, as `fold` gives it, that goes on from a checkpoint."""
    totals = [block_sum.zero() for _ in bounds[1:]]
    state = {f"{place} {index}": array for place, total in enumerate(totals) for index, array in enumerate(total)}
    row = kept.restore(state)
    how.advanced(row)

    def note(reached: int) -> None:
        if kept.ripe:
            kept.note(reached, _copies(state))

    return fold(record, block_sum, bounds, how, Kept(row, totals, note))


def _copies(state: State) -> State:
    """An interruption may come while a sum is half added."""
    return {name: array.copy() for name, array in state.items()}
