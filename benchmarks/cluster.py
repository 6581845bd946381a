"""The same fit by one process and by workers of a Dask cluster on this machine, from one Parquet folder.

Time, memory of a worker, tasks, bytes sent, workers killed on the way, and dask-ml beside it, by a Python that has it.
The folder is made once; each measurement runs in a process of its own, in turn. The one process and every worker have
one core each, on which they decode the files and add up the sums. What `docs/scale.md` reckons with goes to CSV files.
Usage:
    python benchmarks/cluster.py --gigabytes 8 --python rival/bin/python --out benchmarks/cluster.csv
    python benchmarks/cluster.py --kills 50 --gigabytes 1 --out benchmarks/cluster_kills.csv
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from cluster_local import cluster, peak, pinned, processor
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay.show.text import TextTable

RHO = 0.95
FILE, GROUP = 2**28, 2**24
"""Bytes of a file and of a row group."""
MEMORY = "256 MB"
KINDS = {"linear": mr.GLM(), "logistic": mr.GLM("logistic")}
RIVAL = "dask-ml, 2 workers"
WAYS = ("one process", "1 worker", "2 workers", "1 worker, small tasks")
LONGEST = 600
"""Seconds that a measurement may take."""
COLUMNS = ("kind", "way", "bytes", "passes", "tasks", "out", "back", "memory", "cpu", "seconds", "off", "why")
MOST_OVERHEAD, LEAST_SPEED_UP, MOST_MEMORY = 1.3, 1.6, 1e9


def make_folder(path: Path, gigabytes: float, dim: int) -> None:
    """AR(1) features and a target of each kind, one column each, in files of a quarter of a gigabyte."""
    rng = np.random.default_rng(0)
    path.mkdir(parents=True)
    row = 8 * (dim + 2)
    rows, part = int(gigabytes * 1e9 / row), FILE // row
    carried, x = RHO * rng.standard_normal((1, dim)), rng.standard_normal(dim) / np.sqrt(dim)
    for number, start in enumerate(range(0, rows, part)):
        noise = np.sqrt(1 - RHO**2) * rng.standard_normal((min(part, rows - start), dim))
        features, carried = lfilter([1.0], [1.0, -RHO], noise, axis=0, zi=carried)
        scores = features @ x
        columns = {f"x{j}": features[:, j] for j in range(dim)}
        columns["linear"] = scores + rng.standard_normal(len(scores))
        columns["logistic"] = (rng.random(len(scores)) < expit(scores)).astype(float)
        file = path / f"part-{number:05d}.parquet"
        pq.write_table(pa.table(columns), file, row_group_size=GROUP // row, compression="none", use_dictionary=False)


def opened(folder: Path, kind: str) -> Any:
    """The folder as a record that stays on disk."""
    names = pq.read_schema(next(folder.glob("*.parquet"))).names
    columns = {"features": [name for name in names if name.startswith("x")], "targets": kind}
    return mr.Buffer.open(folder, columns=columns, memory=MEMORY)


def counted(sent: dict[str, int]) -> Any:
    """Workers of Dask that count tasks, and the bytes of all that goes and comes."""
    from multireplay.spread.workers import DaskWorkers

    class Counted(DaskWorkers):
        def _submit(self, task: Any) -> Any:
            sent["tasks"] += 1
            sent["out"] += len(pickle.dumps(task))
            return super()._submit(task)

        def _result(self, future: Any) -> Any:
            found = super()._result(future)
            sent["back"] += len(pickle.dumps(found))
            return found

    return Counted


def warmed(folder: Path, kind: str) -> None:
    """A small fit and a few rows, which load compiled code, and the libraries that read: once in every process."""
    import multireplay.spread.record  # noqa: F401

    opened(folder, kind).take(np.arange(64))
    features = np.random.default_rng(0).standard_normal((20_000, 4))
    mr.solve(KINDS[kind], mr.Buffer(features=features, targets=np.arange(20_000) % 2), threads=1)


def one(way: str, folder: Path, kind: str) -> dict[str, Any]:
    """Fit once, this way; what it took."""
    from multireplay.spread import record as spread_record
    from multireplay.spread import workers as spread_workers

    sent = {"tasks": 0, "out": 0, "back": 0}
    with ExitStack() as stack:
        client = None if way == "one process" else cluster(int(way.split()[0]), stack)
        warmed(folder, kind)
        if client is None:
            os.sched_setaffinity(0, {0})
        else:
            client.run(warmed, folder, kind)
            pinned(client)
            spread_workers.DaskWorkers = counted(sent)  # type: ignore[misc]
        if way.endswith("small tasks"):
            spread_record.MOST = spread_record.LEAST = 2**26

        def busy() -> float:
            return processor() if client is None else sum(client.run(processor).values())

        before, buffer, began = busy(), opened(folder, kind), time.perf_counter()
        result = mr.solve(KINDS[kind], buffer, on=client, threads=1)
        seconds = time.perf_counter() - began
        memory, cpu = peak() if client is None else max(client.run(peak).values()), busy() - before
    found = {
        "seconds": seconds,
        "passes": result.passes,
        "memory": memory,
        "bytes": buffer.nbytes,
    }
    found["cpu"], passes = cpu, max(1.0, round(result.passes))
    return {**found, **{name: number / passes for name, number in sent.items()}, "x": result.x.tobytes().hex()}


def measured(way: str, kind: str, given: argparse.Namespace) -> dict[str, Any]:
    """`one` in a process of its own, from files that are all in the cache, or none of them."""
    folder, cold = given.folder, given.cold
    for file in folder.iterdir():
        with file.open("rb", buffering=0) as opened_:
            if cold:
                os.posix_fadvise(opened_.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while not cold and opened_.read(2**24):
                pass
    command = [sys.executable, __file__, "--only", way, "--folder", str(folder), "--kind", kind]
    if way == RIVAL:
        command = [given.python, str(Path(__file__).with_name("cluster_dask_ml.py")), str(folder), kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"way": way, "kind": kind, "why": f"not done in {LONGEST / 60:.0f} minutes"}
    return {"way": way, "kind": kind, **json.loads(done.stdout.splitlines()[-1])}


def under_fire(folder: Path, kills: int, out: Path | None) -> list[dict[str, Any]]:
    """Fits on two workers, one of which is killed every second or so, until so many were; whether bits are as here.

    What was under way is noted at every kill. None is killed before a task was done since the last one was.
    The file gets every fit as it ends; those that it has count.
    """
    from multireplay.spread import workers as spread_workers

    class Watched(spread_workers.DaskWorkers):
        def _submit(self, task: Any) -> Any:
            phase[0] = type(getattr(task, "block_sum", task)).__name__.strip("_")
            return super()._submit(task)

        def _result(self, future: Any) -> Any:
            found = super()._result(future)
            moved.set()
            return found

    moved = threading.Event()
    phase, struck, over, rows = [""], list[str](), threading.Event(), kept(out)
    here = {kind: told(mr.solve(problem, opened(folder, kind))) for kind, problem in KINDS.items()}
    spread_workers.DaskWorkers = Watched  # type: ignore[misc]
    with ExitStack() as stack:
        client = cluster(2, stack)

        def kill() -> None:
            seen: set[int] = set()  # one that has just begun is let be: its nanny would give it up
            while not over.wait(random.uniform(0.1, 1.5)):
                try:
                    there = set(client.run(os.getpid).values())
                    if there & seen and moved.is_set():
                        os.kill(random.choice(sorted(there & seen)), signal.SIGKILL)
                        struck.append(phase[0])
                        moved.clear()
                    seen = there
                    client.cluster.scale(2)
                except (OSError, RuntimeError, ValueError):
                    continue  # it was gone already

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            while sum(int(row["killed"]) for row in rows) < kills:
                for kind, problem in KINDS.items():
                    before, began = len(struck), time.perf_counter()
                    same = told(mr.solve(problem, opened(folder, kind), on=client)) == here[kind]
                    took, hit = time.perf_counter() - began, Counter(struck[before:])
                    at = ", ".join(f"{name} {count}" for name, count in sorted(hit.items()))
                    rows.append(
                        {"kind": kind, "killed": hit.total(), "at": at, "seconds": f"{took:.1f}", "same": str(same)}
                    )
                    if out is not None:
                        written(rows, tuple(rows[0]), out)
                    print(f"{len(struck)} killed, {took:.1f} s, {same}", file=sys.stderr, flush=True)
        finally:
            over.set()
            thread.join()
    return rows


def told(result: Any) -> tuple[bytes, bytes, str]:
    """All that is compared: the solution, its standard errors and the table."""
    return result.x.tobytes(), result.uncertainty.standard_error.tobytes(), str(result.summary())


def table_of(runs: list[dict[str, Any]]) -> TextTable:
    """What was measured, for people."""
    alone = {(run["way"], run["kind"]): run["seconds"] for run in runs if "seconds" in run}
    rows = []
    for run in runs:
        if "why" in run:
            rows.append({"kind": run["kind"], "way": f"{run['way']}: {run['why']}"})
            continue
        rows.append(
            {
                "kind": run["kind"],
                "way": run["way"],
                "seconds": f"{run['seconds']:.3g}",
                "of processors": f"{run['cpu']:.3g}" if "cpu" in run else "",
                "times one process": f"{run['seconds'] / alone['one process', run['kind']]:.2f}",
                "passes": f"{run['passes']:.3g}" if "passes" in run else "",
                "tasks a pass": f"{run['tasks']:.0f}" if run.get("tasks") else "",
                "sent a pass": f"{run['out'] / 1e3:.0f} kB" if run.get("out") else "",
                "back a pass": f"{run['back'] / 1e3:.0f} kB" if run.get("back") else "",
                "memory": f"{run['memory'] / 1e6:.0f} MB",
                "off": f"{run['off']:.1e}" if run["off"] else "same bits",
            }
        )
    return TextTable(rows)


def kept(out: Path | None) -> list[dict[str, Any]]:
    """What the CSV file has."""
    return list(csv.DictReader(out.open(newline=""))) if out is not None and out.exists() else []


def written(runs: list[dict[str, Any]], names: tuple[str, ...], out: Path) -> None:
    """These columns of what was measured, in a CSV file."""
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(runs)


def report(given: argparse.Namespace) -> bool:
    """Measure all, print it, keep it; whether it is as good as it should be."""
    runs, kinds = [], given.kind
    for kind in kinds:
        exact = None
        for way in (*WAYS, *[RIVAL] * (not given.alone)):
            found = [measured(way, kind, given) for _ in range(1 if way == RIVAL else given.repeats)]
            run = min(found, key=lambda run: run.get("seconds", np.inf))
            if "x" in run:
                x = np.frombuffer(bytes.fromhex(run["x"]))
                exact = x if exact is None else exact
                run["off"] = np.abs(x - exact).max()
            runs.append(run)
            print(
                f"{kind}, {way}: {run.get('seconds', np.nan):.3g} s {run.get('why', '')}", file=sys.stderr, flush=True
            )
    print(table_of(runs))
    if given.out is not None:
        written([run for run in kept(given.out) if run["kind"] not in kinds] + runs, COLUMNS, given.out)
    fine = True
    for kind in kinds:
        took = {run["way"]: run["seconds"] for run in runs if run["kind"] == kind and "seconds" in run}
        overhead, speed_up = took["1 worker"] / took["one process"], took["1 worker"] / took["2 workers"]
        memory = max(run["memory"] for run in runs if run["kind"] == kind and run["way"] in WAYS)
        same = len({run["x"] for run in runs if run["kind"] == kind and run["way"] in WAYS}) == 1
        good = overhead <= MOST_OVERHEAD and speed_up >= LEAST_SPEED_UP and memory < MOST_MEMORY and same
        print(
            f"{kind}: one worker takes {overhead:.2f} times one process, two are {speed_up:.2f} times as fast as one, "
            f"memory {memory / 1e6:.0f} MB, {'the same bits' if same else 'OTHER BITS'}: {'yes' if good else 'NO'}"
        )
        fine = fine and good
    return fine


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=float, default=8.0)
    options.add_argument("--dim", type=int, default=32)
    options.add_argument("--folder", type=Path, default=Path("out/cluster"))
    options.add_argument("--kind", choices=list(KINDS), nargs="+", default=list(KINDS))
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--kills", type=int, default=0, help="instead: kill so many workers while fits go on")
    options.add_argument("--cold", action="store_true", help="from disk, which may limit; otherwise from the cache")
    options.add_argument("--alone", action="store_true", help="leave dask-ml out, which takes most of the time")
    options.add_argument("--python", default=sys.executable, help="one that has dask-ml")
    options.add_argument("--out", type=Path, help="CSV file for what was measured; of other kinds it keeps what it has")
    options.add_argument("--keep", action="store_true", help="leave the folder on disk; a later run uses it again")
    options.add_argument("--only", choices=WAYS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only:
        print(json.dumps(one(given.only, given.folder, given.kind[0])))
        return 0
    if not given.folder.exists():
        make_folder(given.folder, given.gigabytes, given.dim)
    try:
        if given.kills:
            rows = under_fire(given.folder, given.kills, given.out)
            print(TextTable(rows))
            same = all(row["same"] == "True" for row in rows)
            killed = f"{sum(int(row['killed']) for row in rows)} workers killed in {len(rows)} fits"
            print(f"{killed}: {'the same bits' if same else 'OTHER BITS'}")
            return 0 if same else 1
        return 0 if report(given) else 1
    finally:
        if not given.keep:
            shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
