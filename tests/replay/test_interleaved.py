"""All offsets of one gap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multireplay as mr


@given(length=st.integers(1, 5000), gap=st.integers(1, 5000))
def test_positions(length, gap):
    gap = min(gap, length)
    (epoch,) = mr.Interleaved(gap).plan(length)
    positions = epoch.positions.reshape(gap, length // gap)
    assert positions.min() >= 1
    assert positions.max() == length
    assert len(np.unique(positions)) == positions.size > length - 2 * gap
    assert (np.diff(positions, axis=1) >= gap).all()


@given(length=st.integers(1, 2**20))
def test_default_gap(length):
    (epoch,) = mr.Interleaved().plan(length)
    assert 1 <= epoch.chains <= min(length, 1024)
    if length >= 2**18:
        assert 2**12 <= epoch.length <= 2**15


def test_bad_gaps():
    with pytest.raises(mr.InputError, match="gap must be a whole number of at least 1"):
        mr.Interleaved(0)
    with pytest.raises(mr.InputError, match="gap 11 is larger than the buffer of 10 samples"):
        mr.Interleaved(11).plan(10)
