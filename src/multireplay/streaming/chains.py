"""Transitions made of single steps of a trajectory, which are complete only when the next step of their group is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay.errors import InputError

NEXT = {"features": "next_features", "states": "next_states"}
Steps = dict[str, NDArray[Any]]


class OpenSteps:
    """The last step of every group, whose transition waits for the next step.

    A step comes with its features (or state) and rewards, and perhaps ``terminated``. Its transition is made when the
    next step of its group comes, at once where it is terminated, and never where the trajectory breaks off.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, Steps] = {}

    def transitions(self, steps: Steps, groups: NDArray[np.int64]) -> tuple[Steps, dict[int, Steps], list[int]]:
        """Transitions that these steps complete, in that order, what waits then, and the step that completed each.

        At the end is one more for every step that waits now, from it to itself, so that it is looked at like others.
        """
        own = next(name for name in NEXT if name in steps)
        waiting, made, at = dict(self.waiting), [], []
        if waiting:  # all that wait are alike
            _refuse_other(next(iter(waiting.values())), steps)
        ended = steps.get("terminated", np.zeros(len(groups), dtype=bool))
        for row, group in enumerate(groups.tolist()):
            step = {name: column[row : row + 1] for name, column in steps.items()}
            before = waiting.pop(group, None)
            if before is not None:
                made.append({**before, NEXT[own]: step[own]})
                at.append(row)
            if ended[row]:
                made.append({**step, NEXT[own]: np.zeros_like(step[own])})
                at.append(row)
            else:
                waiting[group] = step
        made += [
            {**step, NEXT[own]: step[own]} for group, step in waiting.items() if step is not self.waiting.get(group)
        ]
        columns = made[0].keys() if made else ()
        return {name: np.concatenate([row[name] for row in made]) for name in columns}, waiting, at

    def break_off(self, group: int | None) -> None:
        """What waits has no next step: in one group, or in all of them."""
        self.waiting = {} if group is None else {one: step for one, step in self.waiting.items() if one != group}

    def state(self) -> dict[str, Any]:
        """All of it as arrays."""
        names = next(iter(self.waiting.values())).keys() if self.waiting else ()
        found = {f"column.{name}": np.concatenate([step[name] for step in self.waiting.values()]) for name in names}
        return {"groups": np.array(list(self.waiting), dtype=np.int64), **found}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        names = [name for name in state if name.startswith("column.")]
        self.waiting = {
            int(group): {name.removeprefix("column."): state[name][at : at + 1].copy() for name in names}
            for at, group in enumerate(state["groups"])
        }


def _refuse_other(before: Steps, steps: Steps) -> None:
    was, now = ({name: column.shape[1:] for name, column in one.items()} for one in (before, steps))
    if was != now:
        had, has = (", ".join(f"{name} {shape}" for name, shape in sorted(one.items())) for one in (was, now))
        raise InputError(f"the step before came with {had} a row, and these come with {has}")


def as_groups(groups: Any, rows: int) -> NDArray[np.int64]:
    """One whole number a row, 0 where no groups are given."""
    if groups is None:
        return np.zeros(rows, dtype=np.int64)
    found = np.atleast_1d(np.asarray(groups))
    if found.shape != (rows,) or found.dtype.kind not in "iu" or (found > np.iinfo(np.int64).max).any():
        raise InputError(f"group must be a whole number for each of {rows} rows, of 64 bits, not {groups!r}")
    return found.astype(np.int64)


def as_group(group: Any) -> int:
    """One whole number that says which group is meant."""
    if isinstance(group, bool) or not isinstance(group, int | np.integer) or not -(2**63) <= group < 2**63:
        raise InputError(f"group must be a whole number of 64 bits, not {group!r}")
    return int(group)
