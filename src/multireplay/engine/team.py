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

    Examples
    --------
    >>> from multireplay.engine.team import Team
    >>> with Team(2) as team:
    ...     team.share(lambda low, high: None, team.cuts(5))  # pieces 0 and 1 here, 2, 3 and 4 in another thread
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

    def cuts(self, pieces: int) -> list[int]:
        """Where that many pieces of work are cut into a share for each thread, or as many as there are pieces."""
        shares = min(pieces, self.size)
        return [pieces * share // shares for share in range(shares + 1)]

    def share(self, work: Callable[[int, int], object], cuts: Sequence[int]) -> None:
        """work(cuts[0], cuts[1]), work(cuts[1], cuts[2]), … side by side.

        Parameters
        ----------
        work : callable
            What is done with the pieces from one cut to the next. An error in it is raised here.
        cuts : sequence of int
            No more of them than threads and one, unless there is a single thread.
        """
        if self._others is None:
            for ends in pairwise(cuts):
                work(*ends)
            return
        others = [self._others.submit(work, *ends) for ends in pairwise(cuts[1:])]
        work(cuts[0], cuts[1])
        for other in others:
            other.result()


ALONE = Team(1)
"""The calling thread."""
