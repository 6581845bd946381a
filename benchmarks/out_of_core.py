"""Regression on samples that stay on disk: the rate against just reading the files, and the memory it takes.

Orders of steps, `mr.solve` as it is ("default") and its corrections ("newton") fit logistic regression; "exact" is the
exact fit of least squares, in one pass. Samples are generated once into a folder. Each measurement runs in a process
of its own, after the files have been dropped from the page cache, reading and learning in turn. Usage:
    python benchmarks/out_of_core.py --gigabytes 8 --dim 100 --folder out/out_of_core
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay.buffer.disk.folder import save_folder
from multireplay.buffer.disk.source import Field
from multireplay.show.text import TextTable

CORRELATION = 0.95
ORDERS = {
    "interleaved": mr.Interleaved(),
    "multiscale": mr.Multiscale(),
    "all phases": mr.Multiscale(phases="all"),
    "shuffle": mr.Shuffle(0),
}
ROUTES: dict[str, tuple[str, mr.Newton | mr.Exact | None]] = {
    "default": ("logistic", None),
    "newton": ("logistic", mr.Newton()),
    "exact": ("identity", mr.Exact()),
}
"""Whole solutions, to the exact fit's accuracy and with standard errors: the link, and the update."""
PASSES = {"multiscale": 2.0, "all phases": 3.0}
"""All epochs in one pass in order, those of too many chains in one more in parts, and one to choose between them."""
LEAST_SHARE = 0.6
MOST_MEMORY = 500e6


@contextmanager
def byte_bar(description: str, total: int) -> Iterator[Progress]:
    """A bar over bytes with rate and time left; its only task is task 0."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        progress.add_task(description, total=total)
        yield progress


def make_samples(path: Path, rows: int, dim: int, dtype: str = "float64", seed: int = 0) -> None:
    """Covariates of an AR(1) process and logistic targets, written block by block."""
    fields = {"features": Field(np.dtype(dtype), dim), "targets": Field(np.dtype(dtype), None)}
    with byte_bar("writing", rows * sum(field.row_bytes for field in fields.values())) as progress:

        def blocks() -> Iterator[dict[str, np.ndarray]]:
            rng = np.random.default_rng(seed)
            solution = rng.standard_normal(dim)
            solution /= np.linalg.norm(solution)
            carried = CORRELATION * rng.standard_normal((1, dim))
            step = max(1, 2**22 // (8 * dim))
            for start in range(0, rows, step):
                noise = np.sqrt(1 - CORRELATION**2) * rng.standard_normal((min(step, rows - start), dim))
                features, carried = lfilter([1.0], [1.0, -CORRELATION], noise, axis=0, zi=carried)
                targets = rng.random(len(features)) < expit(features @ solution)
                block = {"features": features.astype(dtype), "targets": targets.astype(dtype)}
                yield block
                progress.advance(0, sum(array.nbytes for array in block.values()))

        save_folder(path, fields, rows, blocks())


def drop_from_cache(path: Path) -> None:
    """Make the next reader of the folder go to the disk."""
    for file in path.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def just_read(path: Path) -> None:
    """The same bytes through one buffer, and nothing else."""
    files = sorted(path.glob("*.npy"))
    memory = np.empty(2**24, np.uint8).data
    with byte_bar("reading", sum(file.stat().st_size for file in files)) as progress:
        for file in files:
            with file.open("rb", buffering=0) as opened:
                while count := opened.readinto(memory):
                    progress.advance(0, count)


def learn(path: Path, memory: str, how: str) -> float:
    """Regression within the memory budget; the passes over the files that it took."""
    stored = mr.Buffer.open(path, memory=memory)
    assert isinstance(stored, mr.StoredBuffer)
    step = 0.5 / (stored.width("features") or 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what random access costs: that is what is measured here
        if how in ROUTES:
            link, update = ROUTES[how]
            return float(mr.solve(mr.GLM(link), stored, update=update, progress=True).passes)
        mr.solve(mr.GLM("logistic"), stored, replay=ORDERS[how], step=step, progress=True)
    return PASSES.get(how, 1.0)


def peak_memory() -> float:
    """The most memory that this process has had, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * float(line.split()[1])
    raise OSError("this system does not say how much memory a process has had")


def measure(what: str, path: Path, memory: str) -> dict[str, float]:
    """Seconds and memory of one pass in a process of its own."""
    drop_from_cache(path)
    command = [sys.executable, __file__, "--only", what, "--folder", str(path), "--memory", memory]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def report(path: Path, memory: str, repeats: int, hows: list[str]) -> bool:
    """Print the rates and the memory; whether both are as good as they should be."""
    runs: dict[str, list[dict[str, float]]] = {"read": [], **{name: [] for name in hows}}
    for _ in range(repeats):
        for what, done in runs.items():
            done.append(measure(what, path, memory))
    size = sum(file.stat().st_size for file in path.glob("*.npy"))
    rates = {what: max(size * run["passes"] / run["seconds"] for run in done) for what, done in runs.items()}
    shares = {what: rates[what] / rates["read"] for what in runs}
    quickest = {what: min(run["seconds"] for run in done) for what, done in runs.items()}
    peaks = {what: max(run["memory"] for run in done) for what, done in runs.items()}
    rows = [
        {
            "what": what,
            "passes": f"{runs[what][0]['passes']:.3g}",
            "seconds": f"{quickest[what]:.3g}",
            "time / reading": f"{quickest[what] / quickest['read']:.2f}",
            "GB/s": f"{rates[what] / 1e9:.2f}",
            "share of reading": f"{shares[what]:.0%}",
            "memory in MB": f"{peaks[what] / 1e6:.0f}",
        }
        for what in runs
    ]
    print(f"{size / 1e9:.2f} GB on disk, none of it cached, best of {repeats}; budget {memory}")
    print(TextTable(rows))
    in_order = [what for what in hows if what != "shuffle"]
    fast, small = all(shares[what] >= LEAST_SHARE for what in in_order), max(peaks.values()) < MOST_MEMORY
    print(f"rate at least {LEAST_SHARE:.0%} of reading, for what reads in order: {'yes' if fast else 'NO'}")
    print(f"memory under {MOST_MEMORY / 1e6:.0f} MB: {'yes' if small else 'NO'}")
    return fast and small


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=float, default=8.0)
    options.add_argument("--dim", type=int, default=100)
    options.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    options.add_argument("--folder", type=Path, default=Path("out/out_of_core"))
    options.add_argument("--memory", default="128 MB")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--keep", action="store_true", help="leave the samples on disk; a later run uses them again")
    hows = [*ORDERS, *ROUTES]
    usual = [how for how in hows if how != "shuffle"]
    options.add_argument("--how", nargs="+", choices=hows, default=usual, help="all but shuffle, if not given")
    options.add_argument("--only", choices=["read", *hows], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only:
        before, began = peak_memory(), time.perf_counter()
        passes = 1.0
        if given.only == "read":
            just_read(given.folder)
        else:
            passes = learn(given.folder, given.memory, given.only)
        seconds, peak = time.perf_counter() - began, peak_memory()
        print(json.dumps({"seconds": seconds, "memory": peak, "above": peak - before, "passes": passes}))
        return 0
    if not given.folder.exists():
        rows = int(given.gigabytes * 1e9 / ((given.dim + 1) * np.dtype(given.dtype).itemsize))
        make_samples(given.folder, rows, given.dim, given.dtype)
    try:
        return 0 if report(given.folder, given.memory, given.repeats, given.how) else 1
    finally:
        if not given.keep:
            shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
