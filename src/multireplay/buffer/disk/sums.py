"""Checksums of chunks of rows, so that a flipped bit or a lost sector in a saved buffer is noticed."""

from __future__ import annotations

import zlib
from collections.abc import Container
from dataclasses import dataclass, field

from multireplay.buffer.disk.source import Array

CHUNK_BYTES = 2**22


def chunk_rows(row_bytes: int) -> int:
    """Rows in a chunk."""
    return max(1, CHUNK_BYTES // row_bytes)


@dataclass
class Sums:
    """The CRC-32 of every chunk of a column, and which chunks have been found right already."""

    chunk: int
    values: tuple[int, ...]
    right: set[int] = field(default_factory=set)


class Running:
    """Sums of the chunks of a column that passes by in order, from some row on.

    Examples
    --------
    >>> import numpy as np, zlib
    >>> from multireplay.buffer.disk.sums import Running
    >>> running = Running(chunk=4, rows=6)
    >>> running.add(np.arange(3.0)), [chunk for chunk, _ in running.add(np.arange(3.0, 6.0))]
    ([], [0, 1])
    """

    def __init__(self, chunk: int, rows: int, first: int = 0, skip: Container[int] = ()) -> None:
        self.chunk, self._rows, self._row, self._skip = chunk, rows, first, skip
        self._whole = first % chunk == 0  # a chunk that was entered half-way has no sum
        self._sum = 0

    def add(self, values: Array) -> list[tuple[int, int]]:
        """The next rows, contiguous; gives the number and the sum of every chunk that they complete."""
        done = []
        start = 0
        while start < len(values):
            number, inside = divmod(self._row, self.chunk)
            stop = min(len(values), start + self.chunk - inside)
            wanted = self._whole and number not in self._skip
            if wanted:
                self._sum = zlib.crc32(values[start:stop].data, self._sum)
            self._row += stop - start
            start = stop
            if self._row % self.chunk == 0 or self._row == self._rows:
                if wanted:
                    done.append((number, self._sum))
                self._whole, self._sum = True, 0
        return done
