"""The engine for sparse rows on the whole space: what would touch every coordinate at every step is put off."""

from __future__ import annotations

from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.engine.chains import Chains, WholeChains
from multireplay.engine.epoch import EpochRun
from multireplay.engine.kernels import sparse_loops
from multireplay.engine.kernels.sparse_loops import FIXED, U, Y
from multireplay.engine.stepper import MEMORY, Preconditioner, ReducedStepper, Stepper, is_built_in, run_kernel
from multireplay.replay import PlannedEpoch

FEW = 2**9
"""Chains that cost little although each of them is a call from Python."""


class SparseStepper(Stepper):
    """Runs plain steps on sparse rows of the whole space, at O(nonzeros) a step; see `kernels.sparse_loops`."""

    name = "sparse"

    def __init__(self, dim: int) -> None:
        self._state = np.zeros((dim, FIXED))
        self._total = np.zeros(dim)
        self._weight = np.zeros(1)
        self._taken = np.zeros(1, dtype=np.int64)
        self._settled = True

    def fresh(self) -> Stepper:
        return SparseStepper(len(self._state))

    def reduced(self, preconditioner: Preconditioner) -> ReducedStepper:
        return ReducedSparseStepper(preconditioner, len(self._state))

    def are_few(self, planned: PlannedEpoch, room: int) -> bool:
        """An iterate is much larger than a row here, and costs as much as a step for each of its coordinates."""
        chains, length = planned.chains, planned.length
        return (chains <= length and len(self._state) <= length) or (chains <= max(length, FEW) and room <= MEMORY)

    def whole_chains(self, run: EpochRun) -> Chains | None:
        few = self.are_few(run.planned, run.planned.chains * self.nbytes)
        return None if few else SparseChains(run)

    @property
    def x(self) -> Vector:  # type: ignore[override]
        """The iterate."""
        self.settle()
        return self._state[:, Y]

    @property
    def total(self) -> Vector:  # type: ignore[override]
        """The weighted sum of the iterates."""
        self.settle()
        return self._total

    def arrays(self) -> dict[str, Vector]:
        """All that changes, as arrays that can be written into, with x and the sum not worked out."""
        self._settled = False  # the arrays may be others after this
        return {"state": self._state, "total": self._total, "weight": self._weight}

    @property
    def nbytes(self) -> int:
        return self._state.nbytes + self._total.nbytes + self._weight.nbytes

    def settle(self) -> None:
        """Work out x and the sum of the iterates, which costs O(d)."""
        if self._settled:
            return
        self._settled = True
        self._total += self._weight[0] * self._state[:, Y] + self._state[:, U]
        self._state[:, U] = 0.0
        self._weight[0] = 0.0

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        self._settled = self._settled and not len(positions)
        kernel = sparse_loops.advance_plainly if is_built_in(samples) else sparse_loops.advance_plainly_users
        return run_kernel(kernel, samples, positions, steps, weights, limit, self._state, self._weight, self._taken)


class ReducedSparseStepper(ReducedStepper, SparseStepper):
    """Steps on sparse rows with a preconditioner of any rank, and variance-reduced once an anchor is set."""

    def __init__(self, preconditioner: Preconditioner, dim: int) -> None:
        super().__init__(preconditioner, dim)
        self._shifts, self._sums = np.zeros(0), np.zeros(0)

    @property
    def anchor(self) -> Vector:
        """x̃; without coordinates, steps are plain."""
        return self._anchor

    @anchor.setter
    def anchor(self, anchor: Vector) -> None:
        self.settle()
        self._anchor, self._laid_out = anchor, False

    @property
    def mean(self) -> Vector:
        """g, the preconditioned mean operator at the anchor."""
        return self._mean

    @mean.setter
    def mean(self, mean: Vector) -> None:
        self.settle()
        self._mean, self._laid_out = mean, False

    def _lay_out(self) -> None:
        """Put the fixed vectors beside y and u: the anchor and the mean operator, if there is one, and the axes."""
        self._laid_out = True
        fixed = [self._anchor, self._mean] if len(self._anchor) else []
        count = len(fixed) + self.preconditioner.rank
        state = np.zeros((len(self._state), FIXED + count))
        state[:, Y] = self._state[:, Y]
        for k, vector in enumerate((*fixed, *self.preconditioner.axes)):
            state[:, FIXED + k] = vector
        self._state, self._shifts, self._sums = state, np.zeros(count), np.zeros(count)

    def settle(self) -> None:
        if self._settled:
            return
        super().settle()
        fixed = self._state[:, FIXED:]
        self._total -= fixed @ self._sums
        self._state[:, Y] -= fixed @ self._shifts
        self._sums[:] = 0.0
        self._shifts[:] = 0.0

    def advance(self, samples: Any, positions: Positions, steps: Vector, weights: Vector, limit: float) -> int:
        if not len(self._anchor) and not self.preconditioner.rank:
            return super().advance(samples, positions, steps, weights, limit)
        if not self._laid_out:
            self._lay_out()
        self._settled = self._settled and not len(positions)
        kernel = sparse_loops.advance_around if is_built_in(samples) else sparse_loops.advance_around_users
        where = samples, positions, steps, weights, limit, self._state, self._weight
        around = bool(len(self._anchor)), self.preconditioner.stretch, self._shifts, self._sums
        scratch = np.zeros_like(self._shifts), np.zeros_like(self._shifts)
        taken = run_kernel(kernel, *where, *around, *scratch, self._taken)
        if len(positions) >= len(self._state):  # the steps have paid for it, and y stays as small as x
            self.settle()
        return taken


class SparseChains(WholeChains):
    """Whole chains of one epoch on the whole space, with sums that are differences to the start."""

    def __init__(self, run: EpochRun) -> None:
        super().__init__(run)
        self._x, self._moves = run.x0.copy(), np.zeros(len(self.steps))
        self._remaining = np.cumsum(self.weights[::-1])[::-1].copy()
        self._taken = np.zeros(1, dtype=np.int64)

    def compiled(self, samples: Any, positions: Positions) -> int:
        kernel = sparse_loops.advance_chains if is_built_in(samples) else sparse_loops.advance_chains_users
        where = samples, positions, self.steps, self._remaining, self.run.limit, self.run.x0, self._x, self._moves
        return run_kernel(kernel, *where, self.lasts, self.totals, self._taken)

    def sums(self) -> tuple[Vector, Vector]:
        start = self.ended * self.run.x0
        return start + self.lasts, start + self.totals / self.weights.sum()
