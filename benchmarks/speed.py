"""One pass over a record in memory: multireplay against reading it, scikit-learn, River, PyTorch and the exact fit.

Prints ratios of times that were measured in one run, the jobs taking turns of 0.15 s or one call, the best of all.
Slow rivals are timed on a part of the rows and scaled up (they are linear in the rows); those ratios are marked with ~.
scikit-learn and River have no policy evaluation: in that table they regress the rewards on the features, and read one
row a step.
There the next features are the features one row on, as in a trajectory: a pass in order reads one row a step, and
one in scattered order two. "Two columns" has a column of next features of its own, and reads two rows a step in both.
Usage: python benchmarks/speed.py [--repeats 9] [--megabytes 256]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier, SGDRegressor
from threadpoolctl import threadpool_limits

import multireplay as mr
from multireplay.show.text import TextTable

DIMS = (16, 100, 1000)
SLICE = 2000
"""Rows on which a rival that takes microseconds a row is timed."""
TURN = 0.15
"""Seconds that a job has in every turn."""
SCATTERED = ("ours, dyadic", "ours, in order")
Job = Callable[[], object]

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


def best_times(jobs: dict[str, Job], repeats: int) -> dict[str, float]:
    """Shortest time of each job, the jobs taking turns of at least TURN seconds, so that a busy moment hits all."""
    times = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            over = time.perf_counter() + TURN
            while True:
                began = time.perf_counter()
                job()
                ended = time.perf_counter()
                times[name] = min(times[name], ended - began)
                if ended > over:
                    break
    return times


def orders(problem: mr.problems.Problem, buffer: mr.Buffer, step: float) -> dict[str, Job]:
    """Our own jobs: one averaged pass side by side on one and two threads, in dyadic order, and in order."""
    plain = {"step": step, "average": "full"}
    return {
        "ours, 1 thread": lambda: mr.solve(problem, buffer, replay=mr.Interleaved(), threads=1, **plain),
        "ours, 2 threads": lambda: mr.solve(problem, buffer, replay=mr.Interleaved(), threads=2, **plain),
        "ours, dyadic": lambda: mr.solve(problem, buffer, replay=mr.Dyadic(), **plain),
        "ours, in order": lambda: mr.solve(problem, buffer, replay=mr.Serial(), **plain),
        "mr.solve, all of it": lambda: mr.solve(problem, buffer),
    }


def single_threaded(job: Job) -> Job:
    def run() -> None:
        with threadpool_limits(1):
            job()

    return run


def river(model: Any, A: NDArray[np.float64], y: NDArray[np.float64]) -> Job:
    """River's loop over dictionaries, on some rows."""
    rows = [dict(enumerate(row)) for row in A[:SLICE].tolist()]
    targets = y[:SLICE].tolist()

    def run() -> None:
        for row, target in zip(rows, targets, strict=True):
            model.learn_one(row, target)

    return run


def torch_loop(residual: Callable[..., Any], columns: Sequence[NDArray[np.float64]], step: float) -> Job:
    """The same steps as a loop of tensor operations, on some rows; the features are the first column."""
    import torch

    tensors = [torch.from_numpy(column[:SLICE]) for column in columns]

    @torch.no_grad()
    def run() -> None:
        x = torch.zeros(columns[0].shape[1], dtype=torch.float64)
        total = torch.zeros_like(x)
        for row, *others in zip(*tensors, strict=True):
            x -= step * residual(x, row, *others) * row
            total += x

    return run


def scaled_times(jobs: dict[str, Job], rows: int) -> dict[str, float]:
    """The times of jobs on SLICE rows, for all of them."""
    return {name: seconds * rows / SLICE for name, seconds in best_times(jobs, 3).items()}


