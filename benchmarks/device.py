"""Logistic regression in lanes on NumPy, PyTorch on the CPU and PyTorch on a GPU: rows a second, and how right it is.

One epoch of all phases of a gap is one pass over the record: B/T chains of T steps each, side by side. For each T the
table has the median time of several passes after one that does not count, in rows a second and as a multiple of the
time to read the features there (their sum), and the distance of the averaged answer to the solution that the data were
simulated from. The last rows of each place are ``mr.solve(problem, buffer)`` as it comes, with the passes it took.

Usage: python benchmarks/device.py [--dims 16 100 1000] [--rows 10000000] [--numbers 1000000000] [--repeats 5]
       [--depths 6 8 10 12] [--places numpy "torch cpu" "torch cuda"] [--passes-only]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import multireplay as mr
from multireplay.replay import PlannedEpoch, Replay
from multireplay.show.text import TextTable

CORRELATION = 0.9
MEMORY = 256
"""Steps after which the correlation, 0.9^256, is below rounding."""


class OneScale(Replay):
    """Epoch k of multiscale replay with all phases, alone."""

    def __init__(self, k: int) -> None:
        self.k = k

    def _epochs(self, length: int) -> tuple[PlannedEpoch, ...]:
        return mr.Multiscale(epochs=self.k, phases="all").plan(length)[-1:]


def simulate(rows: int, dim: int, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Autoregressive features of variance 1, Bernoulli targets, and the solution, a random unit vector.

    Σ φ^s e_{t−s} over 2^n terms is worked out by doubling: n sums of the series and itself, moved by 1, 2, 4, ….
    """
    generator = torch.Generator(device).manual_seed(0)
    options: dict[str, Any] = {"generator": generator, "device": device, "dtype": torch.float64}
    solution = torch.randn(dim, **options)
    solution /= torch.linalg.vector_norm(solution)
    series = torch.randn(rows + MEMORY, dim, **options) * (1 - CORRELATION**2) ** 0.5
    lag = 1
    while lag < MEMORY:
        for column in torch.split(series, 64, dim=1):  # so that only a part of the series is there twice
            column[lag:] += CORRELATION**lag * column[:-lag].clone()
        lag *= 2
    features = series[MEMORY:]
    chances = torch.sigmoid(features @ solution)
    targets = (torch.rand(rows, **options) < chances).to(torch.float64)
    return features, targets, solution


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


def places(features: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[str, str, Any, Any]]:
    """The same record in every library, place and precision: library, type, features, targets."""
    for dtype in (torch.float64, torch.float32):
        name = str(dtype).removeprefix("torch.")
        here, there = features.to(dtype), targets.to(dtype)
        if here.is_cuda:
            yield "torch cuda", name, here, there
        here, there = here.cpu(), there.cpu()
        yield "torch cpu", name, here, there
        yield "numpy", name, here.numpy(), there.numpy()


def measure(features: Any, targets: Any, solution: Any, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The rows of the table for one place."""
    repeats = options.repeats
    problem, buffer = mr.GLM("logistic"), mr.Buffer(features=features, targets=targets)
    rows, dim = features.shape
    reading = median_time(features.sum, repeats)
    yield {
        "what": "reading",
        "seconds": f"{reading:.4g}",
        "rows/s": f"{rows / reading:.3g}",
        "GB/s": f"{rows * dim * features.itemsize / reading / 1e9:.0f}",
    }

    def line(what: str, lanes: object, result: mr.Result, seconds: float) -> dict[str, object]:
        return {
            "what": what,
            "lanes": lanes,
            "seconds": f"{seconds:.4g}",
            "rows/s": f"{rows * result.passes / seconds:.3g}",
            "× reading": f"{seconds / result.passes / reading:.1f}",
            "‖x − x*‖": f"{sum((result.x - solution) ** 2) ** 0.5:.4f}",
            "diverged": "" if result.status.ok else "yes",
        }

    for k in (k for k in options.depths if 2**k <= rows):
        step = 2 / dim  # half of 1/L: L is about dim/4 for features of variance 1
        runs = [mr.solve(problem, buffer, replay=OneScale(k), step=step, backend="batched") for _ in range(repeats + 1)]
        seconds = statistics.median(run.seconds for run in runs[1:])
        yield line(f"T = {2**k}", rows >> k, runs[-1], seconds)
    if options.passes_only:
        return
    default = [mr.solve(problem, buffer, backend="batched") for _ in range(2)][-1]
    yield line(f"solve, {default.passes:.3g} passes", "", default, default.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[16, 100, 1000], help="numbers of features")
    parser.add_argument("--rows", type=int, default=10**7, help="rows of the record, at most")
    parser.add_argument("--numbers", type=int, default=10**9, help="rows times features, at most")
    parser.add_argument("--depths", type=int, nargs="+", default=[6, 8, 10, 12], help="log2 of the steps of a chain")
    parser.add_argument("--repeats", type=int, default=5, help="timed passes, of which the median is shown")
    parser.add_argument("--places", nargs="+", default=["numpy", "torch cpu", "torch cuda"], help="where to run")
    parser.add_argument("--passes-only", action="store_true", help="leave out mr.solve(problem, buffer) as it comes")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    what = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    print(f"torch {torch.__version__}, {what}, {torch.get_num_threads()} CPU threads")
    for dim in options.dims:
        rows = min(options.rows, options.numbers // dim)
        features, targets, solution = simulate(rows, dim, device)
        table = []
        for place, dtype, A, y in places(features, targets):
            if place in options.places:
                for line in measure(A, y, solution.cpu().numpy(), options):
                    table.append({"where": place, "type": dtype, **line})
                    print(table[-1], flush=True)  # a run that is cut short has still said something
            del A, y
        print(TextTable(table, title=f"d = {dim}, {rows} rows"), flush=True)


if __name__ == "__main__":
    main()
