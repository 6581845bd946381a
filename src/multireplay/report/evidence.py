"""What a page on a result is written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multireplay._check import Vector
from multireplay.diagnose import Diagnosis
from multireplay.inference.residuals import Residual
from multireplay.replay import Replay, Serial
from multireplay.report.corrected import Corrected
from multireplay.report.missing import Missing
from multireplay.report.rivals import Rival
from multireplay.report.uncertainty import Uncertainty
from multireplay.result import Result
from multireplay.solving.run import Run


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was found out about a run.

    Attributes
    ----------
    result, recipe : Result, Run
        The run, and what it was asked to do.
    names : sequence of str
        Of the coordinates.
    replay : Replay or None
        The order; None if it was lost in pickling.
    residuals : sequence of Residual or Missing
        Of every epoch's answer on the whole record.
    start : Residual or Missing
        At the starting point.
    diagnosis : Diagnosis or Missing
        Of the record.
    operator : ndarray or None
        F̃(x, ξ_t) at the answer row by row, at the end of the record, of some coordinates.
    exact, in_order, shuffled : Rival or Missing
        What the answer is compared with.
    ours : Rival
        The run itself.
    uncertainty : Uncertainty or Missing
        How far the exact fit is expected to be from the truth.
    solution : ndarray or None
        The known solution, if the run was given one.
    """

    result: Result
    recipe: Run
    names: Sequence[str]
    replay: Replay | None
    residuals: Sequence[Residual | Missing]
    start: Residual | Missing
    diagnosis: Diagnosis | Missing
    operator: Vector | None
    exact: Rival | Missing
    in_order: Rival | Missing
    shuffled: Rival | Missing
    ours: Rival
    uncertainty: Uncertainty | Missing
    solution: Vector | None

    @property
    def residual(self) -> Residual | Missing:
        """At the answer."""
        return self.residuals[self.result.chosen]

    @property
    def tau(self) -> float:
        """Autocorrelation time of the slowest column, NaN where it is not known."""
        return self.diagnosis.tau if isinstance(self.diagnosis, Diagnosis) else float("nan")

    @property
    def corrected(self) -> bool:
        """Whether the run was one of Newton corrections."""
        return isinstance(self.replay, Corrected)

    def in_standard_errors(self, x: Vector) -> float | None:
        """The distance of a point to the exact fit, in units of the exact fit's own expected error."""
        if isinstance(self.exact, Missing) or isinstance(self.uncertainty, Missing) or not self.uncertainty.total:
            return None
        return float(np.linalg.norm(x - self.exact.x)) / self.uncertainty.total


def is_in_order(evidence: Evidence) -> bool:
    """Whether the run itself reads the record in order."""
    return isinstance(evidence.replay, Serial)
