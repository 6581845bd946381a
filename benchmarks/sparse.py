"""Logistic regression on sparse rows: time by the number of features at 20 nonzeros a row, ours and scikit-learn's.

Prints ratios of times measured in one run, interleaved, best of several. A cost of O(nonzeros) shows as ratios to
1000 features that stay near 1, up to what memory takes once x no longer fits a cache.
Usage: python benchmarks/sparse.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse
from sklearn.linear_model import SGDClassifier
from speed import best_times

import multireplay as mr
from multireplay.show.text import TextTable

NONZEROS = 20
ROWS = 2**19


def record(dim: int) -> tuple[scipy.sparse.csr_array, np.ndarray]:
    """Rows with 20 nonzeros at random places, and targets."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, dim, (ROWS, NONZEROS), dtype=np.int32).ravel()
    data = rng.standard_normal(ROWS * NONZEROS)
    A = scipy.sparse.csr_array((data, places, NONZEROS * np.arange(ROWS + 1, dtype=np.int32)), shape=(ROWS, dim))
    A.sum_duplicates()
    return A, (rng.random(ROWS) < 0.5).astype(np.float64)


def compare(dims: tuple[int, ...]) -> list[dict[str, object]]:
    """One row a number of features; all jobs take turns."""
    problem, reduced = mr.GLM("logistic"), mr.VarianceReduced(rounds=1, precondition=None)
    step = 0.5 / NONZEROS
    options = {"step": step, "average": "full", "holdout": None}
    jobs: dict[str, Callable[[], object]] = {}
    for dim in dims:
        A, y = record(dim)
        buffer = mr.Buffer(features=A, targets=y)
        rival = SGDClassifier(
            loss="log_loss", penalty=None, learning_rate="constant", eta0=step, max_iter=1, tol=None, average=True,
            fit_intercept=False,
        )  # fmt: skip
        jobs[f"serial {dim}"] = lambda b=buffer: mr.solve(problem, b, replay=mr.Serial(), **options)
        jobs[f"dyadic {dim}"] = lambda b=buffer: mr.solve(problem, b, replay=mr.Dyadic(), **options)
        jobs[f"reduced {dim}"] = lambda b=buffer: mr.solve(problem, b, update=reduced, **options)
        jobs[f"unshuffled {dim}"] = lambda r=rival, A=A, y=y: r.set_params(shuffle=False).fit(A, y)
        jobs[f"shuffled {dim}"] = lambda r=rival, A=A, y=y: r.set_params(shuffle=True).fit(A, y)
    times = best_times(jobs, 3)
    first = dims[0]
    return [
        {
            "d": dim,
            "ns a step, serial": f"{1e9 * times[f'serial {dim}'] / ROWS:.0f}",
            f"serial / d = {first}": f"{times[f'serial {dim}'] / times[f'serial {first}']:.1f}",
            f"dyadic / d = {first}": f"{times[f'dyadic {dim}'] / times[f'dyadic {first}']:.1f}",
            f"one round / d = {first}": f"{times[f'reduced {dim}'] / times[f'reduced {first}']:.1f}",
            "sklearn in order / our serial": f"{times[f'unshuffled {dim}'] / times[f'serial {dim}']:.1f}",
            "sklearn shuffled / our dyadic": f"{times[f'shuffled {dim}'] / times[f'dyadic {dim}']:.1f}",
        }
        for dim in dims
    ]


if __name__ == "__main__":
    title = f"Sparse logistic regression, {ROWS} rows of {NONZEROS} nonzeros, one pass, averaged (float64, one thread)"
    print(TextTable(compare((1000, 10_000, 100_000, 1_000_000)), title=title))
