"""dask-ml's linear and logistic regression on the folder of benchmarks/cluster.py, by two workers.

It runs with a Python of its own, where dask-ml is installed and multireplay need not be, and says what it took as JSON.
Usage: python benchmarks/cluster_dask_ml.py out/cluster logistic
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from cluster_local import cluster, peak, pinned, processor


def fitted(folder: Path, kind: str) -> dict[str, Any]:
    """Seconds, memory of the larger worker, seconds of processors, and the coefficients."""
    import dask.dataframe as dd
    from dask_ml.linear_model import LinearRegression, LogisticRegression

    with ExitStack() as stack:
        client = cluster(2, stack)
        pinned(client)
        before, began = sum(client.run(processor).values()), time.perf_counter()
        frame = dd.read_parquet(folder)
        names = list(frame.columns)
        whole, width = frame.to_dask_array(lengths=True), sum(name.startswith("x") for name in names)
        model = (LinearRegression if kind == "linear" else LogisticRegression)(C=1e12, fit_intercept=False)
        model.fit(whole[:, :width], whole[:, names.index(kind)])
        seconds, memory = time.perf_counter() - began, max(client.run(peak).values())
        cpu = sum(client.run(processor).values()) - before
    x = np.asarray(model.coef_, dtype=float).ravel().tobytes().hex()
    return {"seconds": seconds, "memory": memory, "cpu": cpu, "x": x}


def main() -> None:
    here = Path(__file__).parent.resolve()
    sys.path.sort(key=lambda place: Path(place).resolve() == here)  # last, for there is another sparse.py
    try:
        found = fitted(Path(sys.argv[1]), sys.argv[2])
    except ModuleNotFoundError as error:
        found = {"why": f"not installed ({error.name})"}
    except Exception as error:  # whatever an old package raises with new ones
        found = {"why": f"{type(error).__name__}: {error}".splitlines()[0]}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
