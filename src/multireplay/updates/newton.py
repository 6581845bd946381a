"""Newton corrections: a fit of rows spread over the record, put right by passes over all of it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from multireplay._check import positive, whole_number
from multireplay.engine.sums import one_thread_each
from multireplay.updates.base import Found, Needs, Route, Unsuitable, Update
from multireplay.updates.coarse import coarse_fit
from multireplay.updates.corrections import Corrections, as_epoch

if TYPE_CHECKING:
    from multireplay.solving.run import Run

CLOSE = 0.1
"""The distance to the exact fit, in standard errors of the worst coordinate, at which there is nothing left to do."""
MOST = 50
CANNOT = "mr.Newton() cannot be used here: "
OTHERWISE = "Leave update=... out, and what can be used is chosen"


@dataclass(frozen=True)
class Newton(Update):
    """Rows spread over the record are fitted, then x ← x − J⁻¹F̂(x) in passes over all of it, with the rows' Jacobian J.

    The coarse epoch has 2^13 samples, or 8 to 16 a coordinate if that is more, one in each of as many equal parts of
    the record, as in MER's epochs, so that they are nearly independent whatever the mixing time. Each correction takes
    one pass in order at O(d) a row; corrections are combined by Anderson's acceleration. They end when the distance to
    the exact fit, as the last two of them show it, is below a tenth of the worst coordinate's standard error under
    dependence (from 32 batch means). Where the samples know too little of some feature, as with rare events, or the
    corrections do not shrink, J is worked out from all rows at the current point, if that is at all affordable.

    On a feasible set each correction is the solution of the variational inequality that is linearized at the
    current point (Josephy 1979). J costs O(d²) a row that it is made of, and d² numbers of memory; where more than
    1024 features of a nonlinear regression are all but uncorrelated, a few products with the rows do instead. It
    needs a problem whose Jacobian is known: `PolicyEvaluation`, `GLM` with a built-in link, or an operator of one's
    own with at most 64 coordinates, whose Jacobian is made by differences.

    Parameters
    ----------
    corrections : int or "auto"
        Number of passes over the record. "auto" is as many as it takes, at most 50; usually 2 to 4.
    tolerance : float
        Distance to the exact fit at which to end, in standard errors of the worst coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> import multireplay as mr
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((2**16, 8))
    >>> buffer = mr.Buffer(features=A, targets=A @ np.arange(8) + rng.standard_normal(2**16))
    >>> for corrections in (2, 3):
    ...     result = mr.solve(mr.GLM(), buffer, update=mr.Newton(corrections))
    ...     print(result.passes, f"{abs(result.x - mr.GLM().fit_exactly(buffer)).max():.0e}")
    2.125 5e-05
    3.125 1e-06
    """

    route: ClassVar[Route] = "corrections"
    needs: ClassVar[Needs] = Needs(
        own_order="mr.Newton() reads the record in order: leave replay=... out",
        no_step="mr.Newton() takes no steps: leave step=... out",
        double="mr.Newton() works in float64: leave precision=... out",
    )

    corrections: int | Literal["auto"] = "auto"
    tolerance: float = CLOSE

    def __post_init__(self) -> None:
        if self.corrections != "auto":
            object.__setattr__(self, "corrections", whole_number("corrections", self.corrections, least=1))
        if self.tolerance != CLOSE:
            object.__setattr__(self, "tolerance", positive("tolerance", self.tolerance))

    def run(self, run: Run) -> Found:
        """The coarse epoch, and corrections until what is left is noise."""
        if not run.record.problem.has_jacobian:
            raise Unsuitable(f"{CANNOT}{run.problem!r} has no Jacobian. {OTHERWISE}")
        began, record = time.perf_counter(), run.record
        with one_thread_each() if record.problem.on_host else nullcontext():
            try:
                coarse = coarse_fit(record, run.start)
            except Unsuitable as why:
                raise Unsuitable(f"{CANNOT}{why}. {OTHERWISE}") from why
            asked = None if self.corrections == "auto" else self.corrections
            corrections = Corrections(run, self.tolerance, asked or run.passes or MOST, asked is not None)
            done, images = corrections.from_rows(coarse), corrections.images
        length, k = record.length, coarse.rows.bit_length() - 1
        epochs = [as_epoch(k, length / coarse.rows, coarse.rows, coarse.x, run.track)]
        epochs += [as_epoch(k + i, 1.0, length, x, run.track) for i, x in enumerate(done, start=1)]
        passes, count = coarse.rows / length + corrections.passes, len(done)
        what = (
            f"{coarse.rows} samples, {length / coarse.rows:.3g} apart, fitted, then {count} Newton "
            f"correction{'s' * (count > 1)}, each a pass over all {length} in order ({passes:.3g} passes in all"
            f"{f', {corrections.whole} with the Jacobian of all rows' if corrections.whole else ''})"
        )
        return Found(
            tuple(epochs),
            len(epochs) - 1,
            passes,
            time.perf_counter() - began,
            what,
            notes=corrections.notes,
            images=images,
            distance=corrections.distance,
        )
