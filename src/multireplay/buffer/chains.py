"""Several series in one record: which rows are one chain, in which every row follows on the one before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import one_a_row
from multireplay.errors import InputError


@dataclass(frozen=True, eq=False)
class RowChains:
    """The chains of a record, one after the other: its groups, or what lies between gaps in time.

    They are taken as independent of one another. Series that share what happens at the same time (shops in one town,
    stocks on one day) are not: their rows are then worth less than they seem, and intervals are too short.

    Examples
    --------
    >>> import multireplay as mr
    >>> buffer = mr.Buffer(targets=[1.0, 2.0, 3.0, 4.0], groups=["a", "a", "b", "b"])
    >>> buffer.chains.count, buffer.chains.lengths, buffer.groups
    (2, (2, 2), array(['a', 'a', 'b', 'b'], dtype='<U1'))
    """

    numbers: NDArray[np.int64]
    """For every row the number of its chain, which does not decrease."""
    labels: NDArray[Any] | None = None
    """The group of every row, if there are groups."""
    left_out: int = 0
    """Rows that were left out because what they put together is of two chains."""
    sentences: tuple[str, ...] = ()
    """What to know: groups, gaps, times that are there twice, rows left out."""

    @classmethod
    def of(cls, groups: Any, rows: int) -> RowChains:
        """The chains of labels, one a row; the rows of a group must be together."""
        labels = np.asarray(groups)
        one_a_row("groups", labels.shape, rows, "the record")
        nothing = np.flatnonzero(
            [label is None or label != label for label in labels] if labels.dtype.kind in "Of" else []
        )
        if len(nothing):
            raise InputError(f"groups has nothing at row {nothing[0]} (counting from 0)")
        first = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        names = labels[first].tolist()
        if len(set(names)) < len(names):
            earliest = {name: place for place, name in reversed(list(enumerate(names)))}
            again = next(place for place, name in enumerate(names) if earliest[name] < place)
            row, before = int(first[again]), int(first[again] - 1)
            raise InputError(
                f"the rows of a group must be together, but group {labels[row]} comes back at row {row} (counting from "
                f"0), after {labels[before]}: sort all columns by group, with order = np.argsort(groups, "
                "kind='stable'), which keeps the order in time"
            )
        said = f"{len(names)} groups, each a chain of its own, taken as independent of the others."
        return cls(np.repeat(np.arange(len(first)), np.diff(np.append(first, rows))), labels, 0, (said,))

    @property
    def count(self) -> int:
        """How many chains there are."""
        return len(self.lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many rows each has."""
        starts = np.flatnonzero(np.append(True, np.diff(self.numbers) != 0))
        return tuple(np.diff(np.append(starts, len(self.numbers))).tolist())

    def taken(self, rows: slice | NDArray[Any]) -> RowChains:
        """Those of some of the rows, in their order."""
        return replace(self, numbers=self.numbers[rows], labels=None if self.labels is None else self.labels[rows])
