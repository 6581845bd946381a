"""What is run: all arguments of one call, resolved once."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from multireplay._check import Vector
from multireplay.averaging import Averaging
from multireplay.engine import Backend
from multireplay.problems import Problem
from multireplay.replay import Replay
from multireplay.sets import Set
from multireplay.tracking import Track
from multireplay.updates.base import Engine, Route, Update

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
    pickled.

    Attributes
    ----------
    problem : Problem or None
        As it was given; None if it was lost in pickling.
    buffer : Buffer, StoredBuffer or None
        The record as it was given; None after pickling.
    rows : int
        Its length.
    arguments : mapping
        All other arguments, as they were given.
    update : Update
        What moves the iterate.
    replay : Replay or None
        The order of the steps; None where the update reads the record in order by itself.
    instead : Replay or None
        The order for rounds that get nowhere in that of `replay`, if it may change.
    route, why : str
        The way to the answer, and in one sentence why it was taken.
    engine : str
        How it is executed: "python", "compiled", "sparse" or "batched" chains of steps, or "sums".
    start : ndarray
        x0.
    step : float, several of them, Schedule or "auto"
        The step size; `steps` are those that compete, one all but always, and `automatic` says whether it is "auto".
    passes : int or None
        The most passes, where that was asked for.
    feasible : Set
        The feasible set; `on_the_whole_space` says whether there is no constraint.
    averaging, track, backend, threads, precision
        The other arguments, with their defaults.
    record : Record
        The rows as the problem reads them; None after pickling.
    checkpoint : Checkpoint or None
        Where the state is kept while it runs.
    progress : bool
        Whether there are progress bars.

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
    buffer: Any
    rows: int
    arguments: Mapping[str, Any]
    update: Update
    replay: Any
    instead: Replay | None
    why: str
    engine: Engine
    start: Vector
    step: Any
    steps: tuple[Any, ...]
    automatic: bool
    passes: int | None
    feasible: Set
    on_the_whole_space: bool
    averaging: Averaging
    track: Track | None
    backend: Backend
    threads: int
    precision: Literal["float64", "float32"]
    record: Record = field(default=None)  # type: ignore[assignment]
    checkpoint: Checkpoint | None = None
    progress: bool = False

    @property
    def route(self) -> Route:
        """The way to the answer."""
        return self.update.route

    def __reduce__(self) -> tuple[Any, ...]:
        left_behind = {"buffer": None, "record": None, "checkpoint": None, "track": None, "progress": False}
        kept = {item.name: left_behind.get(item.name, getattr(self, item.name)) for item in fields(self)}
        kept["arguments"] = {name: _or_lost(value) for name, value in self.arguments.items()}
        kept["problem"] = self.problem if _can_be_pickled(self.problem) else None
        kept["feasible"], kept["step"] = _or_lost(self.feasible), _or_lost(self.step)
        return (_rebuilt, (kept,))

    def __repr__(self) -> str:
        return f"Run({self.problem!r}, {self.rows} rows, {self.update!r})"


def _rebuilt(kept: dict[str, Any]) -> Run:
    return Run(**kept)


def _or_lost(value: Any) -> Any:
    return value if _can_be_pickled(value) else Lost(repr(value))


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever an object's own code raises
        return False
    return True
