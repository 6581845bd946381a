"""Rows as they are given, checked before the first of them is taken in: columns, times, groups and names."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns
from multireplay.buffer.forgetting import as_block
from multireplay.buffer.names import Names
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.streaming.batches import part_of
from multireplay.streaming.chains import NEXT, OpenSteps, Steps, as_groups
from multireplay.streaming.given import as_moments, ordered, readable

LARGEST = 1e100
"""Numbers beyond it are no measurements."""


class Taken(NamedTuple):
    """Checked rows: how many were given, what they make for the problem, and what is known after them."""

    given: int
    rows: Columns
    """What was given, with times and groups."""
    columns: Columns | None
    """None where no transition is complete."""
    seen: Columns | None
    """The columns, and after them the steps that wait."""
    stamps: Vector
    """The time of every row of the columns; nothing where rows are counted."""
    waiting: dict[int, Steps]
    times: dict[int, float]
    """Of the last row of every group."""
    names: Names | None


class Intake:
    """Makes columns of what `observe` is given. Nothing here changes before `took`."""

    def __init__(self, problem: Problem, timed: bool, names: Names | None) -> None:
        self.problem, self.timed = problem, timed
        self.given = self.names = names
        self.times: dict[int, float] = {}
        self.steps = OpenSteps()

    def of(self, given: Mapping[str, Any]) -> Taken:
        """One row or a block of them, checked."""
        readable(given)
        rest, own = ordered(self.names, given)
        times, groups = rest.pop("time", None), rest.pop("group", None)
        problem, required = self.problem, dict(self.problem.required)
        stepwise = any(name in required and name not in rest for name in NEXT.values())
        if stepwise:
            required = {name: ndim for name, ndim in required.items() if name not in NEXT.values()}
        block = as_block(rest, required, problem.optional, f"{problem!r}")
        buffer = Buffer(**block, names=(self.given or own) if "features" in block else None)
        _refuse_beyond(buffer)
        numbers, waiting = as_groups(groups, len(buffer)), self.steps.waiting
        moments, lasts = self._moments(times, numbers)
        stamps = np.maximum(np.maximum.accumulate(moments), max(self.times.values(), default=-np.inf))
        made: Buffer | None = buffer
        rows = {**buffer.columns, **({"time": moments} if self.timed else {})}
        rows |= {} if groups is None else {"group": numbers}
        if stepwise:
            steps, waiting, at = self.steps.transitions(dict(buffer.columns), numbers)
            made = Buffer(**steps) if steps else None
            stamps = stamps[at] if self.timed else stamps
        seen = columns = None if made is None else problem.columns(made)
        if stepwise and seen is not None:
            columns = {name: column[: len(at)] for name, column in seen.items()} if at else None
        return Taken(len(buffer), rows, columns, seen, stamps, waiting, lasts, self.names or buffer.feature_names)

    def _moments(self, times: Any, groups: NDArray[np.int64]) -> tuple[Vector, dict[int, float]]:
        """The time of every row, which never falls within a group, and the last of each; nothing without a clock."""
        if not self.timed:
            if times is not None:
                raise InputError("time= is read by mr.Stream(..., clock='time') alone")
            return np.zeros(0), self.times
        found, count, lasts = as_moments(np.nan if times is None else times), len(groups), {}
        if found.shape != (count,) or not np.isfinite(found).all():
            raise InputError(
                f"with clock='time' every row needs time=, a number or a date: {count} rows came with {times!r}"
            )
        for group in np.unique(groups).tolist():
            own = np.flatnonzero(groups == group)
            late = own[np.diff(found[own], prepend=self.times.get(group, -np.inf)) < 0]
            if late.size:
                where = f"{found[late[0]]:g} at row {late[0]} (counting from 0){f' of group {group}' * bool(group)}"
                raise InputError(f"time falls to {where}: rows must come in order of time")
            lasts[group] = float(found[own[-1]])
        return found, self.times | lasts

    def took(self, taken: Taken) -> None:
        """The rows were taken in."""
        self.steps.waiting, self.times, self.names = taken.waiting, taken.times, taken.names

    def state(self) -> dict[str, Any]:
        """All of it as arrays, numbers and texts."""
        found: dict[str, Any] = {f"steps.{name}": value for name, value in self.steps.state().items()}
        found |= {"times.groups": np.array(sorted(self.times), dtype=np.int64)}
        found |= {"times.last": np.array([self.times[group] for group in sorted(self.times)])}
        found |= {name: None if names is None else list(names) for name, names in self._called().items()}
        return found

    def _called(self) -> dict[str, Names | None]:
        return {"names": self.names, "given": self.given}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.steps.restore(part_of(state, "steps"))
        self.times = dict(zip(state["times.groups"].tolist(), state["times.last"].tolist(), strict=True))
        self.names = None if state["names"] is None else tuple(state["names"])


def _refuse_beyond(buffer: Buffer) -> None:
    """Numbers whose squares are none would end the stream: sums never lose them again."""
    for name, column in buffer.columns.items():
        small = not isinstance(column, np.ndarray) or column.dtype.kind != "f" or column.dtype.itemsize < 8
        if not small and np.abs(column).max(initial=0.0) > LARGEST:
            row = int(np.argmax((np.abs(column) > LARGEST).reshape(len(column), -1).any(axis=1)))
            raise InputError(f"column {name!r} holds a number beyond {LARGEST:g} at row {row} (counting from 0)")


@contextmanager
def uninterrupted(stream: Any) -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until this is done, so that rows are added up once and whole; what they raise says so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in before.items() if callable(handler)}
    try:
        for number in ours:
            signal.signal(number, lambda *what: came.append(what))
        yield
    finally:
        try:
            _put_back(ours)
        finally:  # one may be called as soon as it is back, and raise before the other is
            _put_back(ours)
        for number, frame in came[-1:]:
            try:
                ours[number](number, frame)
            except BaseException as stop:
                say_taken(stop, stream)
                raise


def _put_back(handlers: Mapping[Any, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def say_taken(stop: BaseException, stream: Any) -> None:
    """Let what ends a call say how many rows were taken, once."""
    text = f"{stream.position} rows were taken in all, and the stream can go on."
    if text not in getattr(stop, "__notes__", ()):
        stop.add_note(text)