def regression(dim: int, megabytes: int, repeats: int) -> dict[str, str]:
    """Logistic regression."""
    import torch
    from river.linear_model import LogisticRegression
    from river.optim import SGD
    from sklearn.linear_model import LogisticRegression as MaximumLikelihood

    rng = np.random.default_rng(0)
    rows = megabytes * 2**20 // (8 * dim)
    A = rng.standard_normal((rows, dim))
    y = (rng.random(rows) < 1 / (1 + np.exp(-A[:, 0]))).astype(np.float64)
    buffer, step = mr.Buffer(features=A, targets=y), 0.5 / dim
    rival = SGDClassifier(
        loss="log_loss", penalty=None, learning_rate="constant", eta0=step, max_iter=1, tol=None, average=True,
        fit_intercept=False,
    )  # fmt: skip
    exact = MaximumLikelihood(C=np.inf, fit_intercept=False)
    jobs = {
        "read": A.sum,
        **orders(mr.GLM("logistic"), buffer, step),
        "scikit-learn, in order": lambda: rival.set_params(shuffle=False).fit(A, y),
        "scikit-learn, shuffled": lambda: rival.set_params(shuffle=True).fit(A, y),
    }
    slow = {
        "River": river(LogisticRegression(SGD(step)), A, y),
        "PyTorch loop": torch_loop(lambda x, a, target: torch.sigmoid(a @ x) - target, (A, y), step),
    }
    times = best_times(jobs, repeats) | scaled_times(slow, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times |= best_times({"L-BFGS": lambda: exact.fit(A, y)}, 1)
    return line("logistic regression", dim, rows, times, slow)


def evaluation(dim: int, megabytes: int, repeats: int) -> dict[str, str]:
    """Policy evaluation."""
    from river.linear_model import LinearRegression
    from river.optim import SGD

    rng = np.random.default_rng(0)
    rows = megabytes * 2**20 // (8 * dim)
    F = rng.standard_normal((rows + 1, dim))
    buffer = mr.Buffer(features=F[:-1], next_features=F[1:], rewards=F[:-1, 0].copy())
    apart = mr.Buffer(features=F[:-1], next_features=F[1:].copy(), rewards=buffer["rewards"])
    problem, step = mr.PolicyEvaluation(0.9), 0.5 / dim
    own = {f"{name}, two columns": job for name, job in orders(problem, apart, step).items() if name in SCATTERED}
    regressor = SGDRegressor(
        penalty=None, learning_rate="constant", eta0=step, max_iter=1, tol=None, average=True, fit_intercept=False,
    )  # fmt: skip
    gamma, rewards = problem.gamma, buffer["rewards"]
    slow = {
        "River": river(LinearRegression(SGD(step)), F, rewards),
        "PyTorch loop": torch_loop(
            lambda x, now, then, reward: (now - gamma * then) @ x - reward, (F[:-1], F[1:], rewards), step
        ),
    }
    jobs = {
        "read": F.sum,
        **orders(problem, buffer, step),
        **own,
        "scikit-learn, in order": lambda: regressor.set_params(shuffle=False).fit(F[:-1], rewards),
        "scikit-learn, shuffled": lambda: regressor.set_params(shuffle=True).fit(F[:-1], rewards),
        "LSTD": lambda: problem.fit_exactly(buffer),
    }
    return line("policy evaluation", dim, rows, best_times(jobs, repeats) | scaled_times(slow, rows), slow)


def line(kind: str, dim: int, rows: int, times: dict[str, float], scaled: dict[str, Job]) -> dict[str, str]:
    """Every time over the time to read the rows once on one thread."""
    read = times.pop("read")
    ratios = {
        name: ("~" if name in scaled else "") + f"{seconds / read:.{2 if seconds < 9.5 * read else 0}f}"
        for name, seconds in times.items()
    }
    dyadic, in_order = SCATTERED
    scattered = {
        f"dyadic / in order{which}": f"{times[dyadic + which] / times[in_order + which]:.2f}"
        for which in ("", ", two columns")
        if dyadic + which in times
    }
    best = times["ours, 2 threads"]
    beaten = {
        f"{name} / ours": f"{times[name] / best:.1f}"
        for name in ("scikit-learn, in order", "scikit-learn, shuffled", "LSTD", "L-BFGS")
        if name in times
    }
    return {"problem": kind, "d": str(dim), "rows": str(rows), **ratios, **scattered, **beaten}


def transposed(lines: list[dict[str, str]]) -> TextTable:
    """One column a problem and dimension, which fits a page."""
    names = list(dict.fromkeys(name for found in lines for name in found if name not in ("problem", "d")))
    rows = [
        {"time / reading once": name, **{f"d = {found['d']}": found.get(name, "") for found in lines}} for name in names
    ]
    return TextTable(rows, title=f"{lines[0]['problem']}: times over that of reading the rows once, one thread")


def first_calls() -> list[str]:
    """Seconds of the first call of a built-in problem in a new process, once the disk cache is warm."""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=9)
    options.add_argument("--megabytes", type=int, default=256, help="size of the features")
    given = options.parse_args()
    for measure in (regression, evaluation):
        print(transposed([measure(dim, given.megabytes, given.repeats) for dim in DIMS]), flush=True)
    first, second = first_calls()
    print(f"First call in a new process, cached: policy evaluation {first} s, then logistic {second} s")
