"""Which rows are used, in which order, and where a chain of them starts: groups, gaps in time and dropped rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.errors import InputError
from multireplay.tables.times import GAP, NEAR, REGULAR, Times


@dataclass(frozen=True, eq=False)
class ChainedRows:
    """The rows that are used, group by group, and for each of them whether a chain starts there."""

    rows: NDArray[np.int64]
    starts: NDArray[np.bool_]
    sentences: tuple[str, ...] = ()
    """What a person should know: groups, gaps, repeated times, dropped rows."""
    places: NDArray[np.int64] | None = None
    """How many usual steps after the beginning of its group a row is: gaps and dropped rows count."""
    series: tuple[int, ...] = ()
    """How many of the rows are of each group; one number where there are no groups."""

    @property
    def count(self) -> int:
        """How many chains there are."""
        return int(self.starts.sum())

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many rows each has."""
        return tuple(np.diff(np.append(np.flatnonzero(self.starts), len(self.rows))).tolist())

    def last(self, share: float) -> tuple[NDArray[np.bool_], str]:
        """Which rows are the last share of every series, and which these are in words: see `last_of`."""
        counts, words = last_of(self.series, share)
        sizes = np.array(self.series)
        to_end = np.repeat(np.cumsum(sizes), sizes) - np.arange(sizes.sum())
        return to_end <= np.repeat(counts, sizes), words


def last_of(series: Sequence[int], share: float) -> tuple[NDArray[np.int64], str]:
    """How many rows are the last share of each of several series of these lengths, and which these are in words.

    Where series are so short that this is hardly a row, they are the last series as a whole.
    """
    sizes = np.array(series)
    counts = np.round(share * sizes).astype(np.int64)
    if len(sizes) == 1:
        words = f"the last {counts.sum()} rows"
    elif 2 * counts.sum() >= share * sizes.sum():
        words = f"the last rows of {(counts > 0).sum()} of {len(sizes)} groups ({counts.sum()} rows)"
    else:
        counts = np.where(np.cumsum(sizes[::-1])[::-1] <= share * sizes.sum(), sizes, 0)
        words = f"the last {(counts > 0).sum()} of {len(sizes)} groups, all short ({counts.sum()} rows)"
    return counts, words


class StandingChains(NamedTuple):
    """StandingChains of a record whose rows stay where they are: of O(chains) numbers, not of O(rows)."""

    lengths: tuple[int, ...]
    """How many rows each has, of those that are used."""
    begins: NDArray[np.int64]
    """How many usual steps after the beginning of its group each begins."""
    sentences: tuple[str, ...]
    series: tuple[int, ...]
    """How many of the rows are of each group; one number where there are no groups."""


def chained(
    usable: NDArray[np.bool_],
    groups: Any = None,
    times: Times | None = None,
    at: Callable[[int], str] = "row {}".format,
) -> ChainedRows:
    """Put the rows together into chains, in which a row follows on the one before it.

    A chain ends with its group, at a gap in time, at a time that is there twice, and at a row that cannot be used.
    Errors name a row as `at` does.

    Examples
    --------
    >>> import numpy as np
    >>> found = chained(np.array([True, True, False, True]), np.array(["a", "b", "a", "a"]))
    >>> found.rows, found.starts, found.count
    (array([0, 3, 1]), array([ True,  True,  True]), 3)
    """
    count = len(usable)
    order, breaks, sentences = np.arange(count), np.zeros(count, dtype=bool), []
    steps = np.ones(count, dtype=np.int64)
    if count:
        breaks[0] = True
    if groups is not None:
        names, first, codes = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
        place = np.empty(len(names), dtype=np.int64)
        place[np.argsort(first)] = np.arange(len(names))  # in the order in which they appear
        order = np.argsort(place[codes], kind="stable")
        breaks[1:] = np.diff(place[codes][order]) != 0
        sentences.append(of_groups(len(names)))
    first = np.flatnonzero(breaks)
    if times is not None:
        found, steps[1:], said = _in_time(times, order, breaks, at)
        breaks |= found
        sentences += said
    places = np.cumsum(steps)
    places -= np.repeat(places[first], np.diff(np.append(first, count)))
    kept = usable[order]
    chain = np.cumsum(breaks) + np.cumsum(~kept)  # a row that cannot be used ends the chain before it
    chain = chain[kept]
    starts = np.ones(len(chain), dtype=bool)
    starts[1:] = np.diff(chain) != 0
    series = np.add.reduceat(kept, first, dtype=np.int64) if count else np.zeros(0, dtype=np.int64)
    return ChainedRows(order[kept], starts, tuple(sentences), places[kept], tuple(series[series > 0].tolist()))


