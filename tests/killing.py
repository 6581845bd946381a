"""A process that is killed at a given call of the system that writes, simulated within this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

CALLS = ("pwritev", "pwrite", "fsync", "replace", "ftruncate", "unlink", "open")


class Killed(BaseException):
    """What nobody catches; after it nothing more is written."""


@contextmanager
def killed(at: int, share: float = 0.5) -> Iterator[list[str]]:
    """The at-th call does that share of its work, and it and all later ones raise; the calls that came so far."""
    seen: list[str] = []

    def patched(name, real):
        def call(*arguments, **more):
            if len(seen) >= at:
                raise Killed
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return real(*arguments, **more)
            seen.append(name)
            if len(seen) < at:
                return real(*arguments, **more)
            if name == "pwritev":
                file, parts, start = arguments
                data = b"".join(parts)
                os_pwrite(file, data[: round(share * len(data))], start)
            elif share > 0.5:
                real(*arguments, **more)
            raise Killed

        return call

    os_pwrite = os.pwrite
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, patched(name, getattr(os, name)))
        yield seen


def same(one: dict, other: dict) -> bool:
    """Whether two states of a stream are the same to the last bit; where not, what differs is printed."""
    names = sorted(one.keys() | other.keys())
    wrong = [name for name in names if _bytes(one.get(name)) != _bytes(other.get(name))]
    if wrong:
        print("states differ in", {name: (one.get(name), other.get(name)) for name in wrong[:3]}, wrong)
    return not wrong


def _bytes(value) -> tuple:
    array = np.asarray(float(value) if isinstance(value, int) else value)
    return array.shape, array.tobytes() if array.dtype != object else value
