"""Running an experiment: tuning instances, then reported ones, in parallel, with finished ones kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from multireplay.bench.store import Arrays, Store, digest_of
from multireplay.bench.table import Row
from multireplay.bench.world import Case, Size

Advance = Callable[[str, float], None]
"""Is told the name and the rough cost of every instance that is finished, also of those found on disk."""


class Experiment(ABC):
    """What the runner needs of a world of the comparison, of a figure, of `tracking` and of `theory`.

    ``seconds`` is the rough time of one full-size instance that is reported; one that steps are tuned on takes
    ``tuning_cost`` times as long. ``settings`` spells out, as JSON, what finished instances depend on besides the code.
    """

    name: str
    seconds: float
    tuning_cost = 0.0

    @abstractmethod
    def settings(self) -> dict[str, Any]: ...

    def choices(self, size: Size) -> Mapping[str, Sequence[Any]]:
        """By name what is chosen from on the tuning instances: steps of methods, penalties of exact fits."""
        return {}

    def errors(self, case: Case, name: str, value: Any) -> Any:
        """The error of one choice."""
        raise NotImplementedError

    def case(self, size: Size, seed: int, instance: int, phase: str) -> Case:
        """One instance; tuning and reporting never share one."""
        raise NotImplementedError

    def tune(self, size: Size, seed: int, instance: int) -> Arrays:
        """Errors of every choice there is."""
        case = self.case(size, seed, instance, "tune")
        choices = {name: values for name, values in self.choices(size).items() if len(values) > 1}
        return {name: np.array([self.errors(case, name, value) for value in choices[name]]) for name in choices}

    def choose(self, size: Size, tuned: list[Arrays]) -> dict[str, Any]:
        """By name the choice whose mean error is least."""
        chosen = {}
        for name, values in self.choices(size).items():
            errors = np.mean([arrays[name] for arrays in tuned], axis=0) if len(values) > 1 else np.zeros(1)
            chosen[name] = values[int(np.argmin(errors))]
        return chosen

    @abstractmethod
    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, Any]) -> Arrays: ...


class PaperExperiment(Experiment):
    """A figure, `tracking` or `theory`: an experiment with its own numbers of instances and its own table.

    `instances` is how many are reported where no one says.
    """

    title: str
    tuning: Mapping[Size, int]
    instances: int

    @abstractmethod
    def rows(self, reports: list[Arrays], chosen: Mapping[str, Any], size: Size) -> list[Row]: ...


UNTUNED: Mapping[Size, int] = {"full": 0, "small": 0}


class Scope(NamedTuple):
    """How much of an experiment is run, and where it is kept."""

    size: Size
    seed: int
    instances: int
    tuning: int
    jobs: int
    out: Path


def work_out(experiment: Experiment, scope: Scope, advance: Advance) -> tuple[list[Arrays], dict[str, Any]]:
    """All reported instances, and what was chosen for them on the tuning instances."""
    name, size, seed = experiment.name, scope.size, scope.seed
    settings = {"experiment": name, "size": size, "seed": seed, **experiment.settings()}
    store = Store(scope.out, f"{name}-{size}-seed{seed}", settings)

    def instances(phase: str, count: int, seconds: float, work: Callable[..., Arrays]) -> list[Arrays]:
        missing = [i for i in range(count) if not store.has(phase, i)]
        for _ in range(count - len(missing)):
            advance(name, seconds)
        workers = Parallel(n_jobs=min(scope.jobs, max(1, len(missing))), return_as="generator_unordered")
        for _ in workers(delayed(_run)(store, phase, i, partial(work, size, seed, i)) for i in missing):
            advance(name, seconds)
        return [store.load(phase, i) for i in range(count)]

    tuned = instances("tune", scope.tuning, experiment.tuning_cost * experiment.seconds, experiment.tune)
    chosen = experiment.choose(size, tuned)
    # reports depend on what was chosen, and that on the number of tuning instances
    report = partial(experiment.report, chosen=chosen)
    return instances(f"report-{digest_of(chosen)}", scope.instances, experiment.seconds, report), chosen


def _run(store: Store, phase: str, instance: int, work: Callable[[], Arrays]) -> None:
    # one thread each: the instances are the parallelism, and sums come out the same whatever the number of jobs
    with threadpool_limits(1):
        store.save(phase, instance, work())


def cost(experiment: Experiment, instances: int, tuning: int) -> float:
    """Rough cost of an experiment in the units that `advance` is told: seconds of one core at full size."""
    return experiment.seconds * (experiment.tuning_cost * tuning + instances)