def chained_there(
    rows: int,
    dropped: Positions,
    groups: Positions | None = None,
    times: Times | None = None,
    at: Callable[[int], str] = "row {}".format,
) -> StandingChains:
    """As `chained`, of so many rows that stay in their order, given those that cannot be used and where groups begin.

    Examples
    --------
    >>> import numpy as np
    >>> chained_there(9, np.array([4]), np.array([0, 6])).lengths
    (4, 1, 3)
    """
    first = np.zeros(1, dtype=np.int64) if groups is None else groups
    found = jumps = np.empty(0, dtype=np.int64)
    said: list[str] = []
    if times is not None:
        breaks = np.zeros(rows, dtype=bool)
        breaks[first] = True
        flags, steps, said = _in_time(times, np.arange(rows), breaks, at)
        found = np.flatnonzero(flags)
        jumps = steps[found - 1]
    edges = np.unique(np.concatenate([first, found, dropped, dropped + 1]))
    edges = edges[edges < rows]
    kept = ~np.isin(edges, dropped)
    lengths, begins = np.diff(np.append(edges, rows))[kept], edges[kept]
    group = np.searchsorted(first, begins, side="right") - 1
    more = np.concatenate([[0], np.cumsum(jumps - 1)])  # steps beyond one a row, up to a row
    up_to = [more[np.searchsorted(found, at, side="right")] for at in (begins, first[group])]
    series = np.bincount(group, lengths, len(first)).astype(np.int64)
    words = [] if groups is None else [of_groups(len(first))]
    return StandingChains(
        tuple(lengths.tolist()), begins - first[group] + up_to[0] - up_to[1], (*words, *said),
        tuple(series[series > 0].tolist()),
    )  # fmt: skip


def of_groups(count: int) -> str:
    """A word on so many groups."""
    return f"{count} groups, each a chain of its own, taken as independent of the others."


def _in_time(
    times: Times, order: NDArray[np.int64], breaks: NDArray[np.bool_], at: Callable[[int], str]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], list[str]]:
    """Where time jumps or stands still within a group, by how many steps, and a word; an error if it goes back."""
    if times.missing.any():
        row = int(np.argmax(times.missing))
        raise InputError(f"the time column {times.name!r} has nothing at {at(row)} (counting from 0)")
    values = times.values[order]
    steps = np.diff(values)
    inside = ~breaks[1:]
    back = np.flatnonzero((steps < 0) & inside)
    if len(back):
        before, after = int(order[back[0]]), int(order[back[0] + 1])
        several = "; the rows of several series in one file are told apart with a group column" if inside.all() else ""
        raise InputError(
            f"the rows are not in time order: {times.name} is {times.show(after)} at {at(after)} (counting from 0), "
            f"after {times.show(before)} at {at(before)}; sort the rows by {times.name!r}{several}"
        )
    same, moving = (steps == 0) & inside, steps[inside & (steps > 0)]
    if same.sum() > inside.sum() / 2:
        raise InputError(
            f"{times.name} is the same in {same.sum() + 1} rows and more: this looks like several series in one file, "
            "which a group column tells apart, or days without their hours, which belong in one column"
        )
    found, jumps = np.zeros(len(values), dtype=bool), np.where(same, 0, 1)
    ends = [times.show(int(place(times.values))) for place in (np.argmin, np.argmax)]
    said = [f"Time is {times.name!r}, from {ends[0]} to {ends[1]}."]
    if same.any():
        found[1:] |= same
        row = int(order[1:][same][0])
        said.append(f"{_counted(same, 'time')} in {times.name!r} there twice, first {times.show(row)} at row {row}: "
                    "a chain ends there.")  # fmt: skip
    if len(moving) > 2:
        usual = float(np.median(moving))
        if np.mean(np.abs(moving - usual) <= NEAR * usual) >= REGULAR:
            gaps = (steps > GAP * usual) & inside
            jumps[gaps] = np.round(steps[gaps] / usual)
            if gaps.any():
                found[1:] |= gaps
                last, row = int(order[:-1][gaps][0]), int(order[1:][gaps][0])
                longest = times.lasting(float(steps[gaps].max()))
                said.append(
                    f"{_counted(gaps, 'gap')} in {times.name!r} (the usual step is {times.lasting(usual)}, the longest "
                    f"gap {longest}), first from {times.show(last)} to {times.show(row)}: a chain ends there."
                )
    return found, jumps, said


def _counted(flags: NDArray[np.bool_], what: str) -> str:
    count = int(flags.sum())
    return f"{count} {what}{'s' * (count != 1)}"
