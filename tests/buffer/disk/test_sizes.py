from __future__ import annotations

import pytest

import multireplay as mr
from multireplay.buffer.disk.sizes import bytes_of, in_words


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
