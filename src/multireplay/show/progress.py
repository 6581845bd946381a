"""Progress bars with rate and time left, on standard error so that results can be piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress as rich_bar
from rich.console import Console
from rich.text import Text


class RateColumn(rich_bar.ProgressColumn):
    """How many were done in a second, or in a minute if that is too few to tell; of `parts` where a task has them."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: rich_bar.Task) -> Text:
        """The text of the column."""
        done = task.fields.get("parts", task.completed)
        if not done or not task.elapsed:
            return Text("")
        speed = done / task.elapsed
        return Text(f"{speed:,.0f} {self.unit}/s" if speed >= 10 else f"{60 * speed:,.1f} {self.unit}/min")


def bar(unit: str = "steps", counts: bool = True, transient: bool = False) -> rich_bar.Progress:
    """A bar with counts or a percentage, rate, time gone and time left.

    A transient one is gone when it is full, and is not shown at all where standard error is not a terminal.
    """
    console = Console(stderr=True)
    return rich_bar.Progress(
        rich_bar.TextColumn("{task.description}", markup=False),
        rich_bar.BarColumn(),
        rich_bar.MofNCompleteColumn() if counts else rich_bar.TaskProgressColumn(),
        RateColumn(unit),
        rich_bar.TextColumn("gone"),
        rich_bar.TimeElapsedColumn(),
        rich_bar.TextColumn("left"),
        rich_bar.TimeRemainingColumn(),
        console=console,
        transient=transient,
        disable=transient and not console.is_terminal,
    )


@contextmanager
def step_bar(total: int, description: str = "steps", unit: str = "steps") -> Iterator[Callable[[int], None]]:
    """A bar over `total` steps; yields the function that advances it."""
    with bar(unit) as progress:
        task = progress.add_task(description, total=total)
        yield lambda steps: progress.advance(task, steps)


@contextmanager
def part_bar(cost: float, unit: str) -> Iterator[Callable[[str, float], None]]:
    """A bar over parts of different cost; yields a function that is told the name and the cost of each that is done."""
    parts = 0
    with bar(unit, counts=False) as progress:
        task = progress.add_task("starting", total=cost, parts=0)

        def advance(name: str, seconds: float) -> None:
            nonlocal parts
            parts += 1
            progress.update(task, advance=seconds, description=name, parts=parts)

        yield advance
