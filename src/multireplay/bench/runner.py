"""Running an experiment: tuning instances, then reported ones, in parallel, with finished ones kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from multireplay.bench.store import Arrays, Store, digest_of
from multireplay.bench.world import Size

Advance = Callable[[str, float], None]
"""Is told the name and the rough cost of every instance that is finished, also of those found on disk."""


class Experiment(Protocol):
    """What the runner needs of a world of the comparison, of a figure, of `tracking` and of `theory`.

    ``seconds`` is the rough time of one full-size instance that is reported; one that steps are tuned on takes
    ``tuning_cost`` times as long. ``settings`` spells out, as JSON, what finished instances depend on besides the code.
    """

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tuning_cost(self) -> float: ...
    def settings(self) -> dict[str, Any]: ...
    def tune(self, size: Size, seed: int, instance: int) -> Arrays: ...
    def choose(self, size: Size, tuned: list[Arrays]) -> dict[str, float]: ...
    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, float]) -> Arrays: ...


class Untuned:
    """The part of an experiment in which nothing is tuned."""

    tuning_cost = 0.0
    tuning: Mapping[Size, int] = {"full": 0, "small": 0}

    def tune(self, size: Size, seed: int, instance: int) -> Arrays:
        raise NotImplementedError("nothing to tune")

    def choose(self, size: Size, tuned: list[Arrays]) -> dict[str, float]:
        return {}


class Scope(NamedTuple):
    """How much of an experiment is run, and where it is kept."""

    size: Size
    seed: int
    instances: int
    tuning: int
    jobs: int
    out: Path


class Piece(NamedTuple):
    """One instance to be worked out."""

    store: Store
    phase: str
    instance: int
    work: Callable[..., Arrays]
    arguments: tuple[Any, ...]
    seconds: float


def work_out(experiment: Experiment, scope: Scope, advance: Advance) -> tuple[list[Arrays], dict[str, float]]:
    """All reported instances, and what was chosen for them on the tuning instances."""
    size, seed = scope.size, scope.seed
    settings = {"experiment": experiment.name, "size": size, "seed": seed, **experiment.settings()}
    store = Store(scope.out, f"{experiment.name}-{size}-seed{seed}", settings)

    def phase(name: str, count: int, work: Callable[..., Arrays], cost: float, *more: Any) -> list[Arrays]:
        pieces = [Piece(store, name, i, work, (size, seed, i, *more), cost) for i in range(count)]
        _run_all(pieces, scope.jobs, experiment.name, advance)
        return [store.load(name, i) for i in range(count)]

    tuned = phase("tune", scope.tuning, experiment.tune, experiment.tuning_cost * experiment.seconds)
    chosen = experiment.choose(size, tuned)
    # reports depend on what was chosen, and that on the number of tuning instances
    reports = phase(f"report-{digest_of(chosen)}", scope.instances, experiment.report, experiment.seconds, chosen)
    return reports, chosen


def best_of(tuned: list[Arrays], choices: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """By name the choice whose mean error is least, at its best point where the errors are curves."""
    chosen = {}
    for name, values in choices.items():
        errors = np.mean([arrays[name] for arrays in tuned], axis=0) if len(values) > 1 else np.zeros(1)
        chosen[name] = values[int(np.argmin(errors.reshape(len(values), -1).min(axis=1)))]
    return chosen


def cost(experiment: Experiment, instances: int, tuning: int) -> float:
    """Rough cost of an experiment in the units that `advance` is told: seconds of one core at full size."""
    return experiment.seconds * (experiment.tuning_cost * tuning + instances)


def _run_all(pieces: list[Piece], jobs: int, name: str, advance: Advance) -> None:
    """Work out the instances that are not on disk yet."""
    missing = [piece for piece in pieces if not piece.store.has(piece.phase, piece.instance)]
    for piece in pieces:
        if piece not in missing:
            advance(name, piece.seconds)
    workers = Parallel(n_jobs=min(jobs, max(1, len(missing))), return_as="generator_unordered")
    for seconds in workers(delayed(_run)(piece) for piece in missing):
        advance(name, seconds)


def _run(piece: Piece) -> float:
    # one thread each: the instances are the parallelism, and sums come out the same whatever the number of jobs
    with threadpool_limits(1):
        piece.store.save(piece.phase, piece.instance, piece.work(*piece.arguments))
    return piece.seconds
