"""Steps on sparse rows in time proportional to their nonzeros, on the whole space.

Three things would touch every coordinate at every step; each is put off until somebody looks.

- The average. With W the sum of the weights before a step, Σ_t w_t x_t = W x + u for the last x, where a step
  x ← x − m a adds W m a to u.
- Variance reduction adds the same dense vector g at every step, and a preconditioner moves along its axes. So the
  iterate is x = y − Σ_k c_k v_k with the fixed vectors v = (x̃, g, axes) and numbers c_k (that of the anchor x̃ stays 0),
  and a score of x is one of y minus those of the v_k, all read from the nonzeros.
- The average of that is the one of y minus Σ_k v_k times the weighted sums of c_k.

All of a coordinate lies together in one row of the `state`, (y, u, v_1, v_2, …), because once x no longer fits a cache
it is the places looked up that take the time. `SparseStepper.settle` makes x and the sum of the iterates whole again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numba
import numpy as np
from numba.extending import overload

from multireplay._check import Positions, Vector
from multireplay.engine import kernels
from multireplay.engine.kernels import fetch, residual, score
from multireplay.engine.prefetch import AHEAD
from multireplay.engine.rows import FAST
from multireplay.engine.sparse import fetch_ahead
from multireplay.engine.steppers import is_built_in, run_kernel
from multireplay.problems.packed import SparseRegressionSamples, SparseTransitionSamples

if TYPE_CHECKING:
    from multireplay.updates.precondition import Preconditioner

Y, U, FIXED = 0, 1, 2  # columns of the state


@numba.njit(cache=True, fastmath=FAST, _nrt=False)
def subtract_lazily(state, rows, i, amount, weight):  # type: ignore[no-untyped-def]
    """y ← y − amount · row i, and u ← u + weight · amount · row i."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        change = amount * rows.data[at]
        state[j, Y] -= change
        state[j, U] += weight * change


