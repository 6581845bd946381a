"""Memory that is used again once nobody looks at it: no page faults for every block, and no overwritten blocks."""

from __future__ import annotations

import mmap
import weakref
from typing import Any

import numpy as np

from multireplay.buffer.disk.source import Array, Field


class _Lease:
    """Owner of the arrays over one piece of memory. It lives exactly as long as some array or view of it does."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.__array_interface__: dict[str, Any] = {
            "shape": memory.shape,
            "typestr": "|u1",
            "data": (memory.ctypes.data, False),
            "version": 3,
        }


def _pages(size: int) -> Array:
    """Memory straight from the system, which goes back to it as a whole: none is lost to holes between allocations."""
    return np.frombuffer(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), np.uint8)


def pages(field: Field, rows: int) -> Array:
    """An array of zeros in memory of its own, which goes back to the system with its last view."""
    return _pages(max(1, rows * field.row_bytes))[: rows * field.row_bytes].view(field.dtype).reshape(field.shape(rows))


class Pool:
    """Hands out arrays whose memory comes back by itself when the last view of it is gone.

    A caller may keep as many as it likes; what it keeps is never written to again.

    Examples
    --------
    >>> import numpy as np
    >>> from multireplay.buffer.disk.pool import Pool
    >>> from multireplay.buffer.disk.source import Field
    >>> pool = Pool()
    >>> place = pool.array(Field(np.dtype(float), 3), 1000).ctypes.data  # dropped at once
    >>> again = pool.array(Field(np.dtype(float), 3), 1000)
    >>> again.ctypes.data == place, again.shape
    (True, (1000, 3))
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] = {}

    def array(self, field: Field, rows: int) -> Array:
        size = rows * field.row_bytes
        free = self._free.setdefault(size, [])
        memory = free.pop() if free else _pages(size)
        lease = _Lease(memory)
        weakref.finalize(lease, free.append, memory).atexit = False
        return np.asarray(lease).view(field.dtype).reshape(field.shape(rows))
