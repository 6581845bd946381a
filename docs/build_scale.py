"""Bring the numbers of docs/scale.md up to date with benchmarks/cluster.csv, what benchmarks/cluster.py measured.

The cost model is fitted to them: seconds = passes · bytes / rate + tasks · overhead, of one worker. What it says for
other sizes is a calculation, and the page says so.
Usage: python docs/build_scale.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent / "scale.md"
RUNS = Path(__file__).parents[1] / "benchmarks" / "cluster.csv"
BEGIN, END = "<!-- measured: docs/build_scale.py -->", "<!-- end of measured -->"
SIZES = ((1e12, "1 TB", 40), (1e15, "1 PB", 1000))
"""Bytes, their name, and workers."""
TASK, MOST_TASKS = 2**30, 2**13
"""Bytes of a task where there are many, and tasks that a pass has at most."""


class Model(NamedTuple):
    """What a fit of one kind costs: passes, bytes a second of one worker, and seconds of a task beside its bytes."""

    passes: float
    rate: float
    overhead: float

    def seconds(self, size: float, workers: int) -> float:
        """Of so many bytes on so many workers, all of which can be read at that rate at once."""
        tasks = min(MOST_TASKS, size / TASK)
        return self.passes * (size / self.rate + tasks * self.overhead) / workers


def fitted(runs: list[dict[str, str]], kind: str) -> Model:
    """The model through the two runs of one worker, which differ in the number of their tasks."""
    large, small = (
        {name: float(run[name]) for name in ("passes", "bytes", "tasks", "seconds")}
        for way in ("1 worker", "1 worker, small tasks")
        for run in runs
        if (run["kind"], run["way"]) == (kind, way)
    )
    passes = max(1.0, round(large["passes"]))
    more = passes * (small["tasks"] - large["tasks"])
    overhead = max(0.0, (small["seconds"] - large["seconds"]) / more)
    rate = passes * large["bytes"] / (large["seconds"] - passes * large["tasks"] * overhead)
    return Model(passes, rate, overhead)


def in_words(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} seconds"


def measured(runs: list[dict[str, str]]) -> list[str]:
    """The table of the runs, and that of the calculation."""
    size = max(float(run["bytes"] or 0) for run in runs)
    lines = [
        f"Measured with {size / 1e9:.2g} GB of Parquet (what a fit reads of it) in the cache, a core for each worker:",
        "",
        "| fit | by | seconds | passes | tasks a pass | sent a pass | back a pass | memory of a worker |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for run in runs:
        if run["why"]:
            lines.append(f"| {run['kind']} | {run['way']} | cannot be run: `{run['why']}` | | | | | |")
            continue
        tasks, out, back = (float(run[name] or 0) for name in ("tasks", "out", "back"))
        sent = [f"{tasks:.0f}", f"{out / 1e3:.0f} kB", f"{back / 1e3:.0f} kB"] if tasks else ["", "", ""]
        passes = f"{float(run['passes']):.3g}" if run["passes"] else ""
        cells = [
            run["kind"],
            run["way"],
            f"{float(run['seconds']):.3g}",
            passes,
            *sent,
            f"{float(run['memory']) / 1e6:.0f} MB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The model through the runs of one worker, and **what it says, which is a calculation and no measurement**:",
        "",
    ]
    heads = [f"{name} on {workers} workers" for _, name, workers in SIZES]
    lines += [f"| fit | passes | MB/s of a worker | ms a task | {' | '.join(heads)} |", "|---|--:|--:|--:|--:|--:|"]
    for kind in dict.fromkeys(run["kind"] for run in runs):
        model = fitted(runs, kind)
        told = [in_words(model.seconds(size, workers)) for size, _, workers in SIZES]
        numbers = [f"{model.passes:.0f}", f"{model.rate / 1e6:.0f}", f"{1e3 * model.overhead:.0f}"]
        lines.append(f"| {' | '.join([kind, *numbers, *told])} |")
    return lines


def main() -> None:
    with RUNS.open(newline="") as file:
        lines = measured(list(csv.DictReader(file)))
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(head + "\n".join([BEGIN, "", *lines, "", END]) + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
