"""One object for a stream of any length: the fit of everything seen, at every moment, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from multireplay._check import Vector, positive
from multireplay.buffer.columns import Columns
from multireplay.buffer.names import as_names
from multireplay.errors import InputError
from multireplay.problems import Problem
from multireplay.result import Status
from multireplay.streaming.answer import Drift, StreamResult, names_of
from multireplay.streaming.batches import Memory, part_of
from multireplay.streaming.blocks import OpenBlock
from multireplay.streaming.centred import AnyLearner, Centred, learner_of
from multireplay.streaming.chains import as_group
from multireplay.streaming.fresh import Fresh
from multireplay.streaming.given import as_rows
from multireplay.streaming.intake import Intake, uninterrupted
from multireplay.streaming.learner import Learner
from multireplay.streaming.store.checked import description, refuse_another
from multireplay.streaming.store.journal import Sync
from multireplay.streaming.store.kept import Storable
from multireplay.streaming.wide import WIDEST, WindowLearner

FORMAT = 5


class Stream(Storable):
    """Learn from a stream that never ends: at every moment the exact fit of everything seen, or of what still holds.

    Rows are added up in blocks, and blocks in 32 to 64 batches that merge in pairs, so that memory is bounded and
    standard errors under dependence are always there. For a linear problem the sums give the exact fit. For others they
    are linearized at a point that follows the answer, and rows spread over the whole stream correct what
    linearization leaves out. A row costs O(d²). Rows one by one and in batches give the same bits. Above 512
    coordinates a window of rows is kept in place of sums, of which `mr.solve` makes the answer when it is asked for.

    Parameters
    ----------
    problem : Problem
        What is solved; it needs a Jacobian.
    forget : "auto", float or None
        "auto" forgets what no longer holds: a chart looks for changes in units of the dependent standard error, and
        after one the answer is that of sums that forget at the speed that predicts best, until it has settled. A number
        is a half-life in rows (or in time). None forgets nothing.
    window : float, optional
        Only so many of the last rows (or so long a time) count, in place of `forget`. They come in batches of 4 rows or
        more, so that up to 1 in 16 more may count, and up to 7 rows where the window is short.
    clock : "rows" or "time"
        With "time" every row comes with ``time=``, which never falls (within a ``group``, where rows have one), and
        `forget` and `window` are in its unit: a number, or a date (NumPy's, Python's, or ISO 8601 as text), which is
        seconds since 1970, in UTC where it has no zone; numbers beside dates are such seconds too.
    names : sequence of str, optional
        Of the features; those of the first data frame otherwise. Later frames and Series are read by name.
    store : str or path, optional
        A folder in which rows and state are kept (docs/stream_store.md); a stream that is there already goes on.
    sync, keep, bad
        How: "always", "interval" or "none"; rows or "all"; "refuse" or "quarantine" (`streaming.store.store.Settings`).

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(2)
    >>> stream = mr.Stream(mr.GLM(), names=["slope", "level"])
    >>> for _ in range(3000):
    ...     a = np.array([rng.standard_normal(), 1.0])
    ...     _ = stream.observe(features=a, targets=a @ [2.0, 1.0] + rng.standard_normal())
    >>> stream.x.round(1), stream.position
    (array([2., 1.]), 3000)
    >>> stream.predict([1.0, 1.0]).round(1)
    np.float64(3.0)
    >>> low, high = stream.result().interval()[0]
    >>> bool(low < 2.0 < high), str(stream.drift)
    (True, 'No drift: nothing has changed by more than chance allows.')
    """

    def __init__(
        self,
        problem: Problem,
        *,
        forget: float | Literal["auto"] | None = "auto",
        window: float | None = None,
        clock: Literal["rows", "time"] = "rows",
        names: Any = None,
        store: str | os.PathLike[str] | None = None,
        sync: Sync | None = None,
        keep: int | Literal["all"] | None = None,
        bad: Literal["refuse", "quarantine"] | None = None,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem must be a multireplay problem such as mr.GLM(), not {problem!r}")
        if not problem.has_jacobian:
            raise InputError(f"{problem!r} has no Jacobian, which a stream needs; mr.Online takes steps without one")
        if clock not in ("rows", "time"):
            raise InputError(f"clock must be 'rows' or 'time', not {clock!r}")
        if isinstance(forget, str) and forget != "auto":
            raise InputError(f"forget must be 'auto', a half-life or None, not {forget!r}")
        if window is not None and forget not in ("auto", None):
            raise InputError("give forget=... or window=..., not both")
        self.problem, self.forget, self.window, self.clock = problem, forget, window, clock
        self._memory = Memory(
            forget == "auto" and window is None,
            np.inf if window is None else positive("window", window),
            np.inf if forget in ("auto", None) else positive("forget", forget),
        )
        self._intake = Intake(problem, clock == "time", None if names is None else as_names(names))
        self._timed = clock == "time"
        self._held = 0
        self._open: OpenBlock | None = None
        self._learner: AnyLearner | Centred | None = None
        self._fresh: tuple[int, Fresh] | None = None
        self._size = 0
        given = {"forget": forget, "window": window, "clock": clock, "names": self._intake.given}
        self._attach(store, given, {"sync": sync, "keep": keep, "bad": bad})

    def observe(self, **row: Any) -> int:
        """Take in one row, or a block of rows in order, by the problem's column names; the number of rows taken.

        In policy evaluation ``next_features`` may be left out: transitions are then made of consecutive rows of a
        ``group`` (a whole number, 0 by default), and `break_here` ends a trajectory. Complete rows of several sensors
        may have a ``group`` too: each has times of its own, and is a chain of its own in `buffer`. A row that cannot
        be used is an error, and the stream is as it was.

        Examples
        --------
        >>> import multireplay as mr
        >>> stream = mr.Stream(mr.PolicyEvaluation(0.5))
        >>> for step in range(100):
        ...     _ = stream.observe(features=[1.0], rewards=1.0)
        >>> stream.x.round(6), stream.position
        (array([2.]), 100)
        """
        try:
            block = self._open
            if block is None or not block.trusts or self._timed or block.filled == self._size or not block.quick(row):
                return self._taken(row)
            self._catch_up()
            if block.filled == self._size:
                with uninterrupted(self):
                    self._fold(self._learner.rows + self._size)  # type: ignore[union-attr]
            return 1
        except (KeyboardInterrupt, SystemExit) as stop:
            self._stopped(stop)
            raise

    def observe_many(self, columns: Mapping[str, Any] | None = None, **named: Any) -> int:
        """Take in a block of rows, as a dictionary of columns or by name: `observe` with a block."""
        columns = {} if columns is None else columns
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
            raise InputError(f"observe_many takes a dictionary of columns by name, not {columns!r}")
        return self.observe(**{**columns, **named})

    def _take(self, given: dict[str, Any]) -> int:
        """Check rows, all of them, before the first is taken in."""
        taken = self._intake.of(given)
        if taken.columns is not None and self._open is None:
            self._prepare(taken.columns)
        elif taken.seen is not None and self._open is not None:
            self._open.check(taken.seen)
        with uninterrupted(self), self._journaled(taken.rows, taken.names):
            used = 0 if taken.columns is None else self._put(taken.columns, taken.stamps)
            self._held += taken.given - used
            self._intake.took(taken)
        return taken.given

    def _prepare(self, columns: Columns) -> tuple[OpenBlock, AnyLearner | Centred]:
        """What can be made once it is known what rows look like."""
        block, kind = OpenBlock(columns), Learner if self.problem.dim(columns) <= WIDEST else WindowLearner
        learner = learner_of(kind, self.problem, block.rows(1), self._memory)
        if not self.problem.by_feature:
            block.trusts = False
        self._open, self._learner, self._size = block, learner, learner.block
        return block, learner

    def _put(self, columns: Columns, stamps: Vector) -> int:
        """Write rows to the open block, which is added up whenever it is full; how many there were."""
        block, learner = self._open, self._learner
        assert block is not None
        assert learner is not None
        block.trust(columns)
        total, used = len(next(iter(columns.values()))), 0
        while used < total:
            count = min(total - used, self._size - block.filled)
            block.put(columns, used, count)
            used += count
            if block.filled == self._size:
                self._fold(stamps[used - 1] if self._timed else learner.rows + self._size)
        return total

    def _fold(self, stamp: float) -> None:
        block, learner = self._open, self._learner
        assert block is not None
        assert learner is not None
        learner.add(block.rows(self._size), stamp)
        block.filled, self._size = 0, learner.block

    def break_here(self, group: int | None = None) -> None:
        """A gap: what comes next does not follow on what came before, in one group or (by default) in all of them."""
        group = None if group is None else as_group(group)
        with uninterrupted(self):
            self._gap(group)
            self._intake.steps.break_off(group)

    @property
    def position(self) -> int:
        """How many rows were given to `observe` and taken in."""
        if self._learner is None or self._open is None:
            return self._held
        return self._learner.rows + self._open.filled + self._held

    @property
    def x(self) -> Vector | None:
        """The answer of all rows so far; None before the first."""
        if self._learner is None or self._open is None:
            return None
        return self._learner.answer(self._open.rows(self._open.filled)).x.copy()

    @property
    def predictor(self) -> Vector | None:
        """The answer that predictions are made with, see `predict`; None before the first row."""
        block, learner = self._open, self._learner
        if block is None or learner is None:
            return None
        if self._fresh is None or self._fresh[0] != learner.rows:
            self._fresh = learner.rows, Fresh(self.problem, learner.start())
        return self._fresh[1].at(block.columns, block.filled)

    def predict(self, features: Any) -> Any:
        """The mean response (or value, or chance of every class) at one row of features, or several.

        The answer that it is made with is held back while there are few rows, by as much as has been seen to predict
        better, and takes in every row of the open block. With many rows it is that of `x`, unless (``forget="auto"``) a
        shorter memory has predicted better, be it that something has changed or that noise is sticky.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> stream = mr.Stream(mr.GLM())
        >>> a = np.random.default_rng(0).standard_normal((5000, 1))
        >>> _ = stream.observe_many(features=a, targets=2 * a[:, 0])
        >>> stream.predict([[3.0], [4.0]]).round(1)
        array([6., 8.])
        """
        block, x = self._open, self.predictor
        if block is None or x is None:
            raise InputError(f"there is no answer yet to predict with. {self.status}")
        width = block.columns["features"].shape[1] if "features" in block.columns else len(x)
        rows = as_rows(self._intake.names, features, width)
        scored: Any = getattr(self.problem, "chances", None)
        return scored(x, rows) if scored is not None else self.problem.response(rows @ x)

    @property
    def drift(self) -> Drift:
        """What the stream has noticed of drift."""
        if self._learner is None:
            return Drift((), False, self._memory.half_life, 0, 0.0, np.inf)
        return self._learner.drift

    @property
    def status(self) -> Status:
        """Where the stream stands, as a sentence."""
        if self._learner is None or self._open is None:
            waits = "A transition needs two steps, one after the other, and none is whole yet."
            nothing = "No row that can be used has come yet." if self._held else "No row has come yet."
            return Status("filling", waits if self._intake.steps.waiting else nothing)
        return self._learner.answer(self._open.rows(self._open.filled)).status

    def result(self) -> StreamResult:
        """The answer with standard errors, intervals and a summary, at this moment.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> rng = np.random.default_rng(0)
        >>> A = rng.standard_normal((5000, 2))
        >>> stream = mr.Stream(mr.GLM("logistic"))
        >>> _ = stream.observe_many(features=A, targets=rng.random(5000) < 1 / (1 + np.exp(-A[:, 0])))
        >>> result = stream.result()
        >>> low, high = result.interval()[0]
        >>> bool(low < 1.0 < high), str(result.status)
        (True, 'The fit of 5000 rows.')
        """
        block, learner = self._open, self._learner
        if block is None or learner is None:
            raise InputError(f"the stream has no answer yet. {self.status}")
        tail = block.rows(block.filled)
        told = learner.answer(tail)
        names, known = names_of(self.problem, self._intake.names, len(told.x)), learner.known(told.x, tail)
        return StreamResult(told.x, self.position, told.rows, told.status, self.drift, names, self.problem, known)

    def state(self) -> dict[str, Any]:
        """All of the stream as one flat dictionary of arrays, numbers and texts; `from_state` goes on from it exactly.

        The problem is in it as a description alone, by which another one is refused.

        Examples
        --------
        >>> import multireplay as mr
        >>> stream = mr.Stream(mr.GLM())
        >>> _ = stream.observe(features=[1.0], targets=2.0)
        >>> again = mr.Stream.from_state(mr.GLM(), stream.state())
        >>> again.position, again.x
        (1, array([2.]))
        """
        found: dict[str, Any] = {"format": FORMAT, "forget": self.forget, "window": self.window, "clock": self.clock}
        found |= {"problem": description(self.problem), "held": self._held, **self._intake.state()}
        if self._open is not None and self._learner is not None:
            found |= {f"open.{name}": value for name, value in self._open.state().items()}
            found |= {f"learner.{name}": value for name, value in self._learner.state().items()}
        return found

    @classmethod
    def from_state(cls, problem: Problem, state: Mapping[str, Any]) -> Stream:
        """The stream that gave a `state`, of the same problem."""
        if not isinstance(state, Mapping) or "format" not in state:
            raise InputError("this is no state of a stream")
        if state["format"] != FORMAT:
            raise InputError(f"this state is of format {state['format']}, and this version reads {FORMAT}")
        try:
            found = cls(problem, names=state["given"], **{name: state[name] for name in ("forget", "window", "clock")})
            refuse_another(state["problem"], problem)
            found._restore(state)
        except KeyError as error:
            raise InputError(f"this is no whole state of a stream: it lacks {error}") from None
        return found

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of the same arguments."""
        self._held = int(state["held"])
        self._intake.restore(state)
        if "open.spans" not in state:
            return
        block = OpenBlock.from_state(part_of(state, "open"))
        made, learner = self._prepare(block.rows(1))
        was_wide = any(name.endswith(".lengths") and ".first" not in name for name in state)
        if was_wide != (self.problem.dim(block.rows(1)) > WIDEST):
            raise InputError(f"a stream cannot go on where x grows to more than {WIDEST} coordinates")
        learner.restore(part_of(state, "learner"))
        block.trusts, self._open, self._size = made.trusts, block, learner.block

    def __repr__(self) -> str:
        return f"Stream({self.problem!r}, position={self.position})"
