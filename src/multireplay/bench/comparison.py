"""The comparison: problems × methods, every error as a ratio to that of the exact fit on the same record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.bench import scores
from multireplay.bench.method import GRID, PUBLISHED, TUNED, attempt, key
from multireplay.bench.methods import METHODS
from multireplay.bench.methods.library import EXACT
from multireplay.bench.runner import Advance, Experiment, Scope, cost, work_out
from multireplay.bench.store import Arrays
from multireplay.bench.world import Case, Listing, MissingExtra, Size, World, seeds
from multireplay.bench.worlds import make_world, worlds_of
from multireplay.errors import InputError


class Comparison(Experiment):
    """The experiment on one world: every method that is defined there, on the same records."""

    tuning_cost = 4.5

    def __init__(self, listing: Listing, out: Path) -> None:
        self.name, self.seconds = listing.name, listing.seconds
        self.cache = (out / "references").absolute()  # workers may be elsewhere

    def settings(self) -> dict[str, Any]:
        return {"methods": list(METHODS), "grid": GRID}

    def world(self, size: Size) -> World:
        return make_world(self.name, size, self.cache)

    def case(self, size: Size, seed: int, instance: int, phase: str) -> Case:
        world = self.world(size)
        source = seeds("compare", self.name, phase, instance)
        method_seed = int(np.random.default_rng(seeds("methods", *source)).integers(2**31))
        return Case(world, world.record(source), method_seed)

    def choices(self, size: Size) -> Mapping[str, Sequence[float]]:
        world = self.world(size)
        tuned = [method.name for method in METHODS.values() if method.tuned and method.works_on(world)]
        return {EXACT: world.ridges, **dict.fromkeys(tuned, GRID)}

    def errors(self, case: Case, name: str, value: float) -> float:
        if name == EXACT:
            return attempt(METHODS[EXACT], replace(case, ridge=value), None)[0]
        return attempt(METHODS[name], case, value)[0]

    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, float]) -> Arrays:
        """(error, passes, samples, seconds) of every method at its published and its tuned step."""
        case = replace(self.case(size, seed, instance, "report"), ridge=chosen[EXACT])
        case.unit  # noqa: B018 - worked out before any clock starts
        warm_up = Case(case.world, case.record[:64], case.seed, max(chosen[EXACT], 1e-3))
        found: Arrays = {}
        for method in METHODS.values():
            if not method.works_on(case.world):
                continue
            steps: dict[str, float | None] = {PUBLISHED: None} if method.published else {}
            if method.tuned and method.name in chosen:
                steps[TUNED] = chosen[method.name]
            with warnings.catch_warnings(action="ignore"):
                attempt(method, warm_up, None if method.published else chosen.get(method.name, 1.0))  # compiles
            for kind, step in steps.items():
                found[key(method.name, kind)] = np.array(attempt(method, case, step))
        return found


def compare(
    suite: str | Sequence[str] = "all",
    seeds: int = 30,
    tuning_seeds: int = 5,
    jobs: int = 2,
    out: Path = Path("out/compare"),
    size: Size = "full",
    advance: Advance = lambda name, seconds: None,
) -> list[scores.Score]:
    """Run problems × methods and write compare.csv, compare.md and compare.png into `out`.

    Parameters
    ----------
    suite : str or sequence of str
        "paper", "classic", "hard", "glm", "all", or the names of single worlds.
    seeds, tuning_seeds : int
        Records that are reported, and other records on which steps are tuned.
    jobs : int
        Seeds worked out at the same time, one thread each.
    out : Path
        Folder for the table, the picture, finished seeds and reference solutions.
    size : "full" or "small"
        Records of 2^16 or 2^12 rows.
    advance : callable
        Is told the name and rough cost of every seed that is finished, also of those found on disk.

    Returns
    -------
    list of dict
        The rows of compare.csv.
    """
    from multireplay.bench.pictures import draw_comparison

    if seeds < 1 or tuning_seeds < 1 or jobs < 1:
        raise InputError("seeds, tuning_seeds and jobs must be at least 1")
    if size not in ("full", "small"):
        raise InputError(f"size must be 'full' or 'small', not {size!r}")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scope = Scope(size, 0, seeds, tuning_seeds, jobs, out)
    table = scores.Scores([], {}, {})
    for listing in worlds_of(suite):
        experiment = Comparison(listing, out)
        try:
            world = experiment.world(size)
        except MissingExtra as missing:
            table.left_out[listing.name] = str(missing)
            advance(listing.name, cost(experiment, seeds, tuning_seeds))
            continue
        reports, chosen = work_out(experiment, scope, advance)
        table.add(listing, world, reports, chosen)
        table.write(out)
    table.write(out)
    if table.rows:
        draw_comparison(table.rows, out / "compare.png")
    return table.rows


def total_cost(suite: str | Sequence[str] = "all", seeds: int = 30, tuning_seeds: int = 5) -> float:
    """Rough cost of a comparison, in the units that `advance` is told: seconds of one core at full size."""
    return sum(cost(Comparison(listing, Path()), seeds, tuning_seeds) for listing in worlds_of(suite))
