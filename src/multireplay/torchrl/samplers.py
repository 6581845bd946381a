"""TorchRL samplers that follow a replay plan, and the time order of the storage they sample from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torchrl.data.replay_buffers.samplers import Sampler  # type: ignore[import-untyped, import-not-found, unused-ignore]

from multireplay._check import whole_number
from multireplay._write import save_text
from multireplay.errors import InputError
from multireplay.replay import Dyadic, Multiscale, PlannedEpoch, Replay

Index: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]

STATE_FILE = "replay.json"
PLACE = ("epoch", "given", "rows", "oldest")


class PlanSampler(Sampler):  # type: ignore[misc, unused-ignore]
    """The rows of a storage in the order of a replay plan over its content, oldest row first.

    What is kept is where the plan stands: the epoch, the rows of it already given, and the number of rows and the
    oldest slot when it began. The positions themselves follow from that.

    The time order follows from the last slot written, for a storage is filled in turn, round and round. It has a cursor
    of its own, which also sees what other processes and other buffers write to it, but which a load does not bring
    back: a fresh storage has none then, and a used one keeps its old one. So the last slot is also kept here, and a
    cursor from before a load is not believed.
    """

    ran_out = False
    """True after the last batch of a pass; the next one begins a new pass over what the storage holds then."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self._last_slot: int | None = None
        self._outdated: int | None = None
        self._start_over()

    def _start_over(self) -> None:
        self._epoch = self._given = self._rows = self._oldest = 0  # no epoch has begun
        self.ran_out = False
        self._plan: tuple[PlannedEpoch, ...] | None = None

    def sample(self, storage: Any, batch_size: int) -> tuple[Index, dict[str, Any]]:
        """The slots of the next rows of the running epoch, at most `batch_size`, and what they are."""
        batch_size = whole_number("batch_size", batch_size, least=1)
        if not len(storage):
            raise RuntimeError("Cannot sample from an empty storage.")  # what TorchRL's own samplers raise
        columns = 1 if storage.ndim == 1 else storage.shape[1:].numel()
        plan, epoch = self._running(storage, columns)
        first = self._given
        count = min(batch_size, epoch.steps * columns - first)
        index = self._slots(epoch, first, count, storage, columns)
        self._given += count
        rest = [epoch.steps * columns - self._given, *(later.steps * columns for later in plan[self._epoch :])]
        self._remaining_batches = sum(-(-rows // batch_size) for rows in rest)
        self.ran_out = self._remaining_batches == 0
        if self.ran_out:
            self._epoch = 0
        return index, self._info(epoch, first, count, index)

    def _running(self, storage: Any, columns: int) -> tuple[tuple[PlannedEpoch, ...], PlannedEpoch]:
        """The epoch the next rows are from; where it begins here, on what the storage holds now."""
        if self._epoch:
            self._plan = self._plan or self.replay.plan(self._rows)  # there is none after a load
            epoch = self._plan[self._epoch - 1]
            if self._given < epoch.steps * columns:
                return self._plan, epoch
        rows, oldest = self._content(storage)
        plan = self.replay.plan(rows)
        self._epoch = self._epoch % len(plan) + 1
        self._plan, self._rows, self._oldest, self._given = plan, rows, oldest, 0
        return plan, plan[self._epoch - 1]

    def _slots(self, epoch: PlannedEpoch, first: int, count: int, storage: Any, columns: int) -> Index:
        """Slots of rows first, …, first + count − 1 of the epoch. A time has `columns` rows, one after the other."""
        begin, end = first // columns, -(-(first + count) // columns)
        positions = epoch.block(begin, end - begin)
        slots = (self._oldest + positions - 1) % self._rows
        device = getattr(storage, "device", None)
        device = None if device == "auto" else device
        if storage.ndim == 1:
            return torch.as_tensor(slots, device=device)
        row = np.arange(first, first + count)
        within = np.unravel_index(row % columns, tuple(storage.shape[1:]))
        return tuple(torch.as_tensor(part, device=device) for part in (slots[row // columns - begin], *within))

    def _info(self, epoch: PlannedEpoch, first: int, count: int, index: Index) -> dict[str, Any]:
        device = (index if isinstance(index, torch.Tensor) else index[0]).device
        new = torch.zeros(count, dtype=torch.bool, device=device)
        new[0] = first == 0
        info: dict[str, Any] = {"epoch": torch.full((count,), epoch.k, device=device), "new_epoch": new}
        if epoch.gap is not None:
            info["gap"] = torch.full((count,), epoch.gap, dtype=torch.float64, device=device)
        return info

    def can_sample(self, storage: Any, batch_size: int) -> bool:
        """Whether the storage holds enough rows for a plan."""
        if not len(storage):
            return False
        try:
            self.replay.plan(self._content(storage)[0])
        except InputError:
            return False
        return True

    def _content(self, storage: Any) -> tuple[int, int]:
        """Number of rows in time, and the slot of the oldest; a storage nobody was seen to write to is in order."""
        rows = len(storage) if storage.ndim == 1 else storage.shape[0]
        cursor = getattr(storage, "_last_cursor_index", None)
        if cursor is not None and cursor != self._outdated:
            self._last_slot = int(cursor)
        return rows, 0 if self._last_slot is None else (self._last_slot + 1) % rows

    def add(self, index: Any) -> None:
        """Note the slots of rows that were added, in the order the writer filled them."""
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
        self._last_slot, self._outdated = int(slots[-1]), None

    extend = add

    def _empty(self) -> None:
        self._last_slot, self._outdated = None, self._last_slot
        self._start_over()

    def state_dict(self) -> dict[str, Any]:
        """Where the plan stands, in numbers and words; −1 stands for a last slot that is not known."""
        return {
            "replay": repr(self.replay),
            **{name: getattr(self, f"_{name}") for name in PLACE},
            "ran_out": int(self.ran_out),
            "last": -1 if self._last_slot is None else self._last_slot,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken; the sampler must have been made with the same arguments."""
        saved = state_dict.get("replay")
        if saved != repr(self.replay):
            raise InputError(
                f"the saved sampler follows {saved}, this one {self.replay!r}: make it with the same arguments"
            )
        self._empty()
        for name in PLACE:
            setattr(self, f"_{name}", int(state_dict[name]))
        self.ran_out = bool(state_dict["ran_out"])
        last = int(state_dict["last"])
        self._last_slot = None if last < 0 else last

    def dumps(self, path: Any) -> None:
        """Write the state to a folder."""
        save_text(Path(path) / STATE_FILE, json.dumps(self.state_dict(), indent=1) + "\n")

    def loads(self, path: Any) -> None:
        """Read the state from a folder that `dumps` has written."""
        file = Path(path) / STATE_FILE
        if not file.exists():
            raise InputError(f"no {STATE_FILE} in {path}: that buffer was saved with another sampler")
        self.load_state_dict(json.loads(file.read_text(encoding="utf-8")))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_plan": None}  # it is made again where it is needed

    def __repr__(self) -> str:
        where = f"{self._given} rows into epoch {self._epoch}" if self._epoch else "at the start"
        return f"{type(self).__name__}({self.replay!r}, {where})"


class MultiscaleSampler(PlanSampler):
    """Batches in the order of the paper's Algorithm 1, for any TorchRL ``ReplayBuffer``.

    A pass over the B stored rows has epochs k = 1, …, K. Epoch k gives 2^k rows that are B/2^k apart in time, from
    the oldest to the newest. A learner following the paper restarts at every epoch and keeps the answer of each.

    Every batch comes with three entries, one value a row, in ``info`` and in the sample of a
    ``TensorDictReplayBuffer``: ``epoch`` is k, ``gap`` is B/2^k, and ``new_epoch`` is True on the first row of an
    epoch. No batch straddles two epochs: the last one of an epoch may be shorter. After the last epoch ``ran_out`` is
    True, so that ``for batch in buffer`` makes one pass; the next batch begins the next pass.

    Rows may be added at any time and join in the next epoch; a slot that is overwritten meanwhile gives its new row.
    Time order is the order of writing, also after a full storage has begun to overwrite its oldest rows; it needs the
    default round-robin writer. ``buffer.dumps`` and ``buffer.loads``, as well as ``state_dict``, resume exactly, within
    an epoch too. In a storage with more than one dimension the one the buffer is extended along (``dim_extend``) is
    time, and each time gives all its rows, one after the other. ``prefetch=1`` keeps the order; with more threads
    TorchRL may swap batches.

    Parameters
    ----------
    epochs, phases
        As in `multireplay.Multiscale`; an epoch goes through its phases one after the other.

    Examples
    --------
    >>> import torch, multireplay as mr
    >>> from torchrl.data import LazyTensorStorage, ReplayBuffer
    >>> buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=mr.torchrl.MultiscaleSampler(), batch_size=4)
    >>> _ = buffer.extend(torch.arange(8))
    >>> _ = buffer.extend(torch.tensor([8, 9]))  # overwrites rows 0 and 1
    >>> for batch in buffer:
    ...     print(batch.tolist())
    [5, 9]
    [3, 5, 7, 9]
    [2, 3, 4, 5]
    [6, 7, 8, 9]
    >>> batch, info = buffer.sample(return_info=True)
    >>> info["epoch"].tolist(), info["gap"].tolist(), info["new_epoch"].tolist()
    ([1, 1], [4.0, 4.0], [True, False])
    """

    def __init__(self, epochs: int | None = None, phases: int | Literal["all"] = 1) -> None:
        super().__init__(Multiscale(epochs=epochs, phases=phases, sweep=True))


class DyadicSampler(PlanSampler):
    """Every stored row once a pass, coarse to fine in time, for any TorchRL ``ReplayBuffer``.

    The first 2^k rows of a pass are those of `MultiscaleSampler`'s epoch k, so that rows close in the pass are far
    apart in time. It takes the place of a ``SamplerWithoutReplacement`` and needs no random numbers. ``new_epoch`` is
    True on the first row of a pass. All else is as with `MultiscaleSampler`: the order of writing is time, a pass is
    over what was stored when it began, its last batch may be shorter, and a saved buffer resumes exactly.

    Examples
    --------
    >>> import torch, multireplay as mr
    >>> from torchrl.data import LazyTensorStorage, ReplayBuffer
    >>> buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=mr.torchrl.DyadicSampler(), batch_size=3)
    >>> _ = buffer.extend(torch.arange(1, 9))
    >>> [batch.tolist() for batch in buffer]
    [[8, 4, 2], [6, 1, 5], [3, 7]]
    """

    def __init__(self) -> None:
        super().__init__(Dyadic())
