"""Room for a trajectory that is being collected, and the errors that keep what was collected so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.rl.spaces import Array, Coding
from multireplay.rl.trajectory import Trajectory, Transition

CHECKED = 1024
"""Rows between two checks that observations and rewards are finite, and two moves of the progress bar."""


class CollectionError(InputError):
    """Collecting a trajectory failed; ``error.trajectory`` has the steps before that, or None if there are none."""

    def __init__(self, message: str, trajectory: Trajectory | None = None) -> None:
        super().__init__(message)
        self.trajectory = trajectory


class CollectionInterrupted(KeyboardInterrupt):
    """Ctrl-C during a collection; ``error.trajectory`` has the steps before that, or None if there are none."""

    def __init__(self, message: str, trajectory: Trajectory | None = None) -> None:
        super().__init__(message)
        self.trajectory = trajectory


class Collection:
    """Columns of a fixed length that are filled row by row, or a row for every sub-environment at a time."""

    def __init__(
        self,
        steps: int,
        observations: Coding,
        actions: Coding,
        name: str,
        advanced: Callable[[int], None],
        episodes: float = np.inf,
    ) -> None:
        self.steps, self.wanted, self.name, self.advanced = steps, episodes, name, advanced
        self.coding, self.action_coding = observations, actions
        try:
            now, then, done = observations.empty(steps), observations.empty(steps), actions.empty(steps)
            terminated, truncated, starts = (np.empty(steps, dtype=np.bool_) for _ in range(3))
            self.columns = Transition(now, done, np.empty(steps), terminated, truncated, then, starts)
            self.which = np.zeros(steps, dtype=np.int32)
        except (MemoryError, ValueError):
            raise InputError(
                f"there is no room for steps={steps} with observations of shape {observations.shape}"
            ) from None
        self.rows = self.checked = self.ended = 0

    @property
    def full(self) -> bool:
        """Whether all steps, or all episodes, that were asked for are there."""
        return self.rows == self.steps or self.ended >= self.wanted

    def add(self, transition: Transition) -> None:
        """One transition."""
        for column, value in zip(self.columns, transition, strict=True):
            column[self.rows] = value
        self.ended += transition.terminated or transition.truncated
        self._count(1)

    def add_many(self, transitions: Transition, taken: Array) -> None:
        """One transition of every sub-environment where `taken`; those beyond the wanted steps are left out."""
        which = np.flatnonzero(taken)[: self.steps - self.rows]
        rows = slice(self.rows, self.rows + len(which))
        for column, values in zip(self.columns, transitions, strict=True):
            column[rows] = values[which]
        self.which[rows] = which
        self.ended += int((transitions.terminated | transitions.truncated)[which].sum())
        self._count(len(which))

    def _count(self, rows: int) -> None:
        self.rows += rows
        if self.rows - self.checked >= CHECKED or self.full:
            self.check()

    def check(self) -> None:
        """Raise where a reward or an observation is not finite; the rows from there on are dropped."""
        new = slice(self.checked, self.rows)
        first = self.rows
        for name in ("rewards", "observations", "next_observations"):
            values = getattr(self.columns, name)[new]
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                row = self.checked + int(np.argwhere(~np.isfinite(values))[0, 0])
                if row < first:
                    first, found = row, name
        if first < self.rows:
            value = getattr(self.columns, found)[first]
            self.rows = first
            kind = "reward" if found == "rewards" else "observation"
            raise InputError(f"the environment gave the {kind} {value}, which is not finite")
        self.advanced(self.rows - self.checked)
        self.checked = self.rows

    def drop_unsound(self) -> InputError | None:
        """Drop the rows from the first that is not finite; what is wrong with that one, or None."""
        try:
            self.check()
        except InputError as error:
            return error
        return None

    def trajectory(self) -> Trajectory | None:
        """What is there, sub-environment after sub-environment; None if nothing is."""
        if not self.rows:
            return None
        which = self.which[: self.rows]
        order: Any = np.argsort(which, kind="stable") if which.any() else slice(0, self.rows)
        columns = Transition(*(column[: self.rows][order] for column in self.columns))
        sorted_which = which[order]
        columns.starts[1:] |= sorted_which[1:] != sorted_which[:-1]
        columns.starts[0] = True
        return Trajectory(*columns, observation_space=self.coding.space, name=self.name)
