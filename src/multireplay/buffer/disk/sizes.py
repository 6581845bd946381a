"""Amounts of memory as people write them: "512 MB", "2 GB", or a number of bytes."""

from __future__ import annotations

import re
from typing import Any

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
    >>> from multireplay.buffer.disk.sizes import bytes_of
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
    >>> from multireplay.buffer.disk.sizes import in_words
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
