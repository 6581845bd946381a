"""What a step does to all coordinates: two products, and the move along a row of features.

Each is written twice: in packs of eight for rows that lie side by side in memory, with parts of four, two and one for
what is left over; and number by number for others, such as columns cut out of a wider table. Two sums, even and odd,
are kept at a time, because an addition takes several cycles and the next to the same sum would wait for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from multireplay._jit import FAST, kernel
from multireplay.vectors.intrinsics import (
    WIDTH,
    as_stored,
    can_be_packed,
    fill,
    load,
    multiply_add,
    store,
    sum_of,
)

INLINE = {"fastmath": FAST, "forceinline": True}


def dot(row: Any, x: Any) -> float:
    """⟨row, x⟩."""
    raise NotImplementedError


@overload(dot, jit_options=INLINE)
def _dot(row, x):  # type: ignore[no-untyped-def]
    def one_by_one(row, x):  # type: ignore[no-untyped-def]
        total = 0.0
        for j in range(x.shape[0]):
            total += np.float64(row[j]) * np.float64(x[j])
        return total

    def packed(row, x):  # type: ignore[no-untyped-def]
        even, odd = fill(0.0), fill(0.0)
        j, end = 0, x.shape[0]
        while j + 2 * WIDTH <= end:
            even = multiply_add(load(row, j, WIDTH), load(x, j, WIDTH), even)
            j += WIDTH
            odd = multiply_add(load(row, j, WIDTH), load(x, j, WIDTH), odd)
            j += WIDTH
        if j + WIDTH <= end:
            even = multiply_add(load(row, j, WIDTH), load(x, j, WIDTH), even)
            j += WIDTH
        if end & 4:
            odd = multiply_add(load(row, j, 4), load(x, j, 4), odd)
            j += 4
        if end & 2:
            even = multiply_add(load(row, j, 2), load(x, j, 2), even)
            j += 2
        if end & 1:
            odd = multiply_add(load(row, j, 1), load(x, j, 1), odd)
        return sum_of(even, odd)

    return packed if can_be_packed(row, x) else one_by_one


def dot_of_difference(row: Any, other: Any, factor: float, x: Any) -> float:
    """⟨row − factor · other, x⟩."""
    raise NotImplementedError


@overload(dot_of_difference, jit_options=INLINE)
def _dot_of_difference(row, other, factor, x):  # type: ignore[no-untyped-def]
    def one_by_one(row, other, factor, x):  # type: ignore[no-untyped-def]
        return dot(row, x) - factor * dot(other, x)

    def packed(row, other, factor, x):  # type: ignore[no-untyped-def]
        even, odd, minus = fill(0.0), fill(0.0), fill(-factor)
        j, end = 0, x.shape[0]
        while j + 2 * WIDTH <= end:
            difference = multiply_add(minus, load(other, j, WIDTH), load(row, j, WIDTH))
            even = multiply_add(difference, load(x, j, WIDTH), even)
            j += WIDTH
            difference = multiply_add(minus, load(other, j, WIDTH), load(row, j, WIDTH))
            odd = multiply_add(difference, load(x, j, WIDTH), odd)
            j += WIDTH
        if j + WIDTH <= end:
            difference = multiply_add(minus, load(other, j, WIDTH), load(row, j, WIDTH))
            even = multiply_add(difference, load(x, j, WIDTH), even)
            j += WIDTH
        if end & 4:
            difference = multiply_add(minus, load(other, j, 4), load(row, j, 4))
            odd = multiply_add(difference, load(x, j, 4), odd)
            j += 4
        if end & 2:
            difference = multiply_add(minus, load(other, j, 2), load(row, j, 2))
            even = multiply_add(difference, load(x, j, 2), even)
            j += 2
        if end & 1:
            difference = multiply_add(minus, load(other, j, 1), load(row, j, 1))
            odd = multiply_add(difference, load(x, j, 1), odd)
        return sum_of(even, odd)

    return packed if can_be_packed(row, other, x) else one_by_one


def fetch_part(samples: Any, i: int, j: int) -> None:
    """Ask for the cache line with coordinate j of the features of sample i; it is called for every eighth."""
    raise NotImplementedError


def move(x: Any, total: Any, row: Any, amount: float, weight: float, samples: Any, later: int) -> None:
    """x ← x − amount · row and total ← total + weight · x, while the features of a later sample are asked for.

    Memory then never waits for the arithmetic: it delivers that sample piece by piece as this one is used.
    """
    raise NotImplementedError


@overload(move, jit_options=INLINE)
def _move(x, total, row, amount, weight, samples, later):  # type: ignore[no-untyped-def]
    def one_by_one(x, total, row, amount, weight, samples, later):  # type: ignore[no-untyped-def]
        for j in range(x.shape[0]):
            if j % WIDTH == 0:
                fetch_part(samples, later, j)
            x[j] -= amount * row[j]
            total[j] += weight * x[j]

    def packed(x, total, row, amount, weight, samples, later):  # type: ignore[no-untyped-def]
        minus, share = fill(-amount), fill(weight)
        j, end = 0, x.shape[0]
        while j + WIDTH <= end:
            fetch_part(samples, later, j)
            moved = as_stored(x, multiply_add(minus, load(row, j, WIDTH), load(x, j, WIDTH)))
            store(x, j, WIDTH, moved)
            store(total, j, WIDTH, multiply_add(share, moved, load(total, j, WIDTH)))
            j += WIDTH
        if j < end:
            fetch_part(samples, later, j)
        if end & 4:
            moved = as_stored(x, multiply_add(minus, load(row, j, 4), load(x, j, 4)))
            store(x, j, 4, moved)
            store(total, j, 4, multiply_add(share, moved, load(total, j, 4)))
            j += 4
        if end & 2:
            moved = as_stored(x, multiply_add(minus, load(row, j, 2), load(x, j, 2)))
            store(x, j, 2, moved)
            store(total, j, 2, multiply_add(share, moved, load(total, j, 2)))
            j += 2
        if end & 1:
            moved = as_stored(x, multiply_add(minus, load(row, j, 1), load(x, j, 1)))
            store(x, j, 1, moved)
            store(total, j, 1, multiply_add(share, moved, load(total, j, 1)))

    return packed if can_be_packed(x, total, row) else one_by_one


@kernel(fastmath=FAST, inline="always")
def subtract(x, row, amount):  # type: ignore[no-untyped-def]
    """x ← x − amount · row."""
    for j in range(x.shape[0]):
        x[j] -= amount * row[j]
