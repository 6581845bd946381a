"""The same fit by one process and by workers of a Dask cluster on this machine, from one Parquet folder.

Time, memory of a worker, tasks, bytes sent, workers killed on the way, and dask-ml beside it (pip install dask-ml). The
folder is made once; each measurement runs in a process of its own, in turn. The one process and every worker have one
core each, on which they decode the files and add up the sums. What `docs/scale.md` reckons with goes to a CSV file.
Usage:
    python benchmarks/cluster.py --gigabytes 8 --out benchmarks/cluster.csv
    python benchmarks/cluster.py --kills 50 --gigabytes 1
    python benchmarks/cluster.py --sticky 30     (the methods of others on contiguous shards: benchmarks/sticky.py)
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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter
from scipy.special import expit

import multireplay as mr
from multireplay.show.text import TextTable

RHO = 0.95
FILE, GROUP = 2**28, 2**24
"""Bytes of a file and of a row group."""
MEMORY = "256 MB"
KINDS = {"linear": mr.GLM(), "logistic": mr.GLM("logistic")}
WAYS = ("one process", "1 worker", "2 workers", "1 worker, small tasks")
LONGEST = 1800
"""Seconds that a measurement may take."""
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


def cluster(workers: int, opened_: ExitStack) -> Any:
    """A client of so many workers of one thread each."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 20})
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1", "silence_logs": 50}
    made = opened_.enter_context(LocalCluster(n_workers=workers, **options))
    return opened_.enter_context(Client(made))


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


def peak() -> float:
    """The most memory that this process has had, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * float(line.split()[1])
    raise OSError("this system does not say how much memory a process has had")


def processor() -> float:
    """Seconds of a processor that this process has had."""
    return sum(os.times()[:2])


def warmed(kind: str) -> None:
    """A small fit, which loads compiled code, and the libraries that read: once in every process."""
    import pyarrow.parquet

    import multireplay.spread.record  # noqa: F401

    assert pyarrow.parquet
    features = np.random.default_rng(0).standard_normal((20_000, 4))
    mr.solve(KINDS[kind], mr.Buffer(features=features, targets=np.arange(20_000) % 2), threads=1)


def one(way: str, folder: Path, kind: str) -> dict[str, Any]:
    """Fit once, this way; what it took."""
    from multireplay.spread import record as spread_record
    from multireplay.spread import workers as spread_workers

    sent = {"tasks": 0, "out": 0, "back": 0}
    with ExitStack() as stack:
        client = None if way == "one process" else cluster(int(way.split()[0]), stack)
        warmed(kind)
        if client is None:
            os.sched_setaffinity(0, {0})
        else:
            client.run(warmed, kind)
            for core, address in enumerate(client.nthreads()):
                client.run(os.sched_setaffinity, 0, {core}, workers=[address])
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
        "way": way,
        "kind": kind,
        "seconds": seconds,
        "passes": result.passes,
        "memory": memory,
        "bytes": buffer.nbytes,
    }
    found["cpu"], passes = cpu, max(1.0, round(result.passes))
    return {**found, **{name: number / passes for name, number in sent.items()}, "x": result.x.tobytes().hex()}


def by_dask_ml(folder: Path, kind: str) -> dict[str, Any]:
    """dask-ml's estimator on the same folder, with two workers; where it cannot be run, why."""
    sys.path = [place for place in sys.path if Path(place) != Path(__file__).parent]  # where another sparse.py is
    try:
        import dask.dataframe as dd
        from dask_ml.linear_model import LinearRegression, LogisticRegression

        with ExitStack() as stack:
            client = cluster(2, stack)
            began = time.perf_counter()
            frame = dd.read_parquet(folder)
            names = list(frame.columns)
            whole = frame.to_dask_array(lengths=True)
            model = (LinearRegression if kind == "linear" else LogisticRegression)(C=1e12, fit_intercept=False)
            model.fit(whole[:, : len(names) - len(KINDS)], whole[:, names.index(kind)])
            seconds, memory = time.perf_counter() - began, max(client.run(peak).values())
    except Exception as error:  # whatever an old package raises with new ones
        return {"way": "dask-ml", "kind": kind, "why": f"{type(error).__name__}: {error}".splitlines()[0]}
    x = np.asarray(model.coef_, dtype=float).ravel()
    return {"way": "dask-ml", "kind": kind, "seconds": seconds, "memory": memory, "x": x.tobytes().hex()}


