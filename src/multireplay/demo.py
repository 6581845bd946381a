"""The main job in a minute: evaluate a policy from one trajectory, by every method at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multireplay.reproduce.methods import MER, all_methods, skip
from multireplay.show import plotting
from multireplay.show.progress import step_bar
from multireplay.show.text import TextTable
from multireplay.simulate import paper_mrp
from multireplay.solve import solve
from multireplay.tracking import Track

LENGTH = 150_000
STEP = 0.5
AT = 1024


METHODS = all_methods(skip(5))


@dataclass(frozen=True)
class Summary:
    """Iterations and mean normalized squared error of one method over the instances, with the standard error."""

    iterations: NDArray[np.int64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]


def run_demo(m: float = 0.9, instances: int = 20, seed: int = 0) -> tuple[dict[str, Summary], float]:
    """Errors of every method on the paper's Markov reward process, and the mean error of LSTD."""
    process = paper_mrp(m)
    scale = float(process.solution @ process.solution)
    grid = np.unique(np.append(np.geomspace(1, LENGTH, 60).astype(np.int64), [AT, LENGTH // 5]))
    track = Track(process.solution, at=grid)
    curves: dict[str, list[NDArray[np.float64]]] = {method.name: [] for method in METHODS}
    iterations: dict[str, NDArray[np.int64]] = {}
    exact = []
    with step_bar(instances * (len(METHODS) + 1), "evaluating") as advance:
        for instance in range(instances):
            record = process.buffer(LENGTH, seed=(seed, instance, 0))
            fresh = process.independent_buffer(LENGTH, seed=(seed, instance, 1))
            exact.append(np.sum((process.problem.fit_exactly(record) - process.solution) ** 2) / scale)
            advance(1)
            for method in METHODS:
                data = fresh if method.independent else record
                multiscale = method is MER
                wanted = Track(process.solution, at="end") if multiscale else track
                result = solve(
                    process.problem, data, replay=method.replay(instance), step=STEP, average="full", track=wanted
                )
                found = [epoch.curve for epoch in result.epochs if epoch.curve is not None]
                if multiscale:  # one point an epoch: its averaged output
                    iterations[method.name] = np.array([curve.iterations[-1] for curve in found])
                    curves[method.name].append(np.array([curve.average[-1] for curve in found]) / scale)
                else:
                    iterations[method.name] = found[0].iterations
                    curves[method.name].append(found[0].average / scale)
                advance(1)
    summaries = {}
    for name, values in curves.items():
        stacked = np.array(values)
        error = stacked.std(axis=0, ddof=1) / np.sqrt(len(stacked)) if len(stacked) > 1 else np.zeros(stacked.shape[1])
        summaries[name] = Summary(iterations[name], stacked.mean(axis=0), error)
    return summaries, float(np.mean(exact))


def demo_table(summaries: dict[str, Summary], lstd: float) -> TextTable:
    """One row a method: error early, at its end, and at its best."""
    rows = []
    for name, summary in summaries.items():
        early = int(np.flatnonzero(summary.iterations <= AT)[-1])
        best = int(np.argmin(summary.mean))
        rows.append(
            {
                "method": name,
                f"after {AT} steps": f"{summary.mean[early]:.1e} ± {summary.error[early]:.0e}",
                "at its end": f"{summary.mean[-1]:.1e} ± {summary.error[-1]:.0e}",
                "best on the way": f"{summary.mean[best]:.1e}",
                "(step)": int(summary.iterations[best]),
                "end/LSTD": f"{summary.mean[-1] / lstd:.1f}",
            }
        )
    rows.append({"method": "LSTD (exact fit)", "at its end": f"{lstd:.1e}", "end/LSTD": "1.0"})
    return TextTable(rows, title="Squared error ‖θ − θ*‖²/‖θ*‖² of the averaged iterate (mean ± standard error)")


def draw_demo(summaries: dict[str, Summary], lstd: float, m: float, instances: int, path: Path) -> None:
    """Error by iterations, log-log, with LSTD as a line."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    for method in METHODS:
        summary = summaries[method.name]
        style = plotting.method_style(method.name)
        ax.plot(summary.iterations, summary.mean, label=method.name, **style)
        ax.fill_between(
            summary.iterations,
            np.maximum(summary.mean - 2 * summary.error, 1e-12),
            summary.mean + 2 * summary.error,
            color=style["color"],
            alpha=0.15,
            linewidth=0,
        )
    ax.axhline(lstd, color="0.4", linestyle="--", label="LSTD (exact fit)")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="iterations",
        ylabel="normalized squared error",
        title=f"Paper's Markov reward process, m = {m:g}, step {STEP:g}, {instances} trajectories of {LENGTH}",
    )
    ax.set_ylim(lstd / 3, 2)
    ax.legend(frameon=False, ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
