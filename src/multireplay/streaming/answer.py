"""What a stream knows at a moment: the answer with standard errors, intervals, tests and a summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.foreign import require_finite
from multireplay.buffer.names import Names
from multireplay.errors import InputError
from multireplay.inference.doubts import settled_by_penalty
from multireplay.inference.images import Images
from multireplay.inference.longrun import LongRun, WaldTest
from multireplay.inference.sight import RecordAt
from multireplay.inference.summary import Summary
from multireplay.inference.uncertainty import Uncertainty
from multireplay.problems import Problem
from multireplay.result import Status
from multireplay.streaming.given import as_rows


@dataclass(frozen=True)
class Drift:
    """What a stream has noticed of drift.

    Attributes
    ----------
    alarms : tuple of int
        Positions at which something had changed, the newest 100.
    active : bool
        Whether the answer is one that forgets, because something has changed of late.
    half_life : float
        In rows, of what the answer remembers; infinite where nothing is forgotten.
    since : int
        The position from which on rows count in an answer that forgets nothing.
    statistic, threshold : float
        The last look: the largest move of a coordinate in standard errors under dependence, and where the alarm is,
        which is infinite before the first look.
    watched : bool
        Whether drift is looked for: not where too few rows are remembered.
    """

    alarms: tuple[int, ...]
    active: bool
    half_life: float
    since: int
    statistic: float
    threshold: float
    watched: bool = True

    def __str__(self) -> str:
        if not self.watched:
            return "Drift is not looked for: too few rows are remembered. What is older is forgotten."
        if not self.alarms and self.threshold >= 1e300:  # which is what states have for infinite
            return "Drift is not looked for yet: too few rows have come."
        if not self.alarms:
            return "No drift: nothing has changed by more than chance allows."
        times = "once" if len(self.alarms) == 1 else f"{len(self.alarms)} times"
        now = f"half of it is forgotten in {self.half_life:.3g} rows" if self.active else "it has settled since"
        return f"Something changed {times}, last at row {self.alarms[-1]}; {now}."


class Told(NamedTuple):
    """An answer, the rows that count in it, and where the stream stands."""

    x: Vector
    rows: int
    status: Status


class LeftOpen(NamedTuple):
    """What is known of how far off an answer may be: see `Uncertainty`."""

    images: Images | None
    source: RecordAt | None
    why_not: str


@dataclass(frozen=True, eq=False)
class StreamResult:
    """The answer of a stream at one position, with what the stream leaves open of it.

    Attributes
    ----------
    x : ndarray
        The answer.
    position, rows : int
        What the stream had seen, and the rows that count in the answer.
    status : Status
        A sentence on where the stream stands; false where there is no answer yet.
    drift : Drift
        What it has noticed of drift.
    """

    x: Vector
    position: int
    rows: int
    status: Status
    drift: Drift
    names: tuple[str, ...]
    problem: Problem
    known: LeftOpen

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """What intervals, covariances, tests and the summary are made of: see `multireplay.Result.uncertainty`."""
        images, source, why = self.known
        penalty = self.problem.penalty_diagonal(len(self.x))
        if not self.status.ok:
            return Uncertainty(self.x, self.names, None, None, "there is no fit of the rows so far", ())
        if images is None or not penalty.any():
            return Uncertainty(self.x, self.names, images, source, why)
        notes = ["intervals are for the penalized fit: what the ridge pulls towards 0 is not in them"]
        images = replace(images, held=settled_by_penalty(images, penalty))
        return Uncertainty(self.x, self.names, images, source, why, notes)

    @property
    def standard_error(self) -> Vector | None:
        """The standard error of every coordinate under dependence; None where there are too few rows."""
        return self.uncertainty.standard_error

    def interval(self, level: float = 0.95, *, of: Any = None, by: LongRun | None = None) -> Vector:
        """Intervals under dependence: see `multireplay.Result`; other `by` than `BatchMeans` need a window of rows."""
        return self.uncertainty.interval(level, of=of, by=by)

    def covariance(self, by: LongRun | None = None) -> Vector:
        """The covariances of all coordinates under dependence; `by` as in `interval`."""
        return self.uncertainty.covariance(by)

    def test(self, R: Any, r: Any = 0.0, by: LongRun | None = None) -> WaldTest:
        """Wald's test that R x = r: see `multireplay.Result.test`; `by` as in `interval`."""
        return self.uncertainty.test(R, r, by)

    def predict_interval(self, rows: Any, level: float = 0.95, by: LongRun | None = None) -> tuple[Vector, ...]:
        """The mean response of x at rows of features with its interval: see `multireplay.Result.predict_interval`."""
        response = self.problem.response
        response(np.zeros(0))  # says why, where there is none
        names = None if self.names[0] == "x[0]" else self.names
        found = np.atleast_2d(as_rows(names, rows, len(self.x)))
        require_finite("rows", found, names)
        ends = self.uncertainty.interval(level, of=found, by=by)
        return response(found @ self.x), response(ends[:, 0]), response(ends[:, 1])

    def summary(self, level: float = 0.95, by: LongRun | None = None) -> Summary:
        """A table of all coordinates with standard errors, tests against 0 and intervals; `by` as in `interval`."""
        return self.uncertainty.summary(level, by, self.made(repr(self.problem)))

    def made(self, what: str) -> list[str]:
        """How a fit was made, in sentences; the first begins with what was fitted."""
        return [f"{what} on {self.rows} of {self.position} rows of a stream.", str(self.drift)]

    def __repr__(self) -> str:
        return f"StreamResult(x of {len(self.x)} coordinates at position {self.position}: {self.status})"


class SpreadAt(RecordAt):
    """Spread rows of a stream, from which effective sample sizes are worked out, and nothing else."""

    def scores(self, pieces: int) -> Vector:
        raise InputError("a stream keeps 32 to 64 batches of its sums, for BatchMeans(): others need the record")


def names_of(problem: Problem, given: Names | None, dim: int) -> Names:
    """The names of the coordinates, of which there may be several for a feature; x[0], x[1], … where there are none."""
    if given is not None and not problem.by_feature:
        given = problem.names(Buffer(features=np.zeros((1, len(given))), names=given), dim)
    return given if given is not None and len(given) == dim else tuple(f"x[{i}]" for i in range(dim))
