"""How often `multireplay.Stream` tells of a drift where there is none, and how soon where there is one.

Regression on 3 coefficients, with features and noise that are both AR(rho). A false alarm is any in a stream in which
nothing changes. In others a coefficient changes by 1 or 3 standard deviations of the noise half-way, or is a random
walk that goes 3 of them far over the whole stream: found is an alarm after the change began.

    python benchmarks/stream_alarms.py --streams 1000 --out benchmarks/stream_alarms.csv
    python benchmarks/stream_alarms.py --streams 200 --rows 40000 --out benchmarks/stream_alarms.csv
    python docs/build_stream.py
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

import multireplay as mr
from multireplay.show.text import TextTable

RHOS = (0.0, 0.9, 0.99, 0.999)
FEW = 50
"""Streams in which something changes."""
FIRST = 5000
"""The first seed: the thresholds were chosen on others."""


def sticky(rng: np.random.Generator, shape: tuple[int, int], rho: float) -> np.ndarray:
    """Stationary AR(rho) series of variance 1, a column each."""
    fresh = rng.standard_normal(shape) * math.sqrt(1 - rho**2)
    fresh[0] /= math.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], fresh, axis=0)


def alarms(seed: int, rows: int, rho: float, change: float | str) -> tuple[int, ...]:
    """Where a stream of so many rows gives an alarm."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([sticky(rng, (rows, 2), rho), np.ones(rows)])
    x = np.tile([1.0, -1.0, 0.5], (rows, 1))
    if change == "walk":
        x[:, 0] += np.cumsum(rng.standard_normal(rows)) * 3 / math.sqrt(rows)
    else:
        x[rows // 2 :, 0] += change
    targets = (features * x).sum(axis=1) + sticky(rng, (rows, 1), rho)[:, 0]
    stream = mr.Stream(mr.GLM())
    stream.observe_many(features=features, targets=targets)
    return stream.drift.alarms


def line_of(rho: float, streams: int, rows: int) -> dict[str, str]:
    """Rates with their standard errors."""
    seeds = range(FIRST, FIRST + streams)
    false = sum(bool(alarms(seed, rows, rho, 0.0)) for seed in seeds)
    share = false / streams
    line = {
        "rho": f"{rho:g}", "rows": f"{rows}", "streams": f"{streams}",
        "false alarms": f"{false}", "rate": f"{share:.4f}",
        "standard error": f"{math.sqrt(max(share, 1 / streams) * (1 - share) / streams):.4f}",
    }  # fmt: skip
    few = seeds[:FEW]
    for size in (1.0, 3.0):
        after = [[at for at in alarms(seed, rows, rho, size) if at > rows // 2] for seed in few]
        delays = [found[0] - rows // 2 for found in after if found]
        line[f"switch by {size:g} found"] = f"{len(delays)} of {len(few)}"
        line[f"after rows ({size:g})"] = f"{np.median(delays):.0f}" if delays else ""
    return {**line, "walk found": f"{sum(bool(alarms(seed, rows, rho, 'walk')) for seed in few)} of {len(few)}"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--out", default="")
    parser.add_argument("--rho", type=float, nargs="*", default=RHOS)
    given = parser.parse_args()
    lines = [line_of(rho, given.streams, given.rows) for rho in given.rho]
    print(TextTable(lines))
    if given.out:
        path = Path(given.out)
        kept = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
        done = {(line["rho"], line["rows"]) for line in lines}
        lines += [line for line in kept if (line["rho"], line["rows"]) not in done]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(sorted(lines, key=lambda line: (int(line["rows"]), float(line["rho"]))))


if __name__ == "__main__":
    main()
