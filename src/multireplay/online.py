"""Algorithm 1 as printed: a buffer that forgets each sample it has used and takes in a new one."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from multireplay.averaging import as_averaging
from multireplay.buffer import Buffer
from multireplay.engine import Backend, EpochRun, make_stepper
from multireplay.errors import DivergenceWarning, InputError, OperatorError
from multireplay.forgetting import ForgettingStore
from multireplay.problems import Problem
from multireplay.replay import Multiscale
from multireplay.replay.base import whole_number
from multireplay.replay.multiscale import scale
from multireplay.result import Epoch, Status, epoch_table
from multireplay.sets import Set
from multireplay.solve import DEFAULT_TAIL, as_schedule, starting_point
from multireplay.steps import Schedule
from multireplay.text import TextTable

Vector = NDArray[np.float64]
_MAGIC = b"multireplay online run, format 1\n"


class Online:
    """Multiscale experience replay on a stream (paper, Algorithm 1).

    The first `capacity` samples fill the buffer. Every sample after that lets the algorithm take one step: epoch k
    restarts from x0 and takes T_k = 2^k steps; step t uses the sample at position ⌊t·B/2^k⌋ of the buffer, deletes
    it, and appends the new one at the end. Beyond the operator a step costs O(1) amortized: nothing is shifted, see
    `ForgettingStore`.

    Parameters
    ----------
    problem : Problem
        What is solved.
    capacity : int
        Buffer size B, at least 2. Memory for 2B samples is taken.
    step : float, multireplay.steps schedule or "auto"
        As in `solve`; "auto" is worked out from the first B samples.
    epochs : int, optional
        Number of epochs K, ⌊log2 B⌋ by default. After epoch K the run is complete and uses no more samples …
    repeat_last : bool
        … unless this is true: then it goes on with fresh epochs of the last scale.
    average, x0, constraint, backend
        As in `solve`.

    Attributes
    ----------
    epochs : tuple of Epoch
        The finished epochs.

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
    Complete: 8 epochs; the answer is that of epoch 8. repeat_last=True would go on.
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
        average: float | Literal["none", "full"] = DEFAULT_TAIL,
        x0: Any = None,
        constraint: Set | None = None,
        backend: Backend = "auto",
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
        self.problem = problem
        self.capacity = whole_number("capacity", capacity, least=2)
        self.last_scale = Multiscale(epochs).epoch_count(self.capacity)
        self.repeat_last = repeat_last
        self.epochs: tuple[Epoch, ...] = ()
        self._averaging = as_averaging(average)
        self._step = step
        self._schedule = step if isinstance(step, Schedule) or step == "auto" else as_schedule(step, problem, {})
        self._x0 = x0
        self._constraint = problem.constraint if constraint is None else constraint
        self._backend: Backend = backend
        self._store: ForgettingStore | None = None
        self._first_columns: dict[str, NDArray[Any]] = {}
        self._run: EpochRun | None = None
        self._step_in_epoch = 0

    def observe(self, **sample: Any) -> int:
        """Take in one sample, or a block of samples in order, by the problem's column names.

        Parameters
        ----------
        **sample
            One sample (``features=a, targets=y`` with a of shape (d,)) or a block (shapes (n, d) and (n,)).

        Returns
        -------
        int
            Number of samples used: fewer than given only when the run completes, and then with a warning.
        """
        block = Buffer(**self._as_block(sample))
        columns = self.problem.columns(block)
        rows = self.problem.samples(columns)
        if self._store is None:
            self._prepare(self.problem.dim(columns), rows)
        store = cast(ForgettingStore, self._store)
        store.check(rows)
        if self._schedule == "auto" and self._run is None:
            self._remember_for_step(columns)
        used = 0
        while used < len(block) and not self.done:
            try:
                used += self._take(store, rows, used, len(block) - used)
            except OperatorError as error:
                raise OperatorError(
                    f"{error}. Of this block of {len(block)}, the first {used} samples were taken in"
                ) from error
        if used < len(block):
            warnings.warn(f"{len(block) - used} samples were not used: {self.status}", stacklevel=2)
        return used

    def _as_block(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Samples with a leading axis of time, added if one sample was given."""
        known = {**self.problem.required, **self.problem.optional}
        unknown = [name for name in sample if name not in known]
        if unknown:
            raise InputError(f"{self.problem!r} reads {', '.join(known)}, not {', '.join(unknown)}")
        missing = [name for name in self.problem.required if name not in sample]
        if missing:
            raise InputError(f"observe needs {', '.join(self.problem.required)}; {', '.join(missing)} is missing")
        depth = {np.ndim(values) - known[name] for name, values in sample.items()}
        if depth == {-1}:
            return {name: np.asarray(values)[np.newaxis] for name, values in sample.items()}
        if depth == {0}:
            return sample
        shapes = ", ".join(f"{name} {np.shape(values)}" for name, values in sample.items())
        raise InputError(f"observe takes one sample or a block of them, but the shapes are {shapes}")

    def _prepare(self, dim: int, rows: Any) -> None:
        self._start = starting_point(self._x0, self._constraint, dim)
        self._stepper = make_stepper(self.problem, self._constraint, dim, self._backend)
        self._store = ForgettingStore(rows, self.capacity)

    def _remember_for_step(self, columns: Any) -> None:
        """Keep the first B samples' columns until the automatic step is known from them."""
        for name, values in columns.items():
            kept = [self._first_columns[name], values] if name in self._first_columns else [values]
            self._first_columns[name] = np.concatenate(kept)[: self.capacity]

    def _take(self, store: ForgettingStore, rows: Any, first: int, left: int) -> int:
        """Fill the buffer, or take steps to the end of the epoch; the number of rows used."""
        if store.filling:
            count = min(left, self.capacity - store.length)
            store.append(rows, first, count)
            if not store.filling:
                self._begin(1)
            return count
        run = cast(EpochRun, self._run)
        count = min(left, run.planned.length - self._step_in_epoch)
        at = self._step_in_epoch
        store.append(rows, first, count)
        going = True
        if run.taken == at:  # otherwise the epoch has diverged: its samples come and go, its iterate rests
            going = self._walk(run, store, slice(at, at + count))
        self._step_in_epoch += count
        if not going:
            warnings.warn(str(self.status), DivergenceWarning, stacklevel=3)
        if self._step_in_epoch == run.planned.length:
            self._end(run, store)
        return count

    def _walk(self, run: EpochRun, store: ForgettingStore, part: slice) -> bool:
        """Take steps; if the user's operator fails, be as before and let the error go on."""
        before = self._stepper.x.copy(), self._stepper.total.copy(), run.taken
        try:
            return run.feed(store.samples, store.targets[part] + 1)
        except OperatorError:
            self._stepper.x[:], self._stepper.total[:], run.taken = before
            store.take_back(part.stop - part.start)
            raise

    def _begin(self, k: int) -> None:
        store = cast(ForgettingStore, self._store)
        if self._schedule == "auto":
            self._schedule = as_schedule("auto", self.problem, self._first_columns)
            self._first_columns = {}
        planned = scale(k, self.capacity)
        store.begin_epoch(planned.positions)
        self._run = EpochRun(self.problem, self._stepper, planned, self._schedule, self._averaging, self._start)
        self._step_in_epoch = 0

    def _end(self, run: EpochRun, store: ForgettingStore) -> None:
        store.end_epoch()
        self.epochs = (*self.epochs, run.finish())
        if run.planned.k < self.last_scale:
            self._begin(run.planned.k + 1)
        elif self.repeat_last:
            self._begin(run.planned.k)

    @property
    def done(self) -> bool:
        """Whether epoch K is finished and no more samples are used."""
        return not self.repeat_last and len(self.epochs) == self.last_scale

    @property
    def iterate(self) -> Vector | None:
        """The current iterate of the epoch under way; None before the first sample."""
        return None if self._store is None else self._stepper.x.copy()

    @property
    def x(self) -> Vector | None:
        """The answer so far: that of the last finished epoch that did not diverge, before that the current average.

        None while the buffer is still filling and there is no answer.
        """
        for epoch in reversed(self.epochs):
            if not epoch.diverged:
                return epoch.answer
        return None if self._run is None else self._run.finish().answer

    @property
    def status(self) -> Status:
        """Where the run stands, as a sentence."""
        stored = 0 if self._store is None else self._store.length
        if self._run is None:
            return Status("filling", f"Filling the buffer: {stored} of {self.capacity} samples.")
        lost = [epoch.k for epoch in self.epochs if epoch.diverged]
        if self._run.taken < self._step_in_epoch:
            lost.append(self._run.planned.k)
        if lost:
            where = ", ".join(str(k) for k in dict.fromkeys(lost))
            return Status(
                "diverged",
                f"Diverged in epoch {where} with step size {self._run.first_step:.3g}. "
                f"Try a smaller step (step={self._run.first_step / 4:.2g}).",
            )
        if self.done:
            last = self.last_scale
            return Status(
                "finished",
                f"Complete: {last} epochs; the answer is that of epoch {last}. repeat_last=True would go on.",
            )
        planned = self._run.planned
        return Status(
            "running",
            f"Epoch {planned.k} of {self.last_scale}: step {self._step_in_epoch} of {planned.length}.",
        )

    def table(self) -> TextTable:
        """One row a finished epoch."""
        return epoch_table(self.epochs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to one file; `load` goes on exactly where this left off.

        An older file of that name is replaced only when the new one is complete.
        """
        target = Path(path)
        try:
            data = pickle.dumps(self)
        except Exception as error:
            raise InputError(
                f"{self.problem!r} cannot be saved: {error}. Define its functions at the top of a module"
            ) from error
        partial = target.with_name(target.name + ".partial")
        partial.write_bytes(_MAGIC + data)
        os.replace(partial, target)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Online:
        """A run saved by `save`. The file is a pickle: load only files you trust."""
        data = Path(path).read_bytes()
        if not data.startswith(_MAGIC):
            raise InputError(f"{path} is not a saved online run of this version")
        try:
            run = pickle.loads(data[len(_MAGIC) :])
        except Exception as error:
            raise InputError(f"{path} is damaged and cannot be loaded: {type(error).__name__}: {error}") from error
        return cast(Online, run)

    def __repr__(self) -> str:
        return f"Online({self.problem!r}, capacity={self.capacity}): {self.status}"
