"""Which slot of a storage holds the oldest row."""

from __future__ import annotations

from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from multireplay.errors import InputError


class Ring:
    """The last slot written, from which the time order of a storage follows: it is filled in turn, round and round.

    The storage has a cursor of its own, which also sees what other processes and other buffers write to it, but
    which a load does not bring back: a fresh storage has none then, and a used one keeps its old one. So the last
    slot is also kept here, and a cursor from before a load is not believed.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self.outdated: int | None = None

    def written(self, index: Any) -> None:
        """Note the slots a writer has just filled, in the order it filled them."""
        index = torch.as_tensor(-1 if index is None else index)  # both mean that a writer threw the row away
        slots = index[:, 0] if index.ndim == 2 else index.reshape(-1)
        if not len(slots):
            return
        moves = slots.diff()
        in_turn = (moves == 0) | (moves == 1) | (slots[1:] == 0)
        if not in_turn.all() or slots.min() < 0:
            raise InputError(
                "this buffer's writer does not fill the slots in turn, so that their time order is not known; "
                "use TorchRL's round-robin writer, its default"
            )
        self.last, self.outdated = int(slots[-1]), None

    def restore(self, last: int | None) -> None:
        """Take the last slot from a saved state; whatever cursor the storage has now is from before it."""
        self.last, self.outdated = last, self.last

    def content(self, storage: Any) -> tuple[int, int]:
        """Number of rows in time, and the slot of the oldest; a storage nobody was seen to write to is in order."""
        rows = len(storage) if storage.ndim == 1 else storage.shape[0]
        cursor = getattr(storage, "_last_cursor_index", None)
        if cursor is not None and cursor != self.outdated:
            self.last = int(cursor)
        return rows, 0 if self.last is None else (self.last + 1) % rows
