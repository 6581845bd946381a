from __future__ import annotations

import gc

import numpy as np
import pytest

import multireplay as mr
from multireplay.buffer.disk.memory import Pool, bytes_of, in_words
from multireplay.buffer.disk.source import Field


@pytest.mark.parametrize(
    ("given", "expected"),
    [("512 MB", 512 * 10**6), ("2GB", 2 * 10**9), ("1.5 gib", 1610612736), (" 7 ", 7), ("10 b", 10), (4096, 4096)],
)
def test_bytes_of(given, expected):
    assert bytes_of(given) == expected


@pytest.mark.parametrize("given", ["", "MB", "5 parsecs", "-5 MB", 1.5, None, True, 0, "0 MB", -3, "1e3"])
def test_bad_sizes(given):
    with pytest.raises(mr.InputError, match="memory must be "):
        bytes_of(given)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (999_600, "1 MB"), (8e9, "8 GB"), (2e13, "20 TB")],
)
def test_in_words(size, words):
    assert in_words(size) == words


def test_memory_in_use_is_never_handed_out_again():
    pool, field = Pool(), Field(np.dtype(np.float32), 2)
    kept = [pool.array(field, 10)[3:, 1] for _ in range(5)]
    for number, array in enumerate(kept):
        array[:] = number
    del kept[2]
    again = pool.array(field, 10)
    again[:] = -1
    assert [array.tolist() for array in kept] == [[number] * 7 for number in (0, 1, 3, 4)]


def test_the_pool_may_go_first():
    array = Pool().array(Field(np.dtype(np.int64), None), 1000)
    array[:] = 5
    gc.collect()
    assert array.sum() == 5000
