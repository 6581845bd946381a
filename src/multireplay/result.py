"""What a run gives back: the answer, what every epoch found, and a sentence on how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multireplay._check import Vector
from multireplay.show.text import TextTable, epoch_table
from multireplay.tracking import Curve

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from multireplay.buffer.buffer import Buffer
    from multireplay.buffer.disk import StoredBuffer
    from multireplay.inference import Images, LongRun, Summary, Uncertainty, WaldTest
    from multireplay.solving.run import Run


CONVERGED = 0.1
"""The distance to the exact fit, in standard errors of the worst coordinate, up to which an answer has converged."""


@dataclass(frozen=True, eq=False, repr=False)
class Epoch:
    """What one epoch found.

    Attributes
    ----------
    k, gap, length
        As in the plan: the paper's k, τ_k (None if there is no fixed gap) and T_k.
    step : float
        Step size of the first step.
    last, average, answer : ndarray
        The last iterate, the average that was asked for (of all iterates if none was), and whichever of the two was.
    taken, diverged : int, bool
        Steps taken, fewer than `length` if the iterates grew beyond all bounds on the way. `last` and `average` are
        then the last finite ones, of no use.
    curve : Curve or None
        Error curve, if ``track`` was given.
    residual : float or None
        ‖x − Proj(x − F̂(x))‖ of the answer on the whole record, where it was worked out to compare epochs.
    """

    k: int
    gap: float | None
    length: int
    step: float
    last: Vector
    average: Vector
    answer: Vector
    taken: int
    diverged: bool
    curve: Curve | None = None
    residual: float | None = None

    def __repr__(self) -> str:
        gap = "none" if self.gap is None else f"{self.gap:g}"
        return f"Epoch(k={self.k}, gap={gap}, length={self.length}, step={self.step:g}, diverged={self.diverged})"


@dataclass(frozen=True)
class Status:
    """How a run ended: ``ok``, a code for programs, and a sentence for people.

    Examples
    --------
    >>> import multireplay as mr
    >>> status = mr.Status("finished", "1 epoch of 8 steps.")
    >>> status.ok, str(status)
    (True, '1 epoch of 8 steps.')
    """

    code: Literal["finished", "not converged", "ran", "diverged", "filling", "running"]
    """"finished": the answer was measured to be within a tenth of a standard error of the exact fit; "not converged":
    it is not; "ran": steps were taken as asked for, and nobody measured how far they led."""
    message: str
    result: Result | None = field(default=None, compare=False, repr=False)
    """What it is the status of: when it is read, it says which intervals are not to be relied on. Lost in pickling."""

    @property
    def ok(self) -> bool:
        """False if the answer should not be used as the fit of the record."""
        return self.code not in ("diverged", "not converged")

    def __str__(self) -> str:
        doubt = "" if self.result is None else self.result.uncertainty.doubt_note()
        return f"{self.message} Note: {doubt}." if doubt else self.message

    def __getstate__(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "result": None}


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The answer of `solve`.

    Attributes
    ----------
    x, chosen : ndarray, int
        The answer, and the index of the epoch that it comes from.
    epochs : tuple of Epoch
        All epochs, in the order they were run.
    status : Status
        How it went; ``print(result.status)``.
    passes, seconds : float
        Samples touched, in passes over the record, and wall-clock time of the steps, without the time to compile.
    candidates : TextTable or None
        What competed on a held-out block of time, if one was held out.
    free : tuple of tuples of int
        Directions that the record says nothing of, each by the coordinates that have part in it.
    run : Run
        What was run, resolved, with the record by reference: what a report is written from. A pickled result leaves the
        record behind.
    """

    x: Vector
    epochs: tuple[Epoch, ...]
    status: Status
    passes: float
    seconds: float
    chosen: int = -1
    candidates: TextTable | None = None
    run: Run = field(default=None)  # type: ignore[assignment]
    notes: tuple[str, ...] = ()
    free: tuple[tuple[int, ...], ...] = ()
    measured: float | None = None
    images: Images | None = None
    """What the batches of the record say of x, where the update has left it: `uncertainty` is made of it."""

    def __getstate__(self) -> dict[str, Any]:
        """All but the record; what it has seen too little of is looked up before it is left behind."""
        _ = self.uncertainty.doubts if self.images is not None else {}
        return {**vars(self), "status": Status(self.status.code, str(self.status))}

    @cached_property
    def distance(self) -> float:
        """The distance of x to the exact fit, estimated, in standard errors of the worst coordinate.

        It is known for whatever does not name an order of steps, and else measured in one pass over the record. On a
        feasible set it is that of the projected problem. A problem with no Jacobian (an operator of one's own with more
        than 64 coordinates) has its mean operator measured instead. NaN where a pickled result has left its record.
        """
        if self.measured is not None:
            return self.measured
        if self.run is None or self.run.record is None:
            return np.nan
        return self.run.distance_at(self.x)

    @property
    def converged(self) -> bool:
        """Whether x is within a tenth of a standard error of the exact fit in every coordinate."""
        return self.status.code != "diverged" and self.distance <= CONVERGED

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """How well the record knows x: what intervals, covariances, tests and the summary are made of.

        Most updates leave what is needed; after steps it is measured in one pass. Its ``why_not`` may say why not.
        """
        from multireplay.solving.uncertain import uncertainty_of

        twin = self.status.result
        return uncertainty_of(self) if twin is None or twin.images is not self.images else twin.uncertainty

    @property
    def standard_error(self) -> Vector | None:
        """The standard error of every coordinate of the exact fit under dependence, by `BatchMeans`.

        What the record leaves open, not the distance of x to the exact fit. Infinite for coordinates of which the
        record says nothing, NaN for those that a feasible set holds on its boundary, None where there are none:
        ``result.uncertainty.why_not`` says why.
        """
        return self.uncertainty.standard_error

    def summary(self, level: float = 0.95, by: LongRun | None = None) -> Summary:
        """A table of all coordinates with standard errors, tests against 0 and intervals, and how the fit was made.

        Intervals are of that level, by an estimator of `multireplay.inference`, `BatchMeans` by default. Coordinates of
        which the record has seen too little are marked, with an `UncertaintyWarning`.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> y = A @ [1.0, 0.0] + np.random.default_rng(1).standard_normal(4096)
        >>> summary = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y)).summary()
        >>> [row["p"] < 0.01 for row in summary.rows]
        [True, False]
        """
        from multireplay.solving.uncertain import summary_of

        return summary_of(self, level, by)

    def interval(self, level: float = 0.95, *, of: Any = None, by: LongRun | None = None) -> Vector:
        """Intervals that contain the truth with that probability, under dependence: an array of shape (k, 2).

        Parameters
        ----------
        of : array of shape (k, d), optional
            Linear functions of x, a row each; by default every coordinate.
        by : LongRun, optional
            An estimator of `multireplay.inference`; `BatchMeans` by default.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> y = A @ [1.0, 2.0] + np.random.default_rng(2).standard_normal(4096)
        >>> result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
        >>> low, high = result.interval(of=[1.0, 1.0])[0]
        >>> bool(low < 3.0 < high)
        True
        """
        return self.uncertainty.interval(level, of=of, by=by)

    def covariance(self, by: LongRun | None = None) -> Vector:
        """The covariances of all coordinates under dependence, of shape (d, d).

        0 for those that a feasible set holds on its boundary, NaN for those of which the record says nothing.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=A[:, 0] + A[:, 1] ** 3))
        >>> bool(np.allclose(np.sqrt(result.covariance().diagonal()), result.standard_error))
        True
        """
        return self.uncertainty.covariance(by)

    def test(self, R: Any, r: Any = 0.0, by: LongRun | None = None) -> WaldTest:
        """Wald's test that R x = r, under dependence: Hotelling's, on the batches of the record.

        Parameters
        ----------
        R, r : arrays of shape (q, d) and (q,)
            Linear restrictions, a row each, and what they should give.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> y = A @ [1.0, 1.0] + np.random.default_rng(1).standard_normal(4096)
        >>> result = mr.solve(mr.GLM(), mr.Buffer(features=A, targets=y))
        >>> result.test([1.0, -1.0]).p_value > 0.05, result.test(np.eye(2)).p_value < 1e-9
        (True, True)
        """
        return self.uncertainty.test(R, r, by)

    def predict_interval(
        self, rows: Any, level: float = 0.95, by: LongRun | None = None
    ) -> tuple[Vector, Vector, Vector]:
        """The mean response at rows of features with its interval: (fitted, low, high), each of shape (k,).

        For a GLM it is the interval of the linear score, through the link; in policy evaluation that of the value
        (with a table, whole numbers are states). Rows are features as in the record, of shape (k, d); those of a data
        frame are found by their names. It is of the mean, not of one outcome.

        Examples
        --------
        >>> import numpy as np
        >>> import multireplay as mr
        >>> A = np.random.default_rng(0).standard_normal((4096, 2))
        >>> y = np.random.default_rng(1).random(4096) < 1 / (1 + np.exp(-A[:, 0]))
        >>> result = mr.solve(mr.GLM("logistic"), mr.Buffer(features=A, targets=y))
        >>> fitted, low, high = result.predict_interval([[0.0, 0.0], [2.0, 0.0]])
        >>> (low <= fitted).all() and (fitted <= high).all(), fitted.round(1)
        (np.True_, array([0.5, 0.9]))
        """
        from multireplay.solving.uncertain import predict_interval_of

        return predict_interval_of(self, rows, level, by)

    def table(self) -> TextTable:
        """One row an epoch; prints as text, shows as a table in a notebook, ``.rows`` has the values."""
        route = "steps" if self.run is None else self.run.update.route
        return epoch_table(self.epochs, self.chosen % len(self.epochs), route)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Error by iterations if the run was tracked, otherwise the distance of every epoch's answer to the final one.

        It is drawn on matplotlib's `ax`, by default that of a new figure.
        """
        from multireplay.show.plotting import plot_result

        return plot_result(self, ax)

    def report(
        self,
        path: str | os.PathLike[str] = "report.html",
        *,
        exact: bool | Literal["auto"] = "auto",
        rivals: bool | Literal["auto"] = "auto",
        names: Sequence[str] | None = None,
        buffer: Buffer | StoredBuffer | None = None,
        title: str | None = None,
        command: str | None = None,
    ) -> Path:
        """Write one HTML page on this run that needs no network: see `multireplay.report.report_of_result`.

        Parameters
        ----------
        path : str or path
            Where to write it; it is returned.
        exact : bool or "auto"
            Whether to work out the exact fit. "auto": where d is at most 512 and rows · d² at most 5e9.
        rivals : bool or "auto"
            Whether to run one pass in order and one shuffled, and the run itself once more to follow it on its way.
            "auto": unless a pass takes more than 20 seconds.
        names : sequence of str, optional
            Of the coordinates, if not those of the buffer's features.
        buffer : Buffer, optional
            The record, for a result that was pickled and left it behind.
        title, command : str, optional
            Heading of the page, and the command line that repeats it, if there is one.

        Examples
        --------
        >>> import tempfile
        >>> import multireplay as mr
        >>> process = mr.simulate.paper_mrp(m=0.9)
        >>> result = mr.solve(process.problem, process.buffer(2**12, seed=0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.report(f"{folder}/report.html").name
        'report.html'
        """
        from multireplay.report import report_of_result

        return report_of_result(
            path, self, exact=exact, rivals=rivals, names=names, buffer=buffer, title=title, command=command
        )

    def __str__(self) -> str:
        return f"{self.table()}\n{self.status}"

    def __repr__(self) -> str:
        return f"Result(x of {len(self.x)} coordinates, {len(self.epochs)} epochs, {self.status.code}: {self.status})"
