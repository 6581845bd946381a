"""The worlds of the comparison, by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_limits

from multireplay.bench.world import Listing, Size, World
from multireplay.bench.worlds import chains, games, series
from multireplay.errors import InputError

SUITES = ("paper", "classic", "hard", "glm")

_ALL = (*chains.WORLDS, *series.WORLDS, *games.WORLDS)
WORLDS: dict[str, Listing] = {listing.name: listing for suite in SUITES for listing in _ALL if listing.suite == suite}
"""All worlds, suite by suite."""


def worlds_of(suite: str | Sequence[str]) -> list[Listing]:
    """The worlds of a suite, of "all", or those named."""
    if isinstance(suite, str) and suite not in WORLDS:
        if suite not in (*SUITES, "all"):
            raise InputError(f"no suite {suite!r}; there are {', '.join(SUITES)} and all")
        return [listing for listing in WORLDS.values() if suite in ("all", listing.suite)]
    names = [suite] if isinstance(suite, str) else suite
    for name in names:
        if name not in WORLDS:
            raise InputError(f"no world {name!r}; there are {', '.join(WORLDS)}")
    return [WORLDS[name] for name in names]


@lru_cache(maxsize=2)
def make_world(name: str, size: Size, cache: Path) -> World:
    """The world of that name, built once a process."""
    with threadpool_limits(1):  # small matrices, and the same sums in every process
        return WORLDS[name].make(size, cache)
