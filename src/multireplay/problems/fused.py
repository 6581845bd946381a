"""Σ_t r_t(x) ψ_t of dense rows in one compiled loop, which reads every row from memory once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay._jit import kernel
from multireplay.problems.links import apply

WIDE = 256
"""Features from which on four rows at a time are better than two."""


@kernel
def _by_twos(rows, outcomes, x, code, total):  # type: ignore[no-untyped-def]
    """Adds Σ_t (f(ψ_tᵀx) − y_t) ψ_t to `total`: two rows at a time, so that x and the sum are read less often."""
    count, dim = rows.shape
    twos = count - count % 2
    for t in range(0, twos, 2):
        a = b = 0.0
        for j in range(dim):
            a += rows[t, j] * x[j]
            b += rows[t + 1, j] * x[j]
        a, b = apply(code, a) - outcomes[t], apply(code, b) - outcomes[t + 1]
        for j in range(dim):
            total[j] += a * rows[t, j] + b * rows[t + 1, j]
    if twos < count:
        a = 0.0
        for j in range(dim):
            a += rows[twos, j] * x[j]
        a = apply(code, a) - outcomes[twos]
        for j in range(dim):
            total[j] += a * rows[twos, j]


@kernel
def _by_fours(rows, outcomes, x, code, total):  # type: ignore[no-untyped-def]
    """Adds Σ_t (f(ψ_tᵀx) − y_t) ψ_t to `total`, four rows at a time, but for the rows that are left over then."""
    for t in range(0, rows.shape[0] - 3, 4):
        a = b = c = d = 0.0
        for j in range(rows.shape[1]):
            a += rows[t, j] * x[j]
            b += rows[t + 1, j] * x[j]
            c += rows[t + 2, j] * x[j]
            d += rows[t + 3, j] * x[j]
        a, b = apply(code, a) - outcomes[t], apply(code, b) - outcomes[t + 1]
        c, d = apply(code, c) - outcomes[t + 2], apply(code, d) - outcomes[t + 3]
        for j in range(rows.shape[1]):
            total[j] += a * rows[t, j] + b * rows[t + 1, j] + c * rows[t + 2, j] + d * rows[t + 3, j]


@kernel
def _differences(rows, then, discounts, outcomes, x, total):  # type: ignore[no-untyped-def]
    """Adds Σ_t (ψ_tᵀx − γ_t ψ'_tᵀx − y_t) ψ_t to `total`, two rows at a time."""
    count, dim = rows.shape
    twos = count - count % 2
    for t in range(0, twos, 2):
        a = b = c = d = 0.0
        for j in range(dim):
            a += rows[t, j] * x[j]
            b += rows[t + 1, j] * x[j]
            c += then[t, j] * x[j]
            d += then[t + 1, j] * x[j]
        a -= discounts[t] * c + outcomes[t]
        b -= discounts[t + 1] * d + outcomes[t + 1]
        for j in range(dim):
            total[j] += a * rows[t, j] + b * rows[t + 1, j]
    if twos < count:
        a = c = 0.0
        for j in range(dim):
            a += rows[twos, j] * x[j]
            c += then[twos, j] * x[j]
        a -= discounts[twos] * c + outcomes[twos]
        for j in range(dim):
            total[j] += a * rows[twos, j]


def regression_sum(rows: NDArray[Any], outcomes: NDArray[Any], x: Vector, code: int) -> Vector:
    """Σ_t (f(ψ_tᵀx) − y_t) ψ_t, f the built-in link of that code.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.problems.fused import regression_sum
    >>> from multireplay.problems.links import IDENTITY
    >>> regression_sum(np.eye(2), np.array([1.0, 2.0]), np.array([3.0, 3.0]), IDENTITY)
    array([2., 1.])
    """
    total, wide = np.zeros(len(x)), np.ascontiguousarray(outcomes, dtype=np.float64)
    fours = len(rows) // 4 * 4 if len(x) >= WIDE else 0
    if fours:
        _by_fours(rows, wide, x, code, total)
    if fours < len(rows):
        _by_twos(rows[fours:], wide[fours:], x, code, total)
    return total


def difference_sum(
    rows: NDArray[Any], then: NDArray[Any], discounts: Vector, outcomes: NDArray[Any], x: Vector
) -> Vector:
    """Σ_t (ψ_tᵀx − γ_t ψ'_tᵀx − y_t) ψ_t.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.problems.fused import difference_sum
    >>> eye = np.eye(2)
    >>> difference_sum(eye, eye[::-1].copy(), np.full(2, 0.5), np.ones(2), np.array([4.0, 2.0]))
    array([ 2., -1.])
    """
    total = np.zeros(len(x))
    wide = (np.ascontiguousarray(values, dtype=np.float64) for values in (discounts, outcomes))
    _differences(rows, then, *wide, x, total)
    return total
