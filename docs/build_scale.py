"""Bring the numbers of docs/scale.md up to date with what benchmarks/cluster.py and benchmarks/sticky.py measured.

The cost model is fitted to them: seconds = passes · bytes / rate + tasks · overhead, of one worker. What it says for
other sizes is a calculation, and the page says so.
Usage: python docs/build_scale.py
"""

from __future__ import annotations

import csv
import runpy
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent / "scale.md"
RUNS = Path(__file__).parents[1] / "benchmarks"
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


def table(heads: list[str], rows: list[list[str]], left: int) -> list[str]:
    """A table for Markdown, whose first columns are text."""
    rule = ["---" if place < left else "--:" for place in range(len(heads))]
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]


def measured(runs: list[dict[str, str]]) -> list[str]:
    """The table of the runs, and that of the calculation."""
    size = max(float(run["bytes"] or 0) for run in runs)
    rows = []
    for run in runs:
        if run["why"]:
            rows.append([run["kind"], run["way"], run["why"], *[""] * 6])
            continue
        tasks, out, back, off = (float(run[name] or 0) for name in ("tasks", "out", "back", "off"))
        sent = [f"{tasks:.0f}", f"{out / 1e3:.0f} kB", f"{back / 1e3:.0f} kB"] if tasks else ["", "", ""]
        passes = f"{float(run['passes']):.3g}" if run["passes"] else ""
        memory = f"{float(run['memory']) / 1e6:.0f} MB"
        error = f"{off:.0e}" if off else "same bits"
        rows.append([run["kind"], run["way"], f"{float(run['seconds']):.3g}", passes, *sent, memory, error])
    heads = [
        "fit",
        "by",
        "seconds",
        "passes",
        "tasks a pass",
        "sent a pass",
        "back a pass",
        "memory of a worker",
        "off",
    ]
    lines = [
        f"Measured with {size / 1e9:.2g} GB of Parquet (what a fit reads of it) in the cache. The one process has one "
        "core, and so has every worker. “Off” is the largest difference of a coefficient from that of the one process, "
        "memory that of the largest process that reads. dask-ml runs with its own defaults and next to no penalty.",
        "",
        *table(heads, rows, 2),
        "",
        " ".join(compared(runs, kind) for kind in dict.fromkeys(run["kind"] for run in runs)),
        "",
        "The model through the runs of one worker, and **what it says, which is a calculation and no measurement**:",
        "",
    ]
    found = []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        model = fitted(runs, kind)
        told = [in_words(model.seconds(size, workers)) for size, _, workers in SIZES]
        numbers = [f"{model.passes:.0f}", f"{model.rate / 1e6:.0f}", f"{1e3 * model.overhead:.0f}"]
        found.append([kind, *numbers, *told])
    sizes = [f"{name} on {workers} workers" for _, name, workers in SIZES]
    return lines + table(["fit", "passes", "MB/s of a worker", "ms a task", *sizes], found, 1)


def compared(runs: list[dict[str, str]], kind: str) -> str:
    """What one worker costs, and two bring."""
    took = {run["way"]: float(run["seconds"]) for run in runs if run["kind"] == kind and run["seconds"]}
    cost, gain = took["1 worker"] / took["one process"], took["1 worker"] / took["2 workers"]
    return f"One worker needs {cost:.2f} times one process's time for the {kind} fit; two are {gain:.2f} times as fast."


def killed(fits: list[dict[str, str]]) -> list[str]:
    """What became of fits whose workers were killed."""
    at: Counter[str] = Counter()
    for fit in fits:
        for phase in filter(None, fit["at"].split(", ")):
            name, count = phase.split()
            at[name] += int(count)
    same = sum(fit["same"] == "True" for fit in fits)
    phases = ", ".join(f"`{name}` {count}" for name, count in at.most_common())
    return [
        f"Workers were killed (SIGKILL) {at.total()} times, at random moments of {len(fits)} fits and summaries; "
        f"{same} ended with the bits of one process. What was under way at the time: {phases}."
    ]


def on_shards(runs: list[dict[str, str]]) -> list[str]:
    """What methods for many machines make of contiguous shards."""
    script = runpy.run_path(str(RUNS / "sticky.py"))
    rows = script["table_of"](runs)
    seeds = len({run["seed"] for run in runs})
    return [
        f"What methods for many machines make of {script['SHARDS']} contiguous shards of a sticky record "
        f"({script['ROWS']:,} rows, AR(1) features; distance from the exact fit in its standard errors under "
        f"dependence, worst coordinate, {seeds} seeds; “lost” is beyond {script['LOST']:.0f}):",
        "",
        *table(list(rows[0]), [list(row.values()) for row in rows], 2),
    ]


def read(name: str) -> list[dict[str, str]]:
    with (RUNS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parts = [measured(read("cluster.csv")), on_shards(read("sticky.csv"))]
    if (RUNS / "cluster_kills.csv").exists():
        parts.insert(1, killed(read("cluster_kills.csv")))
    lines = [line for part in parts for line in (*part, "")]
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(head + "\n".join([BEGIN, "", *lines, END]) + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