@numba.njit(cache=True, fastmath=FAST, _nrt=False)
def gather(state, rows, i, factor, out):  # type: ignore[no-untyped-def]
    """out ← out + factor · ⟨row i, v_k⟩ for all k."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        value = factor * rows.data[at]
        for k in range(out.shape[0]):
            out[k] += value * state[j, FIXED + k]


@numba.njit(cache=True, fastmath=FAST, _nrt=False)
def gather_anew(state, rows, i, out, copy):  # type: ignore[no-untyped-def]
    """out ← ⟨row i, v_k⟩ for all k, and the same into `copy`."""
    for k in range(out.shape[0]):
        out[k] = 0.0
    gather(state, rows, i, 1.0, out)
    for k in range(out.shape[0]):
        copy[k] = out[k]


def move_lazily(state: Any, samples: Any, i: int, amount: float, weight: float) -> None:
    """y ← y − amount · ψ_i, and u ← u + weight · amount · ψ_i."""
    raise NotImplementedError


@overload(move_lazily)
def _move_lazily(state, samples, i, amount, weight):  # type: ignore[no-untyped-def]
    if samples.instance_class in (SparseRegressionSamples, SparseTransitionSamples):
        return lambda state, samples, i, amount, weight: subtract_lazily(state, samples.rows, i, amount, weight)
    return lambda state, samples, i, amount, weight: subtract_lazily(
        state, samples.table, samples.states[i], amount, weight
    )


def look_up(state: Any, samples: Any, i: int, near: Any, scores: Any) -> None:
    """⟨ψ_i, v_k⟩ into `near`, and the scores of v_k on sample i into `scores`."""
    raise NotImplementedError


@overload(look_up)
def _look_up(state, samples, i, near, scores):  # type: ignore[no-untyped-def]
    def regression(state, samples, i, near, scores):  # type: ignore[no-untyped-def]
        gather_anew(state, samples.rows, i, near, scores)

    def transition(state, samples, i, near, scores):  # type: ignore[no-untyped-def]
        gather_anew(state, samples.rows, i, near, scores)
        gather(state, samples.next_rows, i, -samples.discounts[i], scores)

    def indexed(state, samples, i, near, scores):  # type: ignore[no-untyped-def]
        gather_anew(state, samples.table, samples.states[i], near, scores)
        gather(state, samples.table, samples.next_states[i], -samples.discounts[i], scores)

    kinds = {SparseRegressionSamples: regression, SparseTransitionSamples: transition}
    return kinds.get(samples.instance_class, indexed)


def _advance_plainly(samples, positions, steps, weights, limit, state, weight, taken):  # type: ignore[no-untyped-def]
    """Plain steps; ``weight[0]`` is W."""
    last = positions.shape[0]
    whole = weight[0]
    x = state[:, Y]
    for t in range(last):
        if t + 2 * AHEAD < last:
            fetch_ahead(samples, positions[t + 2 * AHEAD] - 1)
        if t + AHEAD < last:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        i = positions[t] - 1
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            weight[0] = whole
            return
        move_lazily(state, samples, i, steps[t] * r, whole)
        whole += weights[t]
    weight[0] = whole
    taken[0] = last


def _advance_around(  # type: ignore[no-untyped-def]
    samples, positions, steps, weights, limit, state, weight, anchored, stretch, shifts, sums, near, scores, taken
):
    """Steps with a preconditioner, variance-reduced where `anchored`: then v_1 and v_2 are x̃ and g, the rest axes."""
    last = positions.shape[0]
    whole = weight[0]
    count = shifts.shape[0]
    first = 2 if anchored else 0
    y = state[:, Y]
    for t in range(last):
        if t + 2 * AHEAD < last:
            fetch_ahead(samples, positions[t + 2 * AHEAD] - 1)
        if t + AHEAD < last:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        i = positions[t] - 1
        look_up(state, samples, i, near, scores)
        value = score(y, samples, i)
        for k in range(count):
            value -= shifts[k] * scores[k]
        r = residual(value, samples, i)
        if not abs(r) <= limit:
            weight[0] = whole
            return
        if anchored:
            r -= residual(scores[0], samples, i)
            shifts[1] += steps[t]
        move = steps[t] * r
        move_lazily(state, samples, i, move, whole)
        for k in range(first, count):
            shifts[k] += move * stretch[k - first] * near[k]
        if weights[t] > 0.0:
            whole += weights[t]
            for k in range(count):
                sums[k] += weights[t] * shifts[k]
    weight[0] = whole
    taken[0] = last


advance_plainly = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_plainly)
advance_plainly_users = numba.njit(**kernels.OPTIONS)(_advance_plainly)
advance_around = numba.njit(cache=True, _nrt=False, **kernels.OPTIONS)(_advance_around)
advance_around_users = numba.njit(**kernels.OPTIONS)(_advance_around)


class SparseStepper:
    """Runs plain steps on sparse rows of the whole space, at O(nonzeros) a step.

    Parameters
    ----------
    dim : int
        d.
    """

    name: Literal["sparse"] = "sparse"

    def __init__(self, dim: int) -> None:
        self._state = np.zeros((dim, FIXED))
        self._total = np.zeros(dim)
        self._weight = np.zeros(1)
        self._taken = np.zeros(1, dtype=np.int64)
        self._settled = True

    @property
    def x(self) -> Vector:
        """The iterate."""
        self.settle()
        return self._state[:, Y]

    @property
    def total(self) -> Vector:
        """The weighted sum of the iterates."""
        self.settle()
        return self._total

    def arrays(self) -> dict[str, Vector]:
        """All that changes, as arrays that can be written into, with x and the sum not worked out."""
        self._settled = False  # the arrays may be others after this
        return {"state": self._state, "total": self._total, "weight": self._weight}

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
        kernel = advance_plainly if is_built_in(samples) else advance_plainly_users
        return run_kernel(kernel, samples, positions, steps, weights, limit, self._state, self._weight, self._taken)


class ReducedSparseStepper(SparseStepper):
    """The same with a preconditioner, and variance-reduced once an anchor is set.

    Parameters
    ----------
    dim : int
        d.
    preconditioner : Preconditioner
        Its axes may be none.
    """

    def __init__(self, dim: int, preconditioner: Preconditioner) -> None:
        super().__init__(dim)
        self.preconditioner = preconditioner
        self._anchor, self._mean = np.zeros(0), np.zeros(dim)
        self._shifts, self._sums = np.zeros(0), np.zeros(0)
        self._laid_out = False

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
        kernel = advance_around if is_built_in(samples) else advance_around_users
        where = samples, positions, steps, weights, limit, self._state, self._weight
        around = bool(len(self._anchor)), self.preconditioner.stretch, self._shifts, self._sums
        scratch = np.zeros_like(self._shifts), np.zeros_like(self._shifts)
        taken = run_kernel(kernel, *where, *around, *scratch, self._taken)
        if len(positions) >= len(self._state):  # the steps have paid for it, and y stays as small as x
            self.settle()
        return taken
