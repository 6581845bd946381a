"""The worlds of the bench, by name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_limits

from multireplay.compare.worlds import chains, game, gym, real, regression, wide
from multireplay.compare.worlds.base import Entry, MissingExtra, World
from multireplay.errors import InputError
from multireplay.reproduce.worlds import Size

SUITES = ("paper", "classic", "hard", "glm")

_ALL = (*chains.ENTRIES, *wide.ENTRIES, *regression.ENTRIES, *game.ENTRIES, *gym.ENTRIES, *real.ENTRIES)
ENTRIES: dict[str, Entry] = {entry.name: entry for suite in SUITES for entry in _ALL if entry.suite == suite}
"""All worlds, suite by suite."""


def entries_of(suite: str) -> list[Entry]:
    """The worlds of a suite, or of "all"."""
    if suite != "all" and suite not in SUITES:
        raise InputError(f"no suite {suite!r}; there are {', '.join(SUITES)} and all")
    return [entry for entry in ENTRIES.values() if suite in ("all", entry.suite)]


@lru_cache(maxsize=2)
def make_world(name: str, size: Size, cache: Path) -> World:
    """The world of that name, built once a process."""
    with threadpool_limits(1):  # small matrices, and the same sums in every process
        return ENTRIES[name].make(size, cache)


__all__ = ["ENTRIES", "SUITES", "Entry", "MissingExtra", "World", "entries_of", "make_world"]