def measured(way: str, folder: Path, kind: str, cold: bool) -> dict[str, Any]:
    """`one` in a process of its own, from files that are all in the cache, or none of them."""
    for file in folder.iterdir():
        with file.open("rb", buffering=0) as opened_:
            if cold:
                os.posix_fadvise(opened_.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while not cold and opened_.read(2**24):
                pass
    command = [sys.executable, __file__, "--only", way, "--folder", str(folder), "--kind", kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return {"way": way, "kind": kind, "why": f"not done in {LONGEST / 60:.0f} minutes"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def under_fire(folder: Path, kills: int) -> list[dict[str, Any]]:
    """Fits on two workers, one of which is killed every second or so, until so many were; whether bits are as here."""
    here = {kind: mr.solve(problem, opened(folder, kind)).x.tobytes() for kind, problem in KINDS.items()}
    killed, over, rows = [], threading.Event(), []
    with ExitStack() as stack:
        client = cluster(2, stack)

        def kill() -> None:
            seen: set[int] = set()  # one that has just begun is let be: its nanny would give it up
            while not over.wait(random.uniform(1.0, 4.0)):
                try:
                    there = set(client.run(os.getpid).values())
                    if there & seen:
                        victim = random.choice(sorted(there & seen))
                        os.kill(victim, signal.SIGKILL)
                        killed.append(victim)
                    seen = there
                    client.cluster.scale(2)
                except (OSError, RuntimeError, ValueError):
                    continue  # it was gone already

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            while len(killed) < kills:
                for kind, problem in KINDS.items():
                    before, began = len(killed), time.perf_counter()
                    result = mr.solve(problem, opened(folder, kind), on=client)
                    result.summary()
                    same = result.x.tobytes() == here[kind]
                    took = f"{time.perf_counter() - began:.1f}"
                    rows.append({"kind": kind, "killed": len(killed) - before, "seconds": took, "same bits": same})
                    print(f"{len(killed)} killed, {took} s, {same}", file=sys.stderr, flush=True)
        finally:
            over.set()
            thread.join()
    return rows


def table_of(runs: list[dict[str, Any]]) -> TextTable:
    """What was measured, for people."""
    exact = {run["kind"]: run["x"] for run in runs if run["way"] == "one process"}
    alone = {(run["way"], run["kind"]): run["seconds"] for run in runs if "seconds" in run}
    rows = []
    for run in runs:
        if "why" in run:
            rows.append({"kind": run["kind"], "way": f"{run['way']}: {run['why']}"})
            continue
        x, fit = (np.frombuffer(bytes.fromhex(text)) for text in (run["x"], exact[run["kind"]]))
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
                "off": "same bits" if run["x"] == exact[run["kind"]] else f"{np.abs(x - fit).max():.1e}",
            }
        )
    return TextTable(rows)


def report(folder: Path, kinds: list[str], given: argparse.Namespace) -> bool:
    """Measure all, print it, keep it; whether it is as good as it should be."""
    runs = []
    for kind in kinds:
        for way in (*WAYS, *["dask-ml"] * (not given.alone)):
            found = [measured(way, folder, kind, given.cold) for _ in range(given.repeats)]
            runs.append(min(found, key=lambda run: run.get("seconds", np.inf)))
            print(f"{kind}, {way}: {runs[-1].get('seconds', np.nan):.3g} s", file=sys.stderr)
    print(table_of(runs))
    if given.out is not None:
        names = ("kind", "way", "bytes", "passes", "tasks", "out", "back", "memory", "cpu", "seconds", "why")
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(runs)
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
    options.add_argument("--sticky", type=int, default=0, help="instead: so many seeds of records cut into shards")
    options.add_argument("--cold", action="store_true", help="from disk, which may limit; otherwise from the cache")
    options.add_argument("--alone", action="store_true", help="leave dask-ml out, which takes most of the time")
    options.add_argument("--out", type=Path, help="CSV file for what was measured")
    options.add_argument("--keep", action="store_true", help="leave the folder on disk; a later run uses it again")
    options.add_argument("--only", choices=[*WAYS, "dask-ml"], help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only:
        kind = given.kind[0]
        found = by_dask_ml(given.folder, kind) if given.only == "dask-ml" else one(given.only, given.folder, kind)
        print(json.dumps(found))
        return 0
    if given.sticky:
        from sticky import report as on_shards

        return on_shards(given.sticky)
    if not given.folder.exists():
        make_folder(given.folder, given.gigabytes, given.dim)
    try:
        if given.kills:
            rows = under_fire(given.folder, given.kills)
            print(TextTable(rows))
            same = all(row["same bits"] for row in rows)
            killed = f"{sum(row['killed'] for row in rows)} workers killed in {len(rows)} fits"
            print(f"{killed}: {'the same bits' if same else 'OTHER BITS'}")
            return 0 if same else 1
        return 0 if report(given.folder, given.kind, given) else 1
    finally:
        if not given.keep:
            shutil.rmtree(given.folder)


if __name__ == "__main__":
    sys.exit(main())
