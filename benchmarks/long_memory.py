"""What intervals of a mean are like where memory is long, and where it only looks so: the default and `LongMemory()`.

Series with a known mean of 0: autoregressions, sums of two or three of them and of white noise, one with a cycle of 24
rows, and ARFIMA(0, d, 0). "Taken for long" is how often the default makes its intervals longer for that; "batches" is
`BatchMeans` alone. Widths are over the oracle's, 2 · 1.96 standard deviations of the means over all replications. The
limits in multireplay/inference/slow.py were chosen on other seeds.

    python benchmarks/long_memory.py --replications 300
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from coverage_worlds import Array, autoregression, long_memory
from joblib import Parallel, delayed

import multireplay as mr
from multireplay.inference import BatchMeans, LongMemory
from multireplay.show.text import TextTable, render

SEED, Z = 27_182_818, 1.959963984540054
Draw = Callable[[np.random.Generator, int], Array]


def slow(rho: float) -> Draw:
    """An AR(ρ) of variance 1."""
    return lambda rng, rows: autoregression(rng, rows, 1, rho)[:, 0]


def white(rng: np.random.Generator, rows: int) -> Array:
    return rng.standard_normal(rows)


def added(*parts: Draw) -> Draw:
    """The sum of independent series."""
    return lambda rng, rows: sum((part(rng, rows) for part in parts), np.zeros(rows))


def cycle(rng: np.random.Generator, rows: int) -> Array:
    return np.cos(2 * np.pi * np.arange(rows) / 24)


WORLDS: dict[str, Draw] = {
    "white": white,
    "AR(.9)": slow(0.9),
    "AR(.99)": slow(0.99),
    "white + AR(.9)": added(white, slow(0.9)),
    "white + AR(.97)": added(white, slow(0.97)),
    "AR(.5) + AR(.95)": added(slow(0.5), slow(0.95)),
    "white + AR(.8) + AR(.98)": added(white, slow(0.8), slow(0.98)),
    "AR(.9) + cycle of 24": added(slow(0.9), cycle),
    "ARFIMA, d = .2": lambda rng, rows: long_memory(rng, rows, 0.2),
    "ARFIMA, d = .3": lambda rng, rows: long_memory(rng, rows, 0.3),
    "ARFIMA, d = .4": lambda rng, rows: long_memory(rng, rows, 0.4),
}


def one(world: str, rows: int, number: int) -> list[float]:
    """The mean, half the length of intervals by the default, by batches alone and by `LongMemory`, and the factor."""
    y = WORLDS[world](np.random.default_rng([SEED, list(WORLDS).index(world), rows, number]), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mr.solve(mr.GLM(), mr.Buffer(features=np.ones((rows, 1)), targets=y), threads=1)
        (low, high), (long_low, long_high) = result.interval()[0], result.interval(by=LongMemory())[0]
    batches = BatchMeans().spread(result.images.values)
    half = float(batches.quantile(0.95)) * np.sqrt(batches.variance[0])
    stretch = float(np.max(result.uncertainty.images.stretch))
    return [result.x[0], (high - low) / 2, half, (long_high - long_low) / 2, stretch]


def line(world: str, rows: int, replications: int, jobs: int) -> dict[str, str]:
    """Coverage with its standard error, and mean width, of each."""
    runs = Parallel(jobs)(delayed(one)(world, rows, number) for number in range(replications))
    found = np.array(runs)
    oracle = Z * found[:, 0].std()
    told = {"series": world, "rows": f"{rows}", "taken for long": f"{100 * (found[:, 4] > 1).mean():.0f} %"}
    for place, name in enumerate(("default", "batches", "LongMemory()"), 1):
        held = np.abs(found[:, 0]) <= found[:, place]
        error = 100 * held.std() / np.sqrt(replications)
        told[name] = f"{100 * held.mean():.1f} ± {error:.1f}, {found[:, place].mean() / oracle:.2f}"
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--rows", type=int, nargs="*", default=[2_000, 20_000])
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    lines = [line(world, rows, given.replications, given.jobs) for rows in given.rows for world in WORLDS]
    print(render(TextTable(lines, title="95 % intervals of a mean: coverage in percent, width over the oracle's")))


if __name__ == "__main__":
    main()
