"""Running experiments: instances in parallel, finished ones kept, tables and pictures at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from multireplay.reproduce import draw, table
from multireplay.reproduce.curves import Arrays
from multireplay.reproduce.store import Store
from multireplay.reproduce.worlds import Size


class Experiment(Protocol):
    """What the runner needs of a figure, of `tracking` and of `theory`."""

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tuning(self) -> Mapping[Size, int]: ...
    def settings(self) -> str: ...
    def tune(self, size: Size, seed: int, instance: int) -> Arrays: ...
    def choose(self, tuned: list[Arrays]) -> dict[str, float]: ...
    def report(self, size: Size, seed: int, instance: int, chosen: Mapping[str, float]) -> Arrays: ...
    def rows(self, reports: list[Arrays], chosen: Mapping[str, float], size: Size) -> list[table.Row]: ...


class Task(NamedTuple):
    """One instance to be worked out."""

    store: Store
    phase: str
    instance: int
    work: Callable[..., Arrays]
    arguments: tuple[Any, ...]
    seconds: float


TUNING_COST = 2.0
"""A tuning instance runs the whole grid of steps and takes about this many times as long."""


def reproduce(
    experiments: Sequence[Experiment],
    instances: int,
    seed: int,
    jobs: int,
    out: Path,
    size: Size,
    advance: Callable[[str, float], None] = lambda name, seconds: None,
) -> None:
    """Run the experiments and write NAME.csv, NAME.json (which run it was), NAME.png and NAME.svg for each into `out`.

    `advance` is told the name and the rough cost of every instance that is finished, also of those found on disk.
    """
    out.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        store = Store(out, experiment.name, size, seed, experiment.settings())
        tuning = experiment.tuning[size]

        def tasks(phase: str, count: int, work: Any, *more: Any, cost: float, store: Store = store) -> list[Task]:
            return [Task(store, phase, i, work, (size, seed, i, *more), cost) for i in range(count)]

        cost = experiment.seconds
        run_tasks(tasks("tune", tuning, experiment.tune, cost=TUNING_COST * cost), jobs, experiment.name, advance)
        chosen = experiment.choose(store.load_all("tune", tuning)) if tuning else {}
        run_tasks(tasks("report", instances, experiment.report, chosen, cost=cost), jobs, experiment.name, advance)
        reports = store.load_all("report", instances)
        rows = experiment.rows(reports, chosen, size)
        table.write(out / f"{experiment.name}.csv", rows)
        about = {"instances": instances, "seed": seed, "size": size, "chosen": chosen}
        (out / f"{experiment.name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        draw.draw(experiment, rows, reports, size, out / experiment.name)


def total_cost(experiments: Sequence[Experiment], instances: int, size: Size) -> float:
    """Rough cost of everything, in the units that `advance` is told."""
    return sum(e.seconds * (TUNING_COST * e.tuning[size] + instances) for e in experiments)


def run_tasks(tasks: list[Task], jobs: int, name: str, advance: Callable[[str, float], None]) -> None:
    """Work out the instances that are not on disk yet."""
    missing = [task for task in tasks if not task.store.has(task.phase, task.instance)]
    for task in tasks:
        if task not in missing:
            advance(name, task.seconds)
    workers = Parallel(n_jobs=min(jobs, max(1, len(missing))), return_as="generator_unordered")
    for seconds in workers(delayed(_run)(task) for task in missing):
        advance(name, seconds)


def _run(task: Task) -> float:
    # one thread each: the instances are the parallelism, and sums come out the same whatever the number of jobs
    with threadpool_limits(1):
        task.store.save(task.phase, task.instance, task.work(*task.arguments))
    return task.seconds
