"""A Dask cluster on this machine, a core for every worker, and what its processes took.

Used by benchmarks/cluster.py and, with a Python of its own, by benchmarks/cluster_dask_ml.py.
Usage: python benchmarks/cluster_local.py starts one and prints what an idle worker takes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any


def cluster(workers: int, opened: ExitStack) -> Any:
    """A client of so many workers of one thread each."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 20})
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1", "silence_logs": 50}
    made = opened.enter_context(LocalCluster(n_workers=workers, **options))
    return opened.enter_context(Client(made))


def pinned(client: Any) -> None:
    """Give every worker a core of its own: its threads share that one, as the one process has one."""
    for core, address in enumerate(client.nthreads()):
        client.run(os.sched_setaffinity, 0, {core % (os.cpu_count() or 1)}, workers=[address])


def peak() -> float:
    """The most memory that this process has had, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * float(line.split()[1])
    raise OSError("this system does not say how much memory a process has had")


def processor() -> float:
    """Seconds of a processor that this process has had."""
    return sum(os.times()[:2])


def main() -> None:
    with ExitStack() as stack:
        client = cluster(1, stack)
        print(f"{max(client.run(peak).values()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
