"""One step on sparse and indexed samples: the functions of `step` for the samples of `problems.packed`.

A dense table runs in the ordinary loops. Sparse rows run in `sparse_loops` on the whole space, and in the ordinary
loops on a feasible set, where every step projects all coordinates anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from multireplay._jit import FAST, kernel
from multireplay.problems.compiled import (
    fetch,
    fetch_numbers,
    has_dense_rows,
    link_value,
    move_along,
    move_and_add,
    residual,
    score,
)
from multireplay.problems.packed import (
    IndexedTransitionSamples,
    Nonzeros,
    SparseRegressionSamples,
    SparseTransitionSamples,
)
from multireplay.vectors.coordinates import dot_of_difference, fetch_part, move, subtract
from multireplay.vectors.intrinsics import fetch_number

_LINE = 8  # numbers in a cache line; a line of 32-bit ones is asked for twice, which costs nothing
_MOST = 16 * _LINE


def has_sparse_rows(samples: Any) -> bool:
    """Whether samples of this compiled type have sparse rows of features."""
    return any(isinstance(field, types.NamedTuple) and field.instance_class is Nonzeros for field in samples.types)


@kernel(inline="always")
def state_of(samples, i):  # type: ignore[no-untyped-def]
    """s_i, or the last state if the column was changed under the run to one that is not in the table."""
    return min(np.uintp(samples.states[i]), np.uintp(samples.height - 1))


@kernel(inline="always")
def next_state_of(samples, i):  # type: ignore[no-untyped-def]
    """s_{i+1}, as `state_of`."""
    return min(np.uintp(samples.next_states[i]), np.uintp(samples.height - 1))


@kernel(fastmath=FAST)
def inner(rows, i, x):  # type: ignore[no-untyped-def]
    """⟨row i, x⟩ for sparse rows. An unsigned index is not tested for being negative."""
    total = 0.0
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        total += np.float64(rows.data[at]) * x[np.uintp(rows.indices[at])]
    return total


@kernel(fastmath=FAST)
def subtract_sparse(x, rows, i, amount):  # type: ignore[no-untyped-def]
    """x ← x − amount · row i for sparse rows."""
    for at in range(rows.indptr[i], rows.indptr[i + 1]):
        x[np.uintp(rows.indices[at])] -= amount * rows.data[at]


@overload(score)
def _score(x, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is SparseRegressionSamples:
        return lambda x, samples, i: inner(samples.rows, i, x)
    if samples.instance_class is SparseTransitionSamples:
        return lambda x, samples, i: inner(samples.rows, i, x) - samples.discounts[i] * inner(samples.next_rows, i, x)
    if samples.instance_class is not IndexedTransitionSamples:
        return None
    if has_sparse_rows(samples):
        return lambda x, samples, i: (
            inner(samples.table, state_of(samples, i), x)
            - samples.discounts[i] * inner(samples.table, next_state_of(samples, i), x)
        )
    return lambda x, samples, i: dot_of_difference(
        samples.table.rows[state_of(samples, i)], samples.table.rows[next_state_of(samples, i)], samples.discounts[i], x
    )


@overload(residual)
def _residual(value, samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is SparseRegressionSamples:
        return lambda value, samples, i: link_value(samples.link, value) - samples.targets[i]
    if samples.instance_class in (SparseTransitionSamples, IndexedTransitionSamples):
        return lambda value, samples, i: value - samples.rewards[i]
    return None


@overload(move_along, inline="always")
def _move_along(x, samples, i, amount):  # type: ignore[no-untyped-def]
    if samples.instance_class in (SparseRegressionSamples, SparseTransitionSamples):
        return lambda x, samples, i, amount: subtract_sparse(x, samples.rows, i, amount)
    if samples.instance_class is not IndexedTransitionSamples:
        return None
    if has_sparse_rows(samples):
        return lambda x, samples, i, amount: subtract_sparse(x, samples.table, state_of(samples, i), amount)
    return lambda x, samples, i, amount: subtract(x, samples.table.rows[state_of(samples, i)], amount)


@overload(move_and_add, inline="always")
def _move_and_add(x, total, samples, i, amount, weight, later):  # type: ignore[no-untyped-def]
    if samples.instance_class is IndexedTransitionSamples and has_dense_rows(samples):
        return lambda x, total, samples, i, amount, weight, later: move(
            x, total, samples.table.rows[state_of(samples, i)], amount, weight, samples, later
        )
    return None


@overload(fetch_part, inline="always")
def _fetch_part(samples, i, j):  # type: ignore[no-untyped-def]
    """The row of a table cannot be asked for before the state is known."""
    if samples.instance_class is IndexedTransitionSamples:
        return lambda samples, i, j: None
    return None


@kernel(inline="always")
def fetch_nonzeros(rows, i):  # type: ignore[no-untyped-def]
    """Ask for the nonzeros of a sparse row."""
    first = rows.indptr[i]
    for at in range(first, min(rows.indptr[i + 1], first + _MOST), _LINE):
        fetch_number(rows.data, at)
        fetch_number(rows.indices, at)


@overload(fetch)
def _fetch(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is SparseRegressionSamples:

        def regression(samples, i):  # type: ignore[no-untyped-def]
            fetch_nonzeros(samples.rows, i)
            fetch_number(samples.targets, i)

        return regression

    if samples.instance_class is SparseTransitionSamples:

        def transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_nonzeros(samples.rows, i)
            fetch_nonzeros(samples.next_rows, i)
            fetch_number(samples.rewards, i)
            fetch_number(samples.discounts, i)

        return transition

    if samples.instance_class is IndexedTransitionSamples:
        return lambda samples, i: fetch_numbers(samples, i)
    return None


@overload(fetch_numbers)
def _fetch_numbers(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is not IndexedTransitionSamples:
        return None

    def indexed(samples, i):  # type: ignore[no-untyped-def]
        fetch_number(samples.states, i)
        fetch_number(samples.next_states, i)
        fetch_number(samples.rewards, i)
        fetch_number(samples.discounts, i)

    return indexed


def fetch_ahead(samples: Any, i: int) -> None:
    """Ask for what `fetch` itself reads of sample i, some steps before it does."""
    raise NotImplementedError


@overload(fetch_ahead)
def _fetch_ahead(samples, i):  # type: ignore[no-untyped-def]
    if samples.instance_class is SparseRegressionSamples:
        return lambda samples, i: fetch_number(samples.rows.indptr, i)
    if samples.instance_class is SparseTransitionSamples:

        def transition(samples, i):  # type: ignore[no-untyped-def]
            fetch_number(samples.rows.indptr, i)
            fetch_number(samples.next_rows.indptr, i)

        return transition

    return lambda samples, i: None
