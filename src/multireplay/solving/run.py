"""What is run: all arguments of one call, resolved once."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.engine import Backend
from multireplay.problems import Problem
from multireplay.replay import Replay
from multireplay.sets import Set
from multireplay.tracking import Track
from multireplay.updates.base import Engine, Route, Update
from multireplay.updates.measure import measured

if TYPE_CHECKING:
    from multireplay.buffer.record import Record
    from multireplay.engine.checkpoint import Checkpoint


class Lost(NamedTuple):
    """What stands for an argument that could not be pickled, such as a lambda: its text."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """One call of `solve`, resolved: status, costs, checkpoint and report read this and decide nothing themselves.

    A pickled run, and with it a pickled result, leaves the record behind, which may be large, and whatever cannot be
    pickled. What is not explained below is an argument of `solve`, with its default.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> buffer = mr.Buffer(features=np.eye(2), targets=[1.0, 2.0])
    >>> run = mr.solve(mr.GLM(), buffer, step=0.5, holdout=None).run
    >>> run.update, run.replay, run.route, run.engine, run.arguments["step"], run.buffer is buffer
    (VarianceReduced(rounds='auto', precondition='auto'), Dyadic(), 'rounds', 'compiled', 0.5, True)
    >>> print(run.why)
    step=... is given
    """

    problem: Problem | None
    """As it was given; None if it was lost in pickling."""
    buffer: Any
    """The record as it was given; None after pickling."""
    rows: int
    arguments: Mapping[str, Any]
    """All other arguments, as they were given."""
    update: Update
    replay: Any
    """The order of the steps; None where the update reads the record in order by itself."""
    instead: Replay | None
    """The order for rounds that get nowhere in that of `replay`, if it may change."""
    why: str
    """Why this way to the answer was taken, in one sentence."""
    engine: Engine
    start: Vector
    step: Any
    steps: tuple[Any, ...]
    """The step sizes that compete, one all but always."""
    automatic: bool
    """Whether the step is "auto"."""
    passes: int | None
    feasible: Set
    on_the_whole_space: bool
    averaging: Averaging
    track: Track | None
    backend: Backend
    threads: int
    precision: Literal["float64", "float32"]
    record: Record = field(default=None)  # type: ignore[assignment]
    """The rows as the problem reads them; None after pickling."""
    checkpoint: Checkpoint | None = None
    progress: bool = False
    feature_names: tuple[str, ...] | None = None
    """Names of the coordinates of x, where the record or the problem has any."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name a coordinate of x: that of its feature, or ``x[0]``, ``x[1]``, …"""
        return self.feature_names or tuple(f"x[{i}]" for i in range(len(self.start)))

    @property
    def route(self) -> Route:
        """The way to the answer."""
        return self.update.route

    def distance_at(self, x: Vector) -> float:
        """The distance of a point to the exact fit in standard errors of the worst coordinate, in one pass."""
        return measured(self, x).distance

    def __getstate__(self) -> dict[str, Any]:
        left_behind = {"buffer": None, "record": None, "checkpoint": None, "track": None, "progress": False}
        kept = {name: _or_lost(value) for name, value in vars(self).items() if name not in (*left_behind, "arguments")}
        kept |= left_behind
        kept["arguments"] = {name: _or_lost(value) for name, value in self.arguments.items()}
        kept["problem"] = self.problem if _can_be_pickled(self.problem) else None
        return kept

    def __repr__(self) -> str:
        return f"Run({self.problem!r}, {self.rows} rows, {self.update!r})"


def _or_lost(value: Any) -> Any:
    return value if _can_be_pickled(value) else Lost(repr(value))


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever an object's own code raises
        return False
    return True
