"""Progress bars with rate and time left, on standard error so that results can be piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def bar(counts: bool = True) -> Progress:
    """A bar with counts or a percentage, time gone and time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counts else TaskProgressColumn(),
        TextColumn("gone"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


@contextmanager
def step_bar(total: int, description: str = "steps") -> Iterator[Callable[[int], None]]:
    """A bar over `total` steps; yields the function that advances it."""
    with bar() as progress:
        task = progress.add_task(description, total=total)
        yield lambda steps: progress.advance(task, steps)
