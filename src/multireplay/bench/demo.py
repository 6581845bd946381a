"""The main job in a minute: evaluate a policy from one trajectory, by every method at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from multireplay._check import Positions, Vector
from multireplay.bench import pictures
from multireplay.bench.figures import error_curve, exact_error, policy_evaluation
from multireplay.bench.methods.library import of_figures, skip
from multireplay.show.plotting import method_style
from multireplay.show.progress import step_bar
from multireplay.show.text import TextTable

LENGTH = 150_000
STEP = 0.5
AT = 1024
METHODS = of_figures(skip(5))
NOTES = (
    "MER has one point an epoch, each from a fresh start; its last epochs replay the record nearly in order, so its "
    "best epoch (known here only because the solution is) is not its last. Dyadic uses every sample once in MER's own "
    "order.",
    "LSTD solves a d × d system: where d is small and the data fit, use it.",
)


class DemoCurve(NamedTuple):
    """Iterations and mean normalized squared error of one method over the instances, with the standard error."""

    iterations: Positions
    mean: Vector
    error: Vector


def _at(length: int) -> Positions:
    grid = np.unique(np.append(np.geomspace(1, LENGTH, 60).astype(np.int64), [AT, LENGTH // 5]))
    return grid[grid <= length]


def run_demo(m: float = 0.9, instances: int = 20, seed: int = 0) -> tuple[dict[str, DemoCurve], float]:
    """Errors of every method on the paper's Markov reward process, and the mean error of LSTD."""
    curves: dict[str, list[Vector]] = {method.name: [] for method in METHODS}
    exact = []
    with step_bar(instances * (len(METHODS) + 1), "evaluating") as advance:
        for instance in range(instances):
            case = policy_evaluation(m, LENGTH, (seed, instance), instance)
            exact.append(exact_error(case, 0.0)[0])
            advance(1)
            for method in METHODS:
                curves[method.name].append(error_curve(case, method, STEP, _at, averaged=True)[:2])
                advance(1)
    summaries = {}
    for name, found in curves.items():
        iterations, errors = found[0][0].astype(np.int64), np.array([curve[1] for curve in found])
        spread = errors.std(axis=0, ddof=1) / np.sqrt(instances) if instances > 1 else np.zeros(len(iterations))
        summaries[name] = DemoCurve(iterations, errors.mean(axis=0), spread)
    return summaries, float(np.mean(exact))


def demo_table(summaries: Mapping[str, DemoCurve], lstd: float) -> TextTable:
    """One row a method: error early, at its end, and at its best."""
    rows: list[dict[str, str | int]] = []
    for name, (iterations, mean, error) in summaries.items():
        early, best = int(np.flatnonzero(iterations <= AT)[-1]), int(np.argmin(mean))
        rows.append({
            "method": name,
            f"after {AT} steps": f"{mean[early]:.1e} ± {error[early]:.0e}",
            "at its end": f"{mean[-1]:.1e} ± {error[-1]:.0e}",
            "best on the way": f"{mean[best]:.1e}",
            "(step)": int(iterations[best]),
            "end/LSTD": f"{mean[-1] / lstd:.1f}",
        })  # fmt: skip
    rows.append({"method": "LSTD (exact fit)", "at its end": f"{lstd:.1e}", "end/LSTD": "1.0"})
    return TextTable(rows, title="Squared error ‖θ − θ*‖²/‖θ*‖² of the averaged iterate (mean ± standard error)")


def draw_demo(summaries: Mapping[str, DemoCurve], lstd: float, m: float, instances: int, path: Path) -> None:
    """Error by iterations, log-log, with LSTD as a line."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    ax = figure.subplots()
    for name, (iterations, mean, error) in summaries.items():
        band = np.maximum(mean - 2 * error, 1e-12), mean + 2 * error
        pictures.curve(ax, (iterations, mean, band), name, method_style(name), alpha=0.15)
    ax.axhline(lstd, color="0.4", linestyle="--", label="LSTD (exact fit)")
    ax.set(xscale="log", yscale="log", xlabel="iterations", ylabel="normalized squared error")
    ax.set_title(f"Paper's Markov reward process, m = {m:g}, step {STEP:g}, {instances} trajectories of {LENGTH}")
    ax.set_ylim(lstd / 3, 2)
    ax.legend(frameon=False, ncols=2)
    pictures.save(figure, path)
