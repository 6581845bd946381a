"""Algorithm 1 as printed: a buffer that forgets each sample it has used and takes in a new one."""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal

import numpy as np

from multireplay import online_file
from multireplay._check import Vector, as_vector, whole_number
from multireplay.averaging import as_averaging
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.columns import Columns
from multireplay.buffer.forgetting import ForgettingStore, as_block
from multireplay.buffer.names import Names, refuse_reordered
from multireplay.engine import Backend, EpochRun, Stepping, as_backend, make_stepper
from multireplay.errors import DivergenceWarning, InputError, MultireplayError
from multireplay.problems import Problem, VariationalInequality
from multireplay.problems.base import as_constraint
from multireplay.replay.multiscale import Multiscale, scale
from multireplay.result import Epoch, Status
from multireplay.sets import Set
from multireplay.show.text import TextTable, epoch_table
from multireplay.solving.resolve import DEFAULT_TAIL, as_step, starting_point
from multireplay.steps import Schedule
from multireplay.updates.plain import as_schedule

LARGEST = 2**40
KEPT = 100


class Online:
    """Multiscale experience replay on a stream (paper, Algorithm 1).

    The first `capacity` samples fill the buffer. Every sample after that lets the algorithm take one step: epoch k
    restarts from x0 and takes T_k = 2^k steps; step t uses the sample at position ⌊t·B/2^k⌋ of the buffer, deletes
    it, and appends the new one at the end. Beyond the operator a step costs O(1) amortized: nothing is shifted, see
    `ForgettingStore`. It is the paper's algorithm, which ends with epoch K; to learn from a stream of any length, use
    `Stream`.

    Parameters
    ----------
    problem : Problem
        What is solved.
    capacity : int
        Buffer size B, at least 2. Memory for 2B samples is taken.
    step : float, multireplay.steps schedule or "auto"
        As in `solve`; "auto" is 0.5/L in every epoch, worked out from the first B samples. With
        `multireplay.steps.PerEpoch` every epoch has a step of its own.
    epochs : int, optional
        Number of epochs K, ⌊log2 B⌋ by default. After epoch K the run is complete and uses no more samples …
    repeat_last : bool
        … unless this is true: then it goes on with fresh epochs of the last scale, each from x0, so that its error no
        longer falls.
    average, x0, constraint, backend
        As in `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> run = mr.Online(mr.GLM(), capacity=256, step=0.1)
    >>> for _ in range(800):
    ...     a = rng.standard_normal(2)
    ...     used = run.observe(features=a, targets=a @ [1.0, -2.0])
    ...     if run.done:
    ...         break
    >>> print(run.status)
    Complete: 8 epochs; the answer is that of epoch 8. To go on learning, use mr.Stream.
    >>> run.x.round(2)
    array([ 1., -2.])
    """

    def __init__(
        self,
        problem: Problem,
        capacity: int,
        step: float | Schedule | Literal["auto"] = "auto",
        *,
        epochs: int | None = None,
        repeat_last: bool = False,
        average: float | Literal["none", "full", "weighted"] = DEFAULT_TAIL,
        x0: Any = None,
        constraint: Set | None = None,
        backend: Backend = "auto",
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
        self.problem = problem
        self.capacity = whole_number("capacity", capacity, least=2)
        if self.capacity > LARGEST:
            raise InputError(f"capacity {capacity} is too large: twice as many samples must fit in memory")
        self.last_scale = Multiscale(epochs).epoch_count(self.capacity)
        self.repeat_last = repeat_last
        self._automatic = isinstance(step, str)
        if (self._automatic and isinstance(problem, VariationalInequality)) or not self._automatic:
            as_schedule(as_step(step), problem, None)  # what can be wrong without the data is said at once
        self._averaging = as_averaging(average)
        self._constraint = problem.constraint if constraint is None else as_constraint(constraint)
        self._arguments: dict[str, Any] = {
            "problem": problem, "capacity": self.capacity, "step": step, "epochs": self.last_scale,
            "repeat_last": repeat_last, "average": average, "x0": None if x0 is None else as_vector("x0", x0),
            "backend": as_backend(backend), "constraint": constraint,
        }  # fmt: skip
        self._example: dict[str, Any] = {}
        self._names: Names | None = None
        self._store: ForgettingStore | None = None
        self._stepping: Stepping | None = None
        self._run: EpochRun | None = None
        self._epochs: list[Epoch] = []
        self._step_in_epoch = 0

    def observe(self, **sample: Any) -> int:
        """Take in one sample, or a block of samples in order, by the problem's column names.

        Parameters
        ----------
        **sample
            One sample (``features=a, targets=y`` with a of shape (d,)) or a block (shapes (n, d) and (n,)). Blocks are
            much faster than single samples and give the same run. Data frames must have their columns in one order.

        Returns
        -------
        int
            Number of samples used: fewer than given only when the run completes, and then with a warning.
        """
        block = Buffer(**as_block(sample, self.problem.required, self.problem.optional, f"{self.problem!r}"))
        columns = self.problem.columns(block)
        rows, names = self.problem.samples(columns), block.feature_names
        if self._names is not None:
            refuse_reordered(self._names, names, "column 'features' has", "an earlier block")
        store = self._prepare(columns, rows) if self._store is None else self._store
        store.check(rows)
        self._names = names if self._names is None else self._names
        used = 0
        while used < len(block) and not self.done:
            try:
                used += self._take(store, rows, used, len(block) - used)
            except MultireplayError as error:
                if len(block) == 1:
                    raise
                raise type(error)(
                    f"{error}. Of this block of {len(block)}, the first {used} samples were taken in"
                ) from error
        if used < len(block):
            warnings.warn(f"{len(block) - used} samples were not used: {self.status}", stacklevel=2)
        return used

    def _prepare(self, columns: Columns, rows: Any) -> ForgettingStore:
        """What can be made once it is known what the samples look like."""
        dim = self.problem.dim(columns)
        start = starting_point(self._arguments["x0"], self._constraint, dim)
        stepper = make_stepper(self.problem, self._constraint, dim, self._arguments["backend"], rows)
        self.problem.probe(start, rows)
        self._start, self._stepper = start, stepper
        self._store = ForgettingStore(rows, self.capacity)
        self._example = {name: np.array(values[:1]) for name, values in columns.items()}
        return self._store

    def _take(self, store: ForgettingStore, rows: Any, first: int, left: int) -> int:
        """Fill the buffer, or take steps to the end of the epoch; the number of rows used.

        Whatever goes wrong on the way, the run is then as it was before this call.
        """
        if store.filling:
            count = min(left, self.capacity - store.length)
            store.append(rows, first, count)
            return count
        run = self._run
        if run is None or self._step_in_epoch == run.planned.length:
            run = self._begin(store)
        at = self._step_in_epoch
        count = min(left, run.planned.length - at)
        before = self._stepper.x.copy(), self._stepper.total.copy(), run.taken
        store.append(rows, first, count)
        going = True
        try:
            if not run.stopped:  # after divergence samples come and go, but the iterate rests
                going = run.feed(store.samples, store.targets[at : at + count] + 1)
        except BaseException:
            self._stepper.x[:], self._stepper.total[:], run.taken = before
            store.take_back(count)
            raise
        self._step_in_epoch += count
        if self._step_in_epoch == run.planned.length:
            store.end_epoch()
            self._epochs.append(run.finish())
            if len(self._epochs) > self.last_scale + KEPT:
                del self._epochs[self.last_scale]
        if not going:
            warnings.warn(str(self.status), DivergenceWarning, stacklevel=3)
        return count

    def _begin(self, store: ForgettingStore) -> EpochRun:
        if self._stepping is None:
            schedule = as_schedule(self._arguments["step"], self.problem, store.first)
            self._stepping = self._steps(schedule, self.problem.limit(store.first, self._start))
        k = min(len(self._epochs) + 1, self.last_scale)
        run = EpochRun(self._stepping, scale(k, self.capacity), name=store.name_of)
        store.begin_epoch(run.planned.positions)
        self._run, self._step_in_epoch = run, 0
        return run

    def _steps(self, schedule: Schedule, limit: float) -> Stepping:
        shared: dict[str, Any] = {"problem": self.problem, "stepper": self._stepper, "averaging": self._averaging}
        return Stepping(**shared, schedule=schedule, x0=self._start, limit=limit)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The finished epochs; of those that repeat the last scale, the 100 newest."""
        return tuple(self._epochs)

    @property
    def done(self) -> bool:
        """Whether epoch K is finished and no more samples are used."""
        return not self.repeat_last and len(self._epochs) == self.last_scale

    @property
    def iterate(self) -> Vector | None:
        """The current iterate of the epoch under way; None before the first sample."""
        return None if self._store is None else self._stepper.x.copy()

    @property
    def x(self) -> Vector | None:
        """The answer so far: that of the last finished epoch that did not diverge, before that the current average.

        None while the buffer is still filling and there is no answer.
        """
        for epoch in reversed(self._epochs):
            if not epoch.diverged:
                return epoch.answer.copy()
        return None if self._run is None else self._run.finish().answer

    @property
    def status(self) -> Status:
        """Where the run stands, as a sentence."""
        stored = 0 if self._store is None else self._store.length
        if self._run is None:
            return Status("filling", f"Filling the buffer: {min(stored, self.capacity)} of {self.capacity} samples.")
        lost = [epoch for epoch in self._epochs if epoch.diverged]
        if self._run.stopped and self._step_in_epoch < self._run.planned.length:
            lost.append(self._run.finish())
        if lost:
            first = lost[0]
            return Status(
                "diverged",
                f"Diverged in {len(lost)} epochs, first at step {first.taken + 1} of epoch {first.k} with step size "
                f"{first.step:.3g}. Try a smaller step (step={first.step / 4:.2g}).",
            )
        if self.done:
            last = self.last_scale
            message = f"Complete: {last} epochs; the answer is that of epoch {last}. To go on learning, use mr.Stream."
            return Status("finished", message)
        planned = self._run.planned
        if len(self._epochs) >= self.last_scale:
            return Status(
                "running",
                f"All {self.last_scale} epochs are done, and the last scale is repeated from x0: step "
                f"{self._step_in_epoch} of {planned.length}. The error no longer falls; that of mr.Stream does.",
            )
        return Status(
            "running", f"Epoch {planned.k} of {self.last_scale}: step {self._step_in_epoch} of {planned.length}."
        )

    def table(self) -> TextTable:
        """One row a finished epoch."""
        return epoch_table(self.epochs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to one file; `load` goes on exactly where this left off.

        An older file of that name is replaced only when the new one is complete. What is your own (an operator, a
        link, a set, a schedule) cannot be written: it is given to `load` again.
        """
        online_file.write(path, self._arguments, self._state())

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        *,
        problem: Problem | None = None,
        step: float | Schedule | None = None,
        constraint: Set | None = None,
    ) -> Online:
        """A run saved by `save`. Nothing in the file is run as code.

        Parameters
        ----------
        path
            The file.
        problem, step, constraint
            What was your own and could not be written; what is given takes the place of what is in the file.
        """
        given = {"problem": problem, "step": step, "constraint": constraint}
        arguments, state = online_file.read(path, {name: value for name, value in given.items() if value is not None})
        run = Online(**arguments)
        run._restore(state)
        return run

    def _state(self) -> dict[str, Any]:
        if self._store is None:
            return {}
        state: dict[str, Any] = {"example": self._example, "store": self._store.state(), "names": self._names}
        state |= {"x": self._stepper.x, "total": self._stepper.total}
        if self._run is not None:
            schedule = self._run.schedule if self._automatic else None
            state |= {"schedule": schedule, "limit": self._run.limit}
            state |= {"k": self._run.planned.k, "taken": self._run.taken, "stopped": self._run.stopped}
            state |= {"step_in_epoch": self._step_in_epoch, "epochs": self._epochs}
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        if not state:
            return
        columns = self.problem.columns(Buffer(**state["example"]))
        store = self._prepare(columns, self.problem.samples(columns))
        store.restore(state["store"])
        self._names = tuple(state["names"]) if state.get("names") else None
        if "k" in state:
            automatic = isinstance(self._arguments["step"], str)  # a step that was given at loading counts
            schedule = state["schedule"] if automatic else as_schedule(self._arguments["step"], self.problem, None)
            self._stepping = self._steps(schedule, state["limit"])
            self._run = EpochRun(self._stepping, scale(state["k"], self.capacity), name=store.name_of)
            self._run.taken, self._run.stopped = state["taken"], state["stopped"]
            self._epochs, self._step_in_epoch = state["epochs"], state["step_in_epoch"]
        if state["x"].shape != self._stepper.x.shape:
            raise InputError(f"x has {len(state['x'])} coordinates in the file, and this problem has another dimension")
        self._stepper.x[:], self._stepper.total[:] = state["x"], state["total"]

    def __repr__(self) -> str:
        return f"Online({self.problem!r}, capacity={self.capacity}): {self.status}"
