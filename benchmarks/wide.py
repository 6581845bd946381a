"""The bench's policy evaluation with 1000 features: one pass against LSTD, in time and in error, over several seeds.

The world is the one that `multireplay compare` calls "AR states, 1000 features". The gap and the step of the pass side
by side, and the step of the shuffled pass, were chosen on two other seeds. Every time is the best of three.
Usage: python benchmarks/wide.py [--seeds 10]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import multireplay as mr
from multireplay.bench.worlds import make_world
from multireplay.show.text import TextTable

GAP, STEP, SHUFFLED_STEP = 4, 1e-3, 2.5e-4
REPEATS = 3


def main(seeds: int) -> None:
    world = make_world("AR states, 1000 features", "full", Path("out/compare/references"))
    problem = world.problem
    jobs = {
        "LSTD": lambda record: problem.fit_exactly(record),
        "one pass side by side": lambda record: mr.solve(problem, record, replay=mr.Interleaved(GAP), step=STEP).x,
        "shuffle + average": lambda record: mr.solve(problem, record, replay=mr.Shuffle(0), step=SHUFFLED_STEP).x,
        "mr.solve, passes=1": lambda record: mr.solve(problem, record, passes=1).x,
        "mr.solve": lambda record: mr.solve(problem, record).x,
    }
    for job in jobs.values():
        job(world.record(10**6)[:4096])  # compiles
    errors: dict[str, list[float]] = {name: [] for name in jobs}
    ratios: dict[str, list[float]] = {name: [] for name in jobs}
    for seed in range(seeds):
        record = world.record(seed)
        times = dict.fromkeys(jobs, float("inf"))
        for name, job in jobs.items():
            for _ in range(REPEATS):  # the threads of LSTD's matrix products go on spinning for a while after it
                began = time.perf_counter()
                x = job(record)
                times[name] = min(times[name], time.perf_counter() - began)
            errors[name].append(world.error(x))
        for name, seconds in times.items():
            ratios[name].append(times["LSTD"] / seconds)
    rows = []
    for name in jobs:
        worse = np.array(errors[name]) / np.array(errors["LSTD"])
        spread = worse.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
        low, middle, high = np.quantile(ratios[name], (0.0, 0.5, 1.0))
        rows.append(
            {
                "method": name,
                "LSTD's time / its": f"{middle:.1f} ({low:.1f} to {high:.1f})",
                "error / LSTD's": f"{worse.mean():.3f} ± {spread:.3f}",
            }
        )
    print(TextTable(rows, title=f"d = 1000, {len(record)} transitions, {seeds} seeds; times: median (least to most)"))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    main(options.parse_args().seeds)
