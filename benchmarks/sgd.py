"""One pass of logistic regression: multireplay against scikit-learn's SGD on the same rows in memory.

Prints ratios of times measured in one run, interleaved, best of several; and the start-up time of a new process.
Usage: python benchmarks/sgd.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import SGDClassifier

import multireplay as mr
from multireplay.text import TextTable

REPEATS = 15
VALUES = 2**24  # numbers in the feature matrix

FIRST_CALL = """
import time
import numpy as np
import multireplay as mr
A = np.random.default_rng(0).standard_normal((1000, 16))
buffer = mr.Buffer(features=A, next_features=A, rewards=A[:, 0], targets=A[:, 0] > 0)
for problem in (mr.PolicyEvaluation(0.9), mr.GLM("logistic")):
    began = time.perf_counter()
    mr.solve(problem, buffer)
    print(f"{time.perf_counter() - began:.3f}")
"""


def best_times(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Shortest time of each job, the jobs taking turns so that a busy moment hits all of them."""
    times = dict.fromkeys(jobs, float("inf"))
    for _ in range(REPEATS):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            times[name] = min(times[name], time.perf_counter() - began)
    return times


def compare(dim: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    rows = VALUES // dim
    A = rng.standard_normal((rows, dim))
    y = (rng.random(rows) < 1 / (1 + np.exp(-A[:, 0]))).astype(np.float64)
    buffer = mr.Buffer(features=A, targets=y)
    step = 0.5 / dim
    rival = SGDClassifier(
        loss="log_loss", penalty=None, learning_rate="constant", eta0=step, max_iter=1, tol=None, average=True,
        fit_intercept=False,
    )  # fmt: skip
    jobs: dict[str, Callable[[], object]] = {
        "read": A.sum,
        "serial": lambda: mr.solve(mr.GLM("logistic"), buffer, replay=mr.Serial(), step=step, average="full"),
        "dyadic": lambda: mr.solve(mr.GLM("logistic"), buffer, replay=mr.Dyadic(), step=step, average="full"),
        "unshuffled": lambda: rival.set_params(shuffle=False).fit(A, y),
        "shuffled": lambda: rival.set_params(shuffle=True).fit(A, y),
    }
    times = best_times(jobs)
    return {
        "d": dim,
        "rows": rows,
        "our serial / reading": f"{times['serial'] / times['read']:.1f}",
        "our dyadic / reading": f"{times['dyadic'] / times['read']:.1f}",
        "sklearn in order / our serial": f"{times['unshuffled'] / times['serial']:.1f}",
        "sklearn shuffled / our dyadic": f"{times['shuffled'] / times['dyadic']:.1f}",
    }


def first_calls() -> list[str]:
    """Seconds of the first call of a built-in problem in a new process, once the disk cache is warm."""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    title = "Logistic regression, one pass, averaged: ratios of times (float64, one thread)"
    print(TextTable([compare(dim) for dim in (16, 100, 1000)], title=title))
    evaluation, logistic = first_calls()
    print(f"First call in a new process, cached: policy evaluation {evaluation} s, then logistic {logistic} s")
