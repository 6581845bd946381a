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

from typing import Any

import numpy as np
from numba.extending import overload

from multireplay._jit import FAST, kernel, users_kernel
from multireplay.problems.compiled import fetch, move_along, residual, score
from multireplay.problems.compiled_sparse import fetch_ahead, next_state_of, state_of
from multireplay.problems.packed import SparseRegressionSamples, SparseTransitionSamples
from multireplay.vectors.intrinsics import AHEAD

Y, U, FIXED = 0, 1, 2  # columns of the state


@kernel(fastmath=FAST)
def subtract_lazily(state, rows, i, amount, weight):  # type: ignore[no-untyped-def]
    """y ← y − amount · row i, and u ← u + weight · amount · row i."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        change = amount * rows.data[at]
        state[j, Y] -= change
        state[j, U] += weight * change


@kernel(fastmath=FAST)
def gather(state, rows, i, factor, out):  # type: ignore[no-untyped-def]
    """out ← out + factor · ⟨row i, v_k⟩ for all k."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        value = factor * rows.data[at]
        for k in range(out.shape[0]):
            out[k] += value * state[j, FIXED + k]


@kernel(fastmath=FAST)
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
        state, samples.table, state_of(samples, i), amount, weight
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
        gather_anew(state, samples.table, state_of(samples, i), near, scores)
        gather(state, samples.table, next_state_of(samples, i), -samples.discounts[i], scores)

    kinds = {SparseRegressionSamples: regression, SparseTransitionSamples: transition}
    return kinds.get(samples.instance_class, indexed)


# Where the nonzeros of a row begin has to be known before they can be asked for: so that is asked for twice as early.
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


@kernel(error_model="python")
def restore_row(x, start, rows, i):  # type: ignore[no-untyped-def]
    """x ← start where row i is not zero."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        j = np.uintp(rows.indices[at])
        x[j] = start[j]


def restore(x: Any, start: Any, samples: Any, i: int) -> None:
    """x ← start where a step on sample i has moved it."""
    raise NotImplementedError


@overload(restore)
def _restore(x, start, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class in (SparseRegressionSamples, SparseTransitionSamples):
        return lambda x, start, samples, i: restore_row(x, start, samples.rows, i)
    return lambda x, start, samples, i: restore_row(x, start, samples.table, state_of(samples, i))


# To copy the start for every chain would cost O(d): only what its steps have moved is put back.
def _advance_chains(  # type: ignore[no-untyped-def]
    samples, positions, steps, remaining, limit, start, x, moves, lasts, totals, taken
):
    """Whole chains of len(steps) steps, each from `start`, which x is on entry and again after every chain.

    A step x ← x − m a moves the chain's last iterate by −m a, and its weighted sum by that times the weights that are
    still to come, ``remaining``. So both sums over the chains are kept as differences to the start.
    """
    length = steps.shape[0]
    last = positions.shape[0]
    for t in range(last):
        if t + 2 * AHEAD < last:
            fetch_ahead(samples, positions[t + 2 * AHEAD] - 1)
        if t + AHEAD < last:
            fetch(samples, positions[t + AHEAD] - 1)
        taken[0] = t
        within = t % length
        i = positions[t] - 1
        r = residual(score(x, samples, i), samples, i)
        if not abs(r) <= limit:
            return
        moves[within] = steps[within] * r
        move_along(x, samples, i, moves[within])
        if within == length - 1:
            for s in range(length):
                i = positions[t - within + s] - 1
                move_along(lasts, samples, i, moves[s])
                move_along(totals, samples, i, moves[s] * remaining[s])
                restore(x, start, samples, i)
    taken[0] = last


advance_plainly, advance_plainly_users = kernel(_advance_plainly), users_kernel(_advance_plainly)
advance_around, advance_around_users = kernel(_advance_around), users_kernel(_advance_around)
advance_chains, advance_chains_users = kernel(_advance_chains), users_kernel(_advance_chains)
