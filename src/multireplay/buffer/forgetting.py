"""A buffer from which samples are deleted at positions and appended at the end, without ever shifting a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from multireplay._check import Positions
from multireplay._jit import jit
from multireplay.buffer.foreign import as_numpy
from multireplay.errors import InputError


class ForgettingStore:
    """The list of Algorithm 1, in which "delete the sample at position p, append a new one" costs O(1) amortized.

    Deleting p_t at step t shifts what comes after it, so that step t reads index p_t + (t − 1) of the list as it was
    when the epoch began, continued by the appended samples. Rows stay where they were written; the rows deleted so
    far are a sorted list of row numbers, and one merge of two sorted lists at the beginning of an epoch translates
    all its indices. Rows are moved only when the 2B rows of memory are full, at most once in B/2 steps of a full run.

    It is made from packed samples as `Problem.samples` gives them, any number of them: they tell the widths and types.
    """

    def __init__(self, rows: Any, capacity: int) -> None:
        self.capacity = capacity
        self.samples = _changed(rows, lambda field: np.zeros((2 * capacity, *field.shape[1:]), dtype=field.dtype))
        self.numbers: Positions = np.zeros(2 * capacity, dtype=np.int64)
        self.seen = self.written = 0
        self.deleted: Positions = np.zeros(0, dtype=np.int64)
        self.targets: Positions = np.zeros(0, dtype=np.int64)

    @property
    def length(self) -> int:
        """Rows in the list, apart from those deleted in the epoch under way."""
        return self.written - len(self.deleted)

    @property
    def filling(self) -> bool:
        """Whether the first B samples are still coming in."""
        return self.written < self.capacity

    @property
    def first(self) -> Any:
        """The packed samples of the first B rows."""
        return _changed(self.samples, lambda field: field[: self.capacity])

    def check(self, rows: Any) -> None:
        """Raise unless the rows have the columns, widths and types of the first ones."""
        for name, new, old in zip(rows._fields, rows, self.samples, strict=True):
            if isinstance(old, np.ndarray) != isinstance(new, np.ndarray):
                had, has = ("with", "without") if isinstance(old, np.ndarray) else ("without", "with")
                raise InputError(f"the samples so far came {had} {name}, and these come {has}; give all or none")
            if isinstance(old, np.ndarray) and (new.shape[1:], new.dtype) != (old.shape[1:], old.dtype):
                raise InputError(
                    f"{name} was {old.dtype} of shape {old.shape[1:]} a sample so far, "
                    f"and is now {new.dtype} of shape {new.shape[1:]}"
                )

    def append(self, rows: Any, first: int, count: int) -> None:
        """Write rows first, …, first + count − 1 at the end."""
        end = self.written + count
        for new, old in zip(_arrays(rows), _arrays(self.samples), strict=True):
            old[self.written : end] = new[first : first + count]
        self.numbers[self.written : end] = np.arange(self.seen + 1, self.seen + count + 1)
        self.written = end
        self.seen += count

    def take_back(self, count: int) -> None:
        """Undo the last `append`."""
        self.written -= count
        self.seen -= count

    def name_of(self, row: int) -> str:
        """What to call the sample in a row (counting from 1) when something is wrong with it."""
        return f"sample {self.numbers[row - 1]} of the stream (counting from 1)"

    def begin_epoch(self, positions: Positions) -> None:
        """Work out which row each step of an epoch reads, from its increasing 1-based positions."""
        steps = len(positions)
        crowded = self.written + steps > 2 * self.capacity
        if crowded or len(self.deleted) ** 2 > 16 * self.capacity * steps:  # short epochs: keep the merges short too
            self._compact()
        indices = positions + np.arange(steps) - 1
        self.targets = _rows_of(indices, self.deleted)

    def end_epoch(self) -> None:
        """The samples of the epoch are deleted for good."""
        self.deleted = np.sort(np.concatenate([self.deleted, self.targets]), kind="stable")  # merges two sorted runs

    def state(self) -> dict[str, Any]:
        """All that is needed to go on with a new store for samples of the same kind, as numbers and arrays."""
        rows = [field[: self.written] for field in _arrays(self.samples)]
        places = {"numbers": self.numbers[: self.written], "deleted": self.deleted, "targets": self.targets}
        return {"rows": rows, "seen": self.seen, **places}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from the `state` of another store, of samples of the same kind."""
        fields = _arrays(self.samples)
        kinds = [[(field.shape[1:], field.dtype) for field in of] for of in (fields, state["rows"])]
        if kinds[0] != kinds[1]:
            raise InputError("the samples in the file are of other widths or types than those of this problem")
        self.written = len(state["numbers"])
        for field, rows in zip((*fields, self.numbers), (*state["rows"], state["numbers"]), strict=True):
            field[: self.written] = rows
        self.seen, self.deleted, self.targets = state["seen"], state["deleted"], state["targets"]

    def _compact(self) -> None:
        kept = np.delete(np.arange(self.written), self.deleted)
        for field in (*_arrays(self.samples), self.numbers):
            field[: len(kept)] = field[kept]
        self.written = len(kept)
        self.deleted = np.zeros(0, dtype=np.int64)


def as_block(
    sample: Mapping[str, Any], required: Mapping[str, int], optional: Mapping[str, int], reader: str
) -> dict[str, Any]:
    """Samples with a leading axis of time, added if one sample was given.

    The columns that are `required` and `optional` come with their number of dimensions in a block; `reader` is who
    reads them, for error messages.
    """
    known = {**required, **optional}
    unknown = [name for name in sample if name not in known]
    if unknown:
        raise InputError(f"{reader} reads {', '.join(known)}, not {', '.join(unknown)}")
    missing = [name for name in required if name not in sample]
    if missing:
        raise InputError(f"observe needs {', '.join(required)}; {', '.join(missing)} is missing")
    sparse = [name for name, values in sample.items() if issparse(values)]
    if sparse:
        raise InputError(
            f"{sparse[0]} is sparse; an online run stores dense rows. Give {sparse[0]}.toarray(), or for policy "
            "evaluation the numbers of the states: PolicyEvaluation(gamma, table=Psi) takes a sparse table"
        )
    depth = {np.ndim(values) - known[name] for name, values in sample.items()}
    if depth == {-1}:
        return {name: as_numpy(values)[np.newaxis] for name, values in sample.items()}
    if depth == {0}:
        return dict(sample)
    shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in sample.items())
    raise InputError(f"observe takes one sample or a block of them, but the shapes are {shapes}")


def _arrays(samples: Any) -> list[NDArray[Any]]:
    """The fields with a row a sample; others, such as a table of features, are of the problem."""
    return [field for field in samples if isinstance(field, np.ndarray)]


def _changed(samples: Any, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Any:
    return type(samples)(*(change(field) if isinstance(field, np.ndarray) else field for field in samples))


@jit
def _rows_of(indices: Positions, deleted: Positions) -> Positions:
    """The row of each index of the list, given the sorted row numbers that are no longer in it."""
    rows = np.empty_like(indices)
    passed = 0
    for t in range(len(indices)):
        while passed < len(deleted) and deleted[passed] <= indices[t] + passed:
            passed += 1
        rows[t] = indices[t] + passed
    return rows
