"""A long stream through a store, killed again and again on the way: flat memory and time a row, and the same end.

A child feeds blocks of rows, each made from its number, into a stream with a window, whose store keeps as many rows. It
is killed (SIGKILL) at random moments and started again, and goes on from its position. In the end its state is
compared, bit by bit, with that of a run in memory that was never interrupted.

    python benchmarks/soak.py --rows 100000000 && python docs/build_stream_store.py
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import multireplay as mr

WIDTH, BLOCK = 8, 4096
LABELS = ("µs of the processor a row", "memory in MB", "store in MB")


def block(number: int) -> dict[str, np.ndarray]:
    """Dependent rows of a block, from its number alone."""
    rng = np.random.default_rng(number)
    features = np.cumsum(rng.standard_normal((BLOCK, WIDTH)), axis=0) / 20
    return {"features": features, "targets": features.sum(axis=1) + rng.standard_normal(BLOCK)}


def stream(window: int, store: str | None = None) -> mr.Stream:
    how = {} if store is None else {"store": store, "keep": window}
    return mr.Stream(mr.GLM(), window=float(window), **how)


def resident() -> float:
    """Megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def size(store: str) -> float:
    """Megabytes of a folder, in which files come and go."""
    total = 0
    for path in Path(store).iterdir():
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total / 2**20


def feed(rows: int, window: int, store: str, told: Connection) -> None:
    """The child: feed what is missing, and tell position, microseconds a row (by the clock, of the processor) and
    megabytes after every block."""
    warnings.simplefilter("ignore")
    run = stream(window, store)
    for number in range(run.position // BLOCK, rows // BLOCK):
        given = block(number)
        clocks = time.perf_counter(), time.process_time()
        run.observe_many(given, position=number * BLOCK)
        took = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
        told.send((run.position, took[0] / BLOCK * 1e6, took[1] / BLOCK * 1e6, resident()))
    run.close()


def soak(rows: int, window: int, kills: int, store: str) -> list[tuple[float, ...]]:
    """The parent: what the children told, every 16th time, with how many were killed until then."""
    chance = random.Random(0)
    targets = sorted(chance.randrange(rows) for _ in range(kills))
    seen: list[tuple[float, ...]] = []
    killed = told = 0
    stream(window).observe_many(block(0))  # all modules and loops are there before the first child is
    processes = multiprocessing.get_context("fork")
    while True:
        reader, writer = processes.Pipe(duplex=False)
        child = processes.Process(target=feed, args=(rows, window, store, writer))
        child.start()
        writer.close()
        with suppress(EOFError, OSError):
            while True:
                found = reader.recv()
                told += 1
                if told % 16 == 1:
                    seen.append((*found, size(store), killed))
                if killed < kills and found[0] >= targets[killed]:
                    time.sleep(chance.random() / 50)
                    child.kill()
                    killed += 1
                    break
        child.join()
        reader.close()
        if child.exitcode == 0:
            return [*seen, (*found, size(store), killed)]
        if child.exitcode != -signal.SIGKILL:
            raise SystemExit(f"the child ended with {child.exitcode}")


def same(store: str, rows: int, window: int) -> bool:
    """Whether the state in the store is that of a run that was never interrupted, to the last bit."""
    whole = stream(window)
    for number in range(rows // BLOCK):
        whole.observe_many(block(number))
    one, other = (run.state() for run in (mr.Stream.open(store, read_only=True), whole))
    names = one.keys() | other.keys()
    return all(_bytes(one.get(name)) == _bytes(other.get(name)) for name in names)


def _bytes(value: object) -> bytes:
    """A number is a number, whole or not; all else is as it is."""
    return np.array(float(value) if isinstance(value, int) else value).tobytes()


def draw(seen: Sequence[tuple[float, ...]] | np.ndarray, out: str) -> None:
    """Time a row and memory over the rows, with a line at every kill."""
    from matplotlib import pyplot as plt

    table = np.array(seen)
    figure, axes = plt.subplots(3, 1, figsize=(8, 6), sharex=True, layout="constrained")
    axes[0].plot(table[:, 0], table[:, 2], linewidth=0.8)
    axes[1].plot(table[:, 0], table[:, 3], linewidth=0.8)
    axes[2].plot(table[:, 0], table[:, 4], linewidth=0.8)
    for axis, column, label in zip(axes, (2, 3, 4), LABELS, strict=True):
        axis.set(ylabel=label, ylim=(0, 1.3 * np.percentile(table[:, column], 99)))
        axis.vlines(table[np.flatnonzero(np.diff(table[:, 5])), 0], 0, 1, "0.93", linewidth=0.3, zorder=0,
                    transform=axis.get_xaxis_transform())  # fmt: skip
    axes[2].set(xlabel="rows (grey: killed)")
    figure.savefig(out, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--window", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=1010)
    parser.add_argument("--out", default="docs/figures/soak.png", help="the picture")
    parser.add_argument("--csv", default="benchmarks/soak.csv", help="the numbers, where the end is the same")
    parser.add_argument("--draw", action="store_true", help="draw the numbers that are there, and measure nothing")
    given = parser.parse_args()
    if given.draw:
        draw(np.loadtxt(given.csv, delimiter=",", skiprows=1), given.out)
        return
    given.rows = -(-given.rows // BLOCK) * BLOCK
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        seen = soak(given.rows, given.window, given.kills, f"{folder}/run")
        took = time.perf_counter() - start
        alike = same(f"{folder}/run", given.rows, given.window)
    print(f"{seen[-1][0]:,} rows in {took:.0f} s, killed {seen[-1][5]} times, {seen[-1][4]:.0f} MB in the store.")
    if not alike:
        raise SystemExit("THE STATES DIFFER.")
    print("The state is that of a run never interrupted, to the last bit.")
    draw(seen, given.out)
    with Path(given.csv).open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("position", "us_a_row", "cpu_us_a_row", "megabytes", "store_megabytes", "killed"))
        table.writerows((at, *(f"{one:.2f}" for one in numbers), killed) for at, *numbers, killed in seen)


if __name__ == "__main__":
    main()
