"""Sums of equal batches, against sums of all rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multireplay.streaming.batches import EqualBatches, Sums
from multireplay.streaming.spread_rows import CAPACITY, SpreadRows


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3000), st.one_of(st.none(), st.integers(50, 2000)))
def test_batches_are_equal_and_add_up(blocks, window):
    batches, rows = EqualBatches(2, window=np.inf if window is None else window), 0
    for _ in range(blocks):
        size = batches.block
        numbers = np.arange(rows, rows + size, dtype=np.float64)
        rows += size
        batches.add(Sums(np.array([numbers.sum(), size]), np.eye(2) * size, size), rows)
    total = batches.total(rows)
    assert total.rows + batches.dropped == rows
    assert total.values[0] == np.arange(batches.dropped, rows).sum()
    assert (batches.rows[: batches.full] == batches.size).all()
    assert batches.full < 64
    if window is None:
        assert batches.full >= 32 or rows < 4 * 64
    else:
        assert min(window, rows) <= total.rows <= window + max(window / 16, 2 * batches.size)


def test_halves_weigh_half():
    batches = EqualBatches(1, half_life=64)
    for stamp in range(4, 641, 4):
        batches.add(Sums(np.ones(1), np.ones((1, 1)), 4), stamp)
    weights = batches.weights(640)
    expected = 0.5 ** ((640 - batches.stamps[: batches.count] + batches.rows[: batches.count] / 2) / 64)
    assert np.allclose(weights, expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 256), min_size=1, max_size=80), st.integers(0, 3))
def test_spread_rows_are_one_of_every_stretch(sizes, drop):
    kept, first = SpreadRows({"features": np.zeros((1, 1))}), 0
    for size in sizes:
        kept.add({"features": np.arange(first, first + size, dtype=np.float64)[:, None]}, first, size)
        first += size
    numbers = kept.numbers[: kept.length]
    assert np.array_equal(kept.columns["features"][: kept.length, 0], numbers)
    assert np.array_equal(numbers >> kept.level, np.unique(numbers >> kept.level))
    assert kept.length >= min(first, CAPACITY // 2) - 1
    again = SpreadRows({"features": np.zeros((1, 1))}).restore(kept.state())
    again.drop_before(first // (drop + 1))
    assert again.length == (numbers >= first // (drop + 1)).sum()
    assert len(again.between(0, first)["features"]) == again.length


def test_spread_rows_are_in_step_with_no_period():
    kept, rows = SpreadRows({"features": np.zeros((1, 1))}), 2**18
    for first in range(0, rows, 256):
        kept.add({"features": np.zeros((256, 1))}, first, 256)
    share = np.bincount(kept.numbers[: kept.length] % 64, minlength=64) / kept.length
    assert share.max() < 2 / 64
