"""Reading ahead: a thread prepares the next item while the caller works on this one."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items in the same order, each prepared by a thread while the caller has the one before.

    An exception of `items` is raised where its item would have come. The thread ends with the last item, or when this
    generator is closed, at the latest after the item it is at.

    Examples
    --------
    >>> from multireplay.buffer.disk.readahead import read_ahead
    >>> list(read_ahead(number**2 for number in range(4)))
    [0, 1, 4, 9]
    """
    with closing(items), ThreadPoolExecutor(1, "multireplay-read-ahead") as thread:
        pending = thread.submit(_next, items)
        while ready := pending.result():
            pending = thread.submit(_next, items)
            yield ready.pop()


def _next(items: Generator[T, None, None]) -> list[T]:
    """The next item in a list, so that handing it on leaves no reference behind; an empty list at the end."""
    for item in items:
        return [item]
    return []
