from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multireplay.buffer.disk.files import RunningChecksums


@given(
    rows=st.integers(1, 50), chunk=st.integers(1, 20), width=st.integers(1, 3), data=st.data(),
    dtype=st.sampled_from([np.float64, np.float32, np.bool_]),
)  # fmt: skip
def test_sums_are_those_of_the_chunks_on_their_own(rows, chunk, width, data, dtype):
    values = np.random.default_rng(rows).integers(0, 2, (rows, width)).astype(dtype)
    first = data.draw(st.integers(0, rows - 1))
    skip = data.draw(st.sets(st.integers(0, rows // chunk)))
    expected = [
        (number, zlib.crc32(values[number * chunk : (number + 1) * chunk].tobytes()))
        for number in range(-(-rows // chunk))
        if number * chunk >= first and number not in skip
    ]
    running, found, start = RunningChecksums(chunk, rows, first, skip), [], first
    while start < rows:
        stop = min(rows, start + data.draw(st.integers(1, 15)))
        found += running.add(values[start:stop])
        start = stop
    assert found == expected
