"""Steps of many lanes at once, in operations on whole arrays of any library, wherever the arrays lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import array_api_compat as compat
import numpy as np

from multireplay._check import Positions, Vector
from multireplay.buffer.foreign import Array, as_numpy, block_bytes, like, row_bytes
from multireplay.engine.steppers import StepFailure
from multireplay.problems.batched import Batched, part_of
from multireplay.sets import Set
from multireplay.sets.batched import Projection, batched_projection

if TYPE_CHECKING:
    from multireplay.updates.precondition import Preconditioner

WATCHED = 64
"""Divergence is looked for once in so many steps: to look is to wait for the device."""


class Lanes(Protocol):
    """Which rows of the record a group of lanes reads."""

    count: int

    def batch(self, samples: Any, t: int) -> Any:
        """The rows of step t (from 0), one for each lane."""


class SideBySide:
    """Lanes that read consecutive rows at every step, the last of them being ``leads[t]`` (1-based)."""

    def __init__(self, leads: list[int], behind: int = 0, count: int = 1) -> None:
        self.leads, self.behind, self.count = leads, behind, count

    def batch(self, samples: Any, t: int) -> Any:
        stop = self.leads[t] - self.behind
        return part_of(samples, slice(stop - self.count, stop))

    def positions(self, t: int) -> Positions:
        """The 1-based positions of step t, by lane."""
        stop = self.leads[t] - self.behind
        return np.arange(stop - self.count + 1, stop + 1, dtype=np.int64)

    shown = positions


class Ended(NamedTuple):
    """Where the lanes are after so many steps."""

    X: Array
    """Their iterates, of shape (lanes, dim)."""
    total: Vector
    """The weighted sum of all their iterates so far, over steps and lanes."""
    taken: int
    residuals: Array | None
    """Those of the step that went beyond the limit and was not taken, if one did."""


class BatchedStepper:
    """Takes the steps of many lanes at once; with a single lane it is a stepper like the others."""

    name: Literal["batched"] = "batched"

    def __init__(self, problem: Batched, constraint: Set, dim: int) -> None:
        self.problem = problem
        self.constraint = constraint
        self.x = np.zeros(dim)
        self.total = np.zeros(dim)
        self._projection: Projection | None = None

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        ended = self.walk(samples, SideBySide(positions.tolist()), self.x, steps, weights, limit)
        self.x[:] = as_numpy(ended.X)[0]
        self.total += ended.total
        return ended.taken

    def walk(self, samples: Any, lanes: Lanes, start: Vector, steps: Vector, weights: Vector, limit: float) -> Ended:
        """All steps of these lanes from `start`, or those before the first one that goes beyond the limit.

        They start from one point, or each from its own row.

        The residuals are looked at many steps at a time. Should one be beyond the limit, the same steps are taken once
        more, with a look at each, to stop before it.
        """
        with np.errstate(all="ignore"):
            ended = self._walk(samples, lanes, start, steps, weights, limit, watched=WATCHED)
            if ended.residuals is None:
                return ended
            return self._walk(samples, lanes, start, steps, weights, limit, watched=1)

    def _walk(
        self, samples: Any, lanes: Lanes, start: Vector, steps: Vector, weights: Vector, limit: float, watched: int
    ) -> Ended:
        xp, project = self.problem.xp, self._prepare(samples[0])
        first = like(start, samples[0])
        X = first + xp.zeros((lanes.count, start.shape[-1]), dtype=first.dtype, device=compat.device(first))
        each = xp.ones_like(X[:, 0])
        total = xp.zeros(start.shape[-1], dtype=xp.float64, device=compat.device(first))
        kept: list[Array] = []
        patience = 0
        for t, (step, weight) in enumerate(zip(steps.tolist(), weights.tolist(), strict=True)):
            try:
                batch = lanes.batch(samples, t)
                residuals = self.problem.residuals(X, batch)
                kept.append(residuals)
                patience = patience or min(watched, max(1, block_bytes(X) // (lanes.count * row_bytes(residuals))))
                if len(kept) == patience:
                    if not self._within(limit, kept):
                        return Ended(X, as_numpy(total), t, residuals)
                    kept.clear()
                X -= self.move(step, X, residuals, batch)
                X = project(X)
                if weight > 0:
                    total += weight * xp.astype(each @ X, xp.float64, copy=False)
            except Exception as error:
                raise StepFailure(t) from error
        if kept and not self._within(limit, kept):
            return Ended(X, as_numpy(total), len(steps), kept[-1])
        return Ended(X, as_numpy(total), len(steps), None)

    def move(self, step: float, X: Array, residuals: Array, batch: Any) -> Array:
        """What is subtracted from the iterates."""
        move, pull = self.problem.spread(step * residuals, batch), self.problem.pull(X)
        return move if pull is None else move + step * pull

    def _prepare(self, array: Array) -> Projection:
        """The projection of points like this array."""
        if self._projection is None:
            self._projection = batched_projection(self.constraint, len(self.x), array)
        return self._projection

    def _within(self, limit: float, kept: list[Array]) -> bool:
        xp = self.problem.xp
        return float(xp.max(xp.abs(kept[0] if len(kept) == 1 else xp.concat(kept)))) <= limit


class ReducedBatchedStepper(BatchedStepper):
    """Variance reduction in lanes: every lane steps along F̃(x, ξ) − F̃(x̃, ξ) + F̂(x̃)."""

    def __init__(self, problem: Batched, constraint: Set, dim: int, preconditioner: Preconditioner) -> None:
        super().__init__(problem, constraint, dim)
        self.preconditioner = preconditioner
        self.anchor = np.zeros(0)
        self.mean = np.zeros(dim)
        self._around: tuple[Array, Array] | None = None

    def _prepare(self, array: Array) -> Projection:
        self._around = (like(self.anchor, array), like(self.mean, array)) if len(self.anchor) else None
        return super()._prepare(array)

    def move(self, step: float, X: Array, residuals: Array, batch: Any) -> Array:
        if self._around is None:
            return super().move(step, X, residuals, batch)
        anchor, mean = self._around
        anchors = self.problem.xp.broadcast_to(anchor, X.shape)
        difference = residuals - self.problem.residuals(anchors, batch)
        return super().move(step, X - anchor, difference, batch) + step * mean  # a ridge pulls in proportion
