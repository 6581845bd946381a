"""What mr.solve takes on a GPU, in readings of the data, beside exact fits and L-BFGS in plain PyTorch.

For every number of features, type and problem (logistic regression; policy evaluation on one trajectory, whose rows are
features and next features) the table has the median time of several runs after one that does not count, in seconds and
as a multiple of the time to read the features there (their sum):

- ``mr.solve(problem, buffer)`` as it comes, standard errors included, and its parts: the coarse epoch and one pass;
- what these are made of: scores, sums over batches, the coarse rows, their matrix and its inverse;
- the exact fit in PyTorch: LSTD from all rows, or Newton steps with the matrix of all rows, in float32 and in float64;
- for logistic regression ``torch.optim.LBFGS`` on all rows, with its gradient by hand.

`off` is the distance of the worst coordinate to the exact fit in float64, in standard errors; rivals end where it is
below 0.1. "as on the CPU" is how far the answer on a part of the record is from that on NumPy arrays, both at tolerance
0.001. Without a GPU the same is run on the CPU, for which --gigabytes should be small. All lines are written to
device.csv in $OUT, or in out/.

Usage: python benchmarks/device.py [--dims 100 500 1000] [--gigabytes 8] [--types float32 float64] [--repeats 5]
       [--problems logistic evaluation] [--part 200000]
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import multireplay as mr
from multireplay.buffer import foreign
from multireplay.engine.sums import batch_bounds, operator_batches
from multireplay.show.text import TextTable
from multireplay.updates.coarse import coarse_fit, coarse_rows

CORRELATION = 0.9
MEMORY = 256
"""Steps after which the correlation, 0.9^256, is below rounding."""
GAMMA = 0.9
CLOSE = 0.1
CHUNK = 2**28
"""Bytes of rows that are brought to another type at a time."""


class Data(NamedTuple):
    """One trajectory of features, with a target and a reward for each of its rows but the last."""

    trajectory: torch.Tensor
    targets: torch.Tensor
    rewards: torch.Tensor

    @property
    def features(self) -> torch.Tensor:
        return self.trajectory[:-1]

    def first(self, rows: int) -> Data:
        """The first rows."""
        return Data(self.trajectory[: rows + 1], self.targets[:rows], self.rewards[:rows])

    def on_cpu(self) -> Data:
        return Data(*(column.cpu() for column in self))

    def buffer(self, problem: str, numpy: bool = False) -> mr.Buffer:
        """The columns that the problem reads, in NumPy or where they are."""
        if problem == "logistic":
            columns = {"features": self.features, "targets": self.targets}
        else:
            columns = {"features": self.features, "next_features": self.trajectory[1:], "rewards": self.rewards}
        return mr.Buffer(**{name: column.numpy() if numpy else column for name, column in columns.items()})


PROBLEMS = {"logistic": mr.GLM("logistic"), "evaluation": mr.PolicyEvaluation(GAMMA)}


def simulate(rows: int, dim: int, device: str, dtype: torch.dtype) -> Data:
    """Autoregressive features of variance 1, Bernoulli targets, and rewards with noise.

    Σ φ^s e_{t−s} over 2^n terms is worked out by doubling: n sums of the series and itself, moved by 1, 2, 4, ….
    """
    generator = torch.Generator(device).manual_seed(0)
    options: dict[str, Any] = {"generator": generator, "device": device, "dtype": dtype}
    weights = torch.randn(dim, **options)
    weights /= torch.linalg.vector_norm(weights)
    series = torch.randn(rows + 1 + MEMORY, dim, **options) * (1 - CORRELATION**2) ** 0.5
    lag = 1
    while lag < MEMORY:
        for column in torch.split(series, 16, dim=1):  # so that only a part of the series is there twice
            column[lag:] += CORRELATION**lag * column[:-lag].clone()
        lag *= 2
    trajectory = series[MEMORY:]
    scores = trajectory[:-1] @ weights
    targets = (torch.rand(rows, **options) < torch.sigmoid(scores)).to(dtype)
    return Data(trajectory, targets, scores + torch.randn(rows, **options))


def finish() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def median_time(job: Callable[[], object], repeats: int) -> float:
    """Median seconds of the job, the GPU's work included, after one run that does not count."""
    times = []
    for _ in range(repeats + 1):
        finish()
        began = time.perf_counter()
        job()
        finish()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def chunks(data: Data, dtype: torch.dtype) -> Iterator[Data]:
    """The rows in that type: all at once where they are of it, otherwise in chunks."""
    rows = len(data.targets)
    size = rows if data.trajectory.dtype == dtype else max(1, CHUNK // (8 * data.trajectory.shape[1]))
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        yield Data(
            data.trajectory[start : stop + 1].to(dtype), data.targets[start:stop].to(dtype),
            data.rewards[start:stop].to(dtype),
        )  # fmt: skip


def lstd(data: Data, dtype: torch.dtype) -> torch.Tensor:
    """The exact fit of policy evaluation, from the moments of all rows in that type."""
    matrix: Any = 0.0
    vector: Any = 0.0
    for part in chunks(data, dtype):
        now, then = part.features, part.trajectory[1:]
        matrix = matrix + now.T @ (now - GAMMA * then)
        vector = vector + part.rewards @ now
    return torch.linalg.solve(matrix, vector)


def newton_step(data: Data, x: torch.Tensor) -> torch.Tensor:
    """A Newton step of logistic regression, with the matrix of all rows in the type of x."""
    matrix: Any = 0.0
    gradient: Any = 0.0
    for part in chunks(data, x.dtype):
        chances = torch.sigmoid(part.features @ x)
        gradient = gradient + (chances - part.targets) @ part.features
        half = part.features * torch.sqrt(chances * (1 - chances))[:, None]
        matrix = matrix + half.T @ half
    return x - torch.linalg.solve(matrix, gradient)


def newton(data: Data, dtype: torch.dtype, steps: int) -> torch.Tensor:
    """So many Newton steps from 0."""
    x = torch.zeros(data.trajectory.shape[1], dtype=dtype, device=data.trajectory.device)
    for _ in range(steps):
        x = newton_step(data, x)
    return x


def lbfgs(data: Data, steps: int) -> torch.Tensor:
    """So many iterations of PyTorch's L-BFGS on the mean loss of logistic regression, from 0."""
    features, targets = data.features, data.targets
    x = torch.zeros(features.shape[1], dtype=features.dtype, device=features.device)
    optimizer = torch.optim.LBFGS(
        [x], max_iter=steps, max_eval=10 * steps, history_size=20, tolerance_grad=0.0, tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> torch.Tensor:
        scores = features @ x
        x.grad = (torch.sigmoid(scores) - targets) @ features / len(targets)
        return (torch.nn.functional.softplus(scores) - targets * scores).mean()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return x


def to_accuracy(fit: Callable[[int], torch.Tensor], off: Callable[[torch.Tensor], float], most: int) -> int:
    """The fewest steps after which a fit is close enough; `most` if there is none."""
    return next((steps for steps in range(1, most) if off(fit(steps)) <= CLOSE), most)


def parts_of(data: Data, x: torch.Tensor, count: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a pass, and a coarse epoch of so many rows, are made of."""
    features, dim = data.features, data.trajectory.shape[1]
    bounds = batch_bounds(len(features), dim)
    residuals = features @ x
    index = torch.arange(0, len(features), max(1, len(features) // count), device=features.device)
    some = features[index].to(torch.float32)
    matrix = some.T @ some / len(some)
    yield "scores", lambda: features @ x
    yield "sums over batches", lambda: foreign.stretch_sums(residuals, features, bounds)
    yield f"{len(index)} rows taken", lambda: features[index].to(torch.float32)
    yield "their matrix", lambda: some.T @ some
    yield "its inverse", lambda: torch.linalg.inv(matrix)


def measure(data: Data, name: str, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The lines of the table for one problem."""
    problem, buffer, repeats = PROBLEMS[name], data.buffer(name), options.repeats
    rows, dim = data.features.shape
    reading = median_time(data.trajectory.sum, repeats)
    exact = (newton(data, torch.float64, 8) if name == "logistic" else lstd(data, torch.float64)).cpu().numpy()
    result = mr.solve(problem, buffer, backend="batched")
    assert result.standard_error is not None

    def off(x: torch.Tensor | np.ndarray) -> float:
        there = x if isinstance(x, np.ndarray) else x.to(torch.float64).cpu().numpy()
        return float(np.nan_to_num(np.abs((there - exact) / result.standard_error).max(), nan=np.inf))

    def line(what: str, seconds: float, x: Any = None, note: str = "") -> dict[str, object]:
        return {
            "what": what,
            "seconds": f"{seconds:.3g}",
            "readings": f"{seconds / reading:.1f}",
            "off": "" if x is None else f"{off(x):.2g}",
            "note": note,
        }

    yield line("reading", reading, note=f"{data.trajectory.nbytes / reading / 1e9:.0f} GB/s")
    seconds = median_time(lambda: mr.solve(problem, buffer, backend="batched"), repeats)
    said = f"{result.run.route}, {result.passes:.3g} passes, {result.status.code}, says {result.distance:.2g}"
    yield line("mr.solve", seconds, result.x, said)
    record, x = result.run.record, result.x
    yield line(
        "  coarse epoch",
        median_time(lambda: coarse_fit(record, np.zeros(dim)), repeats),
        note=f"{coarse_rows(record)} rows",
    )
    yield line("  one pass", median_time(lambda: operator_batches(record, [x]), repeats))
    there = torch.as_tensor(x, dtype=data.trajectory.dtype, device=data.trajectory.device)
    for what, job in parts_of(data, there, coarse_rows(record)):
        yield line(f"    {what}", median_time(job, repeats))
    for dtype in {data.trajectory.dtype: 0, torch.float64: 0}:
        kind = str(dtype).removeprefix("torch.")
        if name == "evaluation":
            yield line(f"LSTD, {kind}", median_time(lambda t=dtype: lstd(data, t), repeats), lstd(data, dtype))
            continue
        steps = to_accuracy(lambda count, t=dtype: newton(data, t, count), off, 8)
        seconds = median_time(lambda t=dtype, count=steps: newton(data, t, count), repeats)
        yield line(f"Newton on all rows, {kind}", seconds, newton(data, dtype, steps), f"{steps} steps")
    if name == "logistic":
        steps = to_accuracy(lambda count: lbfgs(data, count), off, 40)
        seconds = median_time(lambda: lbfgs(data, steps), repeats)
        yield line("torch.optim.LBFGS", seconds, lbfgs(data, steps), f"{steps} steps")
    small = data.first(min(rows, options.part, 2 * 10**8 // dim))
    tight = mr.Newton(tolerance=0.001)
    one = mr.solve(problem, small.on_cpu().buffer(name, numpy=True), update=tight)
    other = mr.solve(problem, small.buffer(name), update=tight, backend="batched")
    assert one.standard_error is not None
    away = float(np.abs((one.x - other.x) / one.standard_error).max())
    yield {
        "what": "as on the CPU",
        "off": f"{away:.2g}",
        "note": f"{len(small.targets)} rows, {one.seconds:.2g} s there",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[100, 500, 1000], help="numbers of features")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="size of the features")
    parser.add_argument("--types", nargs="+", default=["float32", "float64"], help="their types")
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), help="what to solve")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs, of which the median is shown")
    parser.add_argument("--part", type=int, default=200_000, help="rows that are solved on the CPU too, at most")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else f"no GPU, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {where}", flush=True)
    folder = Path(os.environ.get("OUT", "out"))
    folder.mkdir(parents=True, exist_ok=True)
    names = ["d", "rows", "type", "problem", "what", "seconds", "readings", "off", "note"]
    with (folder / "device.csv").open("w", newline="") as opened, torch.no_grad():
        writer = csv.DictWriter(opened, names, restval="")
        writer.writeheader()
        for dim in options.dims:
            for kind in options.types:
                dtype = getattr(torch, kind)
                rows = int(options.gigabytes * 1e9 / dim / dtype.itemsize)
                data = simulate(rows, dim, device, dtype)
                for name in options.problems:
                    table = []
                    for line in measure(data, name, options):
                        table.append(line)
                        writer.writerow({"d": dim, "rows": rows, "type": kind, "problem": name, **line})
                        opened.flush()  # a run that is cut short has still said something
                    print(TextTable(table, title=f"d = {dim}, {rows} rows, {kind}, {name}"), flush=True)
                del data


if __name__ == "__main__":
    main()
