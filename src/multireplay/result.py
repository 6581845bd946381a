"""What a run gives back: the answer, what every epoch found, and a sentence on how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multireplay._check import Vector
from multireplay.show.text import TextTable
from multireplay.tracking import Curve

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from multireplay.buffer.buffer import Buffer
    from multireplay.buffer.disk import StoredBuffer
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
        ‖x − Proj(x − F̂(x))‖ of the answer on the whole record, where it was worked out to choose between epochs.
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

    @property
    def ok(self) -> bool:
        """False if the answer should not be used as the fit of the record."""
        return self.code not in ("diverged", "not converged")

    def __str__(self) -> str:
        return self.message


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
    standard_error : ndarray or None
        Standard error of every coordinate of the exact fit under dependence, from 32 batch means, where it is known:
        what the record leaves open, not the distance of x to the exact fit. Infinite for coordinates of which the
        record says nothing.
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
    standard_error: Vector | None = None
    run: Run = field(default=None)  # type: ignore[assignment]
    notes: tuple[str, ...] = ()
    free: tuple[tuple[int, ...], ...] = ()
    measured: float | None = None

    @cached_property
    def distance(self) -> float:
        """The distance of x to the exact fit, estimated, in standard errors of the worst coordinate.

        It is known for whatever does not name an order of steps, and measured here otherwise, in one pass over the
        record. On a feasible set it is that of the projected problem. A problem with no Jacobian (an operator of one's
        own with more than 64 coordinates) has its mean operator measured instead, in standard errors of that. NaN where
        a pickled result has left its record behind unmeasured.
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
            Of the coordinates.
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


def epoch_table(epochs: tuple[Epoch, ...], chosen: int | None = None, route: str = "steps") -> TextTable:
    """The table of the epochs of a run, with what each would have answered and which one does.

    Exact fits have no gap, and they and corrections no step size.
    """
    rows = []
    for index, epoch in enumerate(epochs):
        row: dict[str, Any] = {
            "epoch": epoch.k,
            "gap": "-" if epoch.gap is None or route == "exact" else f"{epoch.gap:.6g}",
            "steps": epoch.taken,
            "step size": "-" if route in ("exact", "corrections") else f"{epoch.step:.4g}",
            "‖last‖": f"{np.linalg.norm(epoch.last):.4g}",
            "‖average‖": f"{np.linalg.norm(epoch.average):.4g}",
        }
        if epoch.curve is not None:
            row["‖last − x*‖²"] = f"{epoch.curve.end_last:.3e}"
            row["‖average − x*‖²"] = f"{epoch.curve.end_average:.3e}"
        row["residual"] = "" if epoch.residual is None else f"{epoch.residual:.3e}"
        row["note"] = f"diverged at step {epoch.taken + 1}" if epoch.diverged else ""
        if index == chosen and len(epochs) > 1:
            row["note"] = "the answer" + (": smallest residual" if epoch.residual is not None else "")
        rows.append(row)
    return TextTable(rows)
