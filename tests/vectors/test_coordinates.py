"""Products and moves in packs of eight against NumPy, for every dimension, precision and layout."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multireplay as mr
from multireplay.engine.compiled import apart, row_bytes, zeros
from multireplay.problems.compiled import steps_ahead
from multireplay.vectors.coordinates import dot, dot_of_difference, move
from multireplay.vectors.intrinsics import can_be_packed

TYPES = (np.float64, np.float32)
ROOM = 3
"""Numbers on either side of an array, which must stay as they are."""


@numba.njit
def dot_of(row, x):
    return dot(row, x)


@numba.njit
def difference_of(row, other, factor, x):
    return dot_of_difference(row, other, factor, x)


@numba.njit(_nrt=False)
def move_of(x, total, row, amount, weight, samples, later):
    move(x, total, row, amount, weight, samples, later)


def inside(values, dtype, stride):
    """The values within a larger array of nines, side by side or not."""
    room = np.full(stride * len(values) + 2 * ROOM, 9.0, dtype)
    view = room[ROOM : ROOM + stride * len(values) : stride]
    view[:] = values
    return view, room


arrays = st.tuples(
    st.integers(1, 70), st.integers(0, 2**31), st.sampled_from(TYPES), st.sampled_from(TYPES), st.sampled_from((1, 2))
)


@given(arrays, st.floats(-2, 2))
def test_products(what, factor):
    dim, seed, kind, state, stride = what
    rng = np.random.default_rng(seed)
    row, other = (inside(rng.standard_normal(dim), kind, stride)[0] for _ in range(2))
    x, _ = inside(rng.standard_normal(dim), state, 1)
    wide = [array.astype(np.float64) for array in (row, other, x)]
    assert dot_of(row, x) == pytest.approx(wide[0] @ wide[2], rel=1e-12, abs=1e-12)
    expected = (wide[0] - factor * wide[1]) @ wide[2]
    assert difference_of(row, other, factor, x) == pytest.approx(expected, rel=1e-12, abs=1e-11)


@given(arrays, st.floats(-2, 2), st.floats(0, 2))
def test_a_move_changes_what_it_should_and_nothing_else(what, amount, weight):
    dim, seed, kind, state, stride = what
    rng = np.random.default_rng(seed)
    row, _ = inside(rng.standard_normal(dim), kind, stride)
    x, around = inside(rng.standard_normal(dim), state, 1)
    total, beside = inside(rng.standard_normal(dim), np.float64, 1)
    moved = x.astype(np.float64) - amount * row.astype(np.float64)
    before = total.copy()
    samples = mr.GLM().samples({"features": np.zeros((2, dim)), "targets": np.zeros(2)})
    move_of(x, total, row, amount, weight, samples, 1)
    tolerance = 1e-12 if state is np.float64 else 1e-6
    assert np.allclose(x, moved, rtol=tolerance, atol=tolerance)
    assert np.allclose(total, before + weight * x.astype(np.float64), rtol=1e-12, atol=1e-12)  # of x as it is kept
    for room in (around, beside):
        assert (room[:ROOM] == 9).all()
        assert (room[-ROOM:] == 9).all()


def test_which_arrays_are_packed():
    contiguous, strided = (numba.typeof(array) for array in (np.zeros(4), np.zeros(8)[::2]))
    assert can_be_packed(contiguous, numba.typeof(np.zeros(4, np.float32)))
    assert not can_be_packed(contiguous, strided)
    assert not can_be_packed(numba.typeof(np.zeros(4, np.int64)))


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40), st.sampled_from(TYPES))
def test_groups_are_a_page_apart_and_rows_begin_with_a_line(groups, count, dim, dtype):
    room = apart(groups, count, dim, np.dtype(dtype))
    assert room.shape[0] == groups
    assert room.shape[1] >= count
    assert room.shape[2] >= dim
    assert not room.any()
    assert room.flags.c_contiguous
    assert room.ctypes.data % 64 == 0
    assert room.strides[1] == row_bytes(dim, room.itemsize)
    assert room.strides[1] % 64 == 0 or dim * room.itemsize == room.strides[1] < 64
    assert room.strides[0] - count * room.strides[1] >= 4096


@given(st.integers(1, 40), st.sampled_from(TYPES))
def test_zeros_begin_with_a_line(dim, dtype):
    made = zeros(dim, dtype)
    assert made.shape == (dim,)
    assert made.dtype == dtype
    assert not made.any()
    assert made.flags.c_contiguous
    assert made.ctypes.data % 64 == 0


@numba.njit
def reach_of(samples):
    return steps_ahead(samples)


@pytest.mark.parametrize(("dim", "steps"), [(1, 1025), (16, 65), (100, 11), (1000, 2), (5000, 1)])
def test_rows_are_asked_for_about_8_kilobytes_ahead(dim, steps):
    assert reach_of(mr.GLM().samples({"features": np.zeros((2, dim)), "targets": np.zeros(2)})) == steps
