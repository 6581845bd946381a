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
    """The number of bytes that `memory` means.

    Examples
    --------
    >>> from multireplay.buffer.disk.memory import bytes_of
    >>> bytes_of("512 MB"), bytes_of("1.5 GiB"), bytes_of(4096)
    (512000000, 1610612736, 4096)
    """
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
    """A number of bytes for people.

    Examples
    --------
    >>> from multireplay.buffer.disk.memory import in_words
    >>> in_words(808), in_words(8.08e9)
    ('808 bytes', '8.08 GB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size / 1000:.3g} TB"


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
    >>> from multireplay.buffer.disk.memory import Pool
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
