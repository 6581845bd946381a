"""Threads that share a piece of work; the calling one does its part, so that a team of one starts none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType


class Team:
    """A number of threads, for the time of a ``with`` block.

    Parameters
    ----------
    size : int
        Threads, the calling one included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1) if size > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._others is not None:
            self._others.shutdown()

    def share(self, work: Callable[[int, int], object], cuts: Sequence[int]) -> None:
        """work(cuts[0], cuts[1]), work(cuts[1], cuts[2]), … side by side."""
        if self._others is None:
            for ends in pairwise(cuts):
                work(*ends)
            return
        others = [self._others.submit(work, *ends) for ends in pairwise(cuts[1:])]
        work(cuts[0], cuts[1])
        for other in others:
            other.result()
