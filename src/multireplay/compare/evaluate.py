"""One seed of one world: every method's error, time and samples touched."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from multireplay.compare.methods import GRID, METHODS, Answer, Case, Method
from multireplay.compare.methods.library import EXACT
from multireplay.compare.worlds import World, make_world
from multireplay.errors import MultireplayError
from multireplay.reproduce.curves import Arrays
from multireplay.reproduce.worlds import Size, seeds

PUBLISHED, TUNED = "published", "tuned"


def key(method: str, step: str) -> str:
    """The name under which a method's numbers are kept."""
    return f"{method}~{step}"


def applicable(world: World) -> list[Method]:
    """The methods that are defined on this world."""
    return [method for method in METHODS.values() if method.works_on(world)]


def attempt(method: Method, case: Case, step: float | None) -> tuple[float, float, float, float]:
    """Error, passes over the record, samples read and seconds; the error is infinite where the run failed."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found: Answer = method.run(case, step)
    except (MultireplayError, ZeroDivisionError, OverflowError) as failure:
        if step is None:
            warnings.warn(f"{method.name} failed: {failure}", stacklevel=2)
        return float("inf"), float("nan"), float("nan"), time.perf_counter() - began
    seconds = time.perf_counter() - began
    return case.world.error(found.x), found.touched / case.length, found.touched, seconds


def make_case(name: str, size: Size, cache: Path, phase: str, instance: int, ridge: float = 0.0) -> Case:
    """The record of one seed; tuning and reporting never share one."""
    world = make_world(name, size, cache)
    seed = seeds("compare", name, phase, instance)
    method_seed = int(np.random.default_rng(seeds("methods", *seed)).integers(2**31))
    return Case(world, world.record(seed), method_seed, ridge)


def tune(name: str, size: Size, cache: Path, instance: int) -> Arrays:
    """Errors of every tunable method at every step of the grid, and of the exact fit at every ridge."""
    case = make_case(name, size, cache, "tune", instance)
    errors: Arrays = {
        method.name: np.array([attempt(method, case, step)[0] for step in GRID])
        for method in applicable(case.world)
        if method.tuned
    }
    fits = (Case(case.world, case.record, case.seed, ridge) for ridge in case.world.ridges)
    if len(case.world.ridges) > 1:
        errors[EXACT] = np.array([attempt(METHODS[EXACT], fit, None)[0] for fit in fits])
    return errors


def choose(tuned: list[Arrays], world: World) -> dict[str, float]:
    """The step of least mean error on the tuning seeds for each method, and the ridge of the exact fit."""
    chosen = {EXACT: world.ridges[0]}
    for name in tuned[0] if tuned else ():
        mean = np.mean([errors[name] for errors in tuned], axis=0)
        choices = world.ridges if name == EXACT else GRID
        chosen[name] = choices[int(np.argmin(mean))]
    return chosen


def report(name: str, size: Size, cache: Path, instance: int, chosen: Mapping[str, float]) -> Arrays:
    """(error, passes, samples, seconds) of every method at its published and its tuned step."""
    case = make_case(name, size, cache, "report", instance, chosen[EXACT])
    case.unit  # noqa: B018 - worked out before any clock starts
    warm_up = Case(case.world, case.record[:64], case.seed, max(chosen[EXACT], 1e-3))
    found: Arrays = {}
    for method in applicable(case.world):
        runs: dict[str, float | None] = {PUBLISHED: None} if method.published else {}
        if method.tuned and method.name in chosen:
            runs[TUNED] = chosen[method.name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt(method, warm_up, None if method.published else chosen.get(method.name, 1.0))  # compiles
        for step, size_of_step in runs.items():
            found[key(method.name, step)] = np.array(attempt(method, case, size_of_step))
    return found
