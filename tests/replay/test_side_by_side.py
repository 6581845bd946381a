"""Chains of all offsets in parts of the record side by side."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multireplay.replay.side_by_side import Parts


@given(length=st.integers(2, 400), depth=st.integers(0, 6), extra=st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_every_chain_of_every_epoch_is_read_once_and_exactly(length, depth, extra):
    depth = min(depth, length.bit_length() - 1)
    parts = Parts(length, 2**depth)
    room = 2 * 2**depth + extra
    for k in range(depth + 1):
        found = []
        for low, high in parts.places(room):
            positions = parts.positions(low, high)
            assert len(positions) == parts.size(low, high) <= room
            found += positions[parts.chains(2**k, low, high)].tolist()
        gap = length // 2**k
        by_hand = [[t * length // 2**k - offset for t in range(1, 2**k + 1)] for offset in range(gap)]
        assert sorted(found, reverse=True) == by_hand


@given(length=st.integers(2, 400), depth=st.integers(0, 6), rooms=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_chains_does_not_depend_on_the_room(length, depth, rooms):
    depth = min(depth, length.bit_length() - 1)
    parts = Parts(length, 2**depth)
    orders = []
    for room in rooms:
        blocks = list(parts.places(2 * 2**depth + room))
        rows = [parts.positions(*places)[parts.chains(2 ** (depth // 2), *places)] for places in blocks]
        orders.append(np.concatenate(rows).tolist())
    assert orders[0] == orders[1]
