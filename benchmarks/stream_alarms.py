"""How often `multireplay.Stream` tells of a drift where there is none, and how soon where there is one.

Regression on 3 coefficients, with features and noise that are both AR(rho). A false alarm is any in a stream in which
nothing changes. In others a coefficient changes by 1 or 3 standard deviations of the noise half-way, or is a random
walk that goes 3 of them far over the whole stream: found is an alarm after the change began. `--innocent` has other
streams in which nothing changes: sticky noise beside quick features, rare outcomes, heavy tails, trajectories.

    python benchmarks/stream_alarms.py --streams 1000 --out benchmarks/stream_alarms.csv
    python benchmarks/stream_alarms.py --streams 200 --rows 40000 --out benchmarks/stream_alarms.csv
    python benchmarks/stream_alarms.py --streams 200 --rows 20000 --innocent --out benchmarks/stream_innocent.csv
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
    line = {"rho": f"{rho:g}", "rows": f"{rows}", "streams": f"{streams}", **rate_of(false, streams)}
    few = seeds[:FEW]
    for size in (1.0, 3.0):
        after = [[at for at in alarms(seed, rows, rho, size) if at > rows // 2] for seed in few]
        delays = [found[0] - rows // 2 for found in after if found]
        line[f"switch by {size:g} found"] = f"{len(delays)} of {len(few)}"
        line[f"after rows ({size:g})"] = f"{np.median(delays):.0f}" if delays else ""
    return {**line, "walk found": f"{sum(bool(alarms(seed, rows, rho, 'walk')) for seed in few)} of {len(few)}"}


def linear(rng: np.random.Generator, rows: int, noise: np.ndarray, rho: float = 0.0) -> tuple[mr.GLM, dict]:
    """A linear model with two AR(rho) features."""
    features = np.column_stack([sticky(rng, (rows, 2), rho), np.ones(rows)])
    return mr.GLM(), {"features": features, "targets": features @ [1.0, -1.0, 0.5] + noise}


def rare(rng: np.random.Generator, rows: int, link: str, chance: float) -> tuple[mr.GLM, dict]:
    """Outcomes that no feature tells, of that chance."""
    features = np.column_stack([rng.standard_normal((rows, 2)), np.ones(rows)])
    return mr.GLM(link), {"features": features, "targets": (rng.random(rows) < chance).astype(np.float64)}


def walk(rng: np.random.Generator, rows: int, stay: float) -> tuple[mr.PolicyEvaluation, dict]:
    """A random chain of 30 states with 5 features and noisy rewards."""
    moves, psi = np.cumsum(rng.dirichlet(np.full(30, 0.2), size=30), axis=1), rng.standard_normal((30, 5))
    states, stays, chances = np.zeros(rows + 1, dtype=int), rng.random(rows) < stay, rng.random(rows)
    for t in range(rows):
        at = states[t]
        states[t + 1] = at if stays[t] else min(int(np.searchsorted(moves[at], chances[t])), 29)
    rewards = rng.standard_normal(30)[states[:-1]] + rng.standard_normal(rows)
    return mr.PolicyEvaluation(0.9), {
        "features": psi[states[:-1]], "next_features": psi[states[1:]], "rewards": rewards,
    }  # fmt: skip


SLOW = 0.999
INNOCENT = {
    "white features, AR(.999) noise": lambda rng, rows: linear(rng, rows, sticky(rng, (rows, 1), SLOW)[:, 0]),
    "AR(.99) features, AR(.999) noise": lambda rng, rows: linear(rng, rows, sticky(rng, (rows, 1), SLOW)[:, 0], 0.99),
    "white features, noise white + .3 AR(.999)": lambda rng, rows: linear(
        rng, rows, rng.standard_normal(rows) + 0.3 * sticky(rng, (rows, 1), SLOW)[:, 0]
    ),
    "noise t with 3 degrees of freedom": lambda rng, rows: linear(rng, rows, rng.standard_t(3, rows)),
    "outcomes of 1 in 2000, linear": lambda rng, rows: rare(rng, rows, "identity", 1 / 2000),
    "outcomes of 1 in 2000, logistic": lambda rng, rows: rare(rng, rows, "logistic", 1 / 2000),
    "outcomes of 1 in 2000, Poisson": lambda rng, rows: rare(rng, rows, "exp", 1 / 2000),
    "outcomes of 1 in 200, logistic": lambda rng, rows: rare(rng, rows, "logistic", 1 / 200),
    "values, stay .5": lambda rng, rows: walk(rng, rows, 0.5),
    "values, stay .95": lambda rng, rows: walk(rng, rows, 0.95),
}


def rate_of(false: int, streams: int) -> dict[str, str]:
    """The rate of false alarms, and its standard error; where there was none, that of one."""
    share = false / streams
    error = math.sqrt(max(share, 1 / streams) * (1 - share) / streams)
    return {"false alarms": f"{false}", "rate": f"{share:.4f}", "standard error": f"{error:.4f}"}


def innocent_line(name: str, streams: int, rows: int) -> dict[str, str]:
    """How many streams of a world in which nothing changes have an alarm."""
    false = 0
    for seed in range(FIRST, FIRST + streams):
        problem, columns = INNOCENT[name](np.random.default_rng(seed), rows)
        stream = mr.Stream(problem)
        stream.observe_many(columns)
        false += bool(stream.drift.alarms)
    return {"nothing changes": name, "rows": f"{rows}", "streams": f"{streams}", **rate_of(false, streams)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--out", default="")
    parser.add_argument("--rho", type=float, nargs="*", default=RHOS)
    parser.add_argument("--innocent", action="store_true", help="other streams in which nothing changes")
    given = parser.parse_args()
    if given.innocent:
        lines = [innocent_line(name, given.streams, given.rows) for name in INNOCENT]
    else:
        lines = [line_of(rho, given.streams, given.rows) for rho in given.rho]
    print(TextTable(lines))
    if given.out:
        path = Path(given.out)
        kept, first = list(csv.DictReader(path.open(newline=""))) if path.exists() else [], next(iter(lines[0]))
        done = {(line[first], line["rows"]) for line in lines}
        lines += [line for line in kept if (line[first], line["rows"]) not in done]
        if not given.innocent:
            lines.sort(key=lambda line: (int(line["rows"]), float(line["rho"])))
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
