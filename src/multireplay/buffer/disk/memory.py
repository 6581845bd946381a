"""Memory: amounts of it as people write them, and pieces of it that are used again once nobody looks at them."""

from __future__ import annotations

import mmap
import re
import weakref
from typing import Any

import numpy as np

from multireplay.buffer.columns import Array
from multireplay.buffer.disk.source import Field
from multireplay.errors import InputError

_UNITS = {
    "": 1, "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_SHAPE = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def bytes_of(memory: Any) -> int:
    """The number of bytes that `memory` means: a number of them, or a text such as "512 MB" or "1.5 GiB"."""
    if isinstance(memory, str) and (found := _SHAPE.fullmatch(memory)) and found[2].lower() in _UNITS:
        amount = int(float(found[1]) * _UNITS[found[2].lower()])
    elif isinstance(memory, int) and not isinstance(memory, bool):
        amount = memory
    else:
        raise InputError(f"memory must be a size such as '512 MB' or '2 GB', or a number of bytes, not {memory!r}")
    if amount <= 0:
        raise InputError(f"memory must be more than nothing, not {memory!r}")
    return amount


def in_words(size: float) -> str:
    """A number of bytes for people, such as 8.08 GB."""
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size / 1000:.3g} TB"


def _pages(size: int) -> mmap.mmap:
    """Memory straight from the system, which goes back to it as a whole: none is lost to holes between allocations."""
    return mmap.mmap(-1, size, access=mmap.ACCESS_COPY)


def pages(field: Field, rows: int) -> Array:
    """An array of zeros in memory of its own, which goes back to the system with its last view."""
    return np.frombuffer(_pages(rows * field.row_bytes), field.dtype).reshape(field.shape(rows))


class Pool:
    """Hands out arrays whose memory comes back by itself when the last view of it is gone.

    A caller may keep as many as it likes; what it keeps is never written to again.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def array(self, field: Field, rows: int) -> Array:
        size = rows * field.row_bytes
        free = self._free.setdefault(size, [])
        memory = free.pop() if free else _pages(size)
        whole = np.frombuffer(memory, np.uint8)  # the base of every view of it: it goes with the last of them
        weakref.finalize(whole, free.append, memory).atexit = False
        return whole.view(field.dtype).reshape(field.shape(rows))

    def like(self, column: Array, rows: int) -> Array:
        """One for so many rows of what a column has."""
        return self.array(Field(column.dtype, None if column.ndim == 1 else column.shape[1]), rows)
