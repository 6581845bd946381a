"""Policy evaluation with 1000 features: one pass side by side against LSTD, in time and in error, over several seeds.

The process is a vector autoregression whose value function is linear in the state and known, so that errors are
distances to the truth, in the norm of the stationary predictions. Usage: python benchmarks/wide.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.signal import lfilter

import multireplay as mr
from multireplay.text import TextTable

DIM, ROWS, CORRELATION, GAMMA = 1000, 150_000, 0.99, 0.5


def trajectory(seed: int) -> tuple[mr.Buffer, np.ndarray]:
    """s' = φs + noise by coordinate, r = ⟨w, s⟩ + noise that is as dependent: the value is ⟨w/(1 − γφ), s⟩."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - CORRELATION**2) * rng.standard_normal((ROWS + 1, DIM))
    states = lfilter([1.0], [1.0, -CORRELATION], noise, axis=0)
    weights = rng.standard_normal(DIM) / np.sqrt(DIM)
    shocks = np.sqrt(1 - CORRELATION**2) * rng.standard_normal(ROWS)
    rewards = states[:-1] @ weights + lfilter([1.0], [1.0, -CORRELATION], shocks)
    buffer = mr.Buffer(features=states[:-1], next_features=states[1:], rewards=rewards)
    return buffer, weights / (1 - GAMMA * CORRELATION)


def main(seeds: int) -> None:
    problem = mr.PolicyEvaluation(GAMMA)
    jobs = {
        "LSTD": lambda buffer: problem.fit_exactly(buffer),
        "one pass side by side": lambda buffer: (
            mr.solve(problem, buffer, replay=mr.Interleaved(16), step=0.5 / DIM, average=0.5).x
        ),
        "mr.solve": lambda buffer: mr.solve(problem, buffer).x,
    }
    jobs["one pass side by side"](trajectory(10**6)[0][:4096])  # compiles
    errors: dict[str, list[float]] = {name: [] for name in jobs}
    times = dict.fromkeys(jobs, float("inf"))
    for seed in range(seeds):
        buffer, truth = trajectory(seed)
        for name, job in jobs.items():
            began = time.perf_counter()
            x = job(buffer)
            times[name] = min(times[name], time.perf_counter() - began)
            errors[name].append(float(np.sum((x - truth) ** 2)))
    exact = np.array(errors["LSTD"])
    rows = []
    for name, found in errors.items():
        ratios = np.array(found) / exact
        spread = ratios.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
        faster = f"{times['LSTD'] / times[name]:.1f}"
        rows.append(
            {"method": name, "LSTD's time / its": faster, "error / LSTD's": f"{ratios.mean():.3f} ± {spread:.3f}"}
        )
    print(TextTable(rows, title=f"d = {DIM}, {ROWS} steps, {seeds} seeds"))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5)
    main(options.parse_args().seeds)
