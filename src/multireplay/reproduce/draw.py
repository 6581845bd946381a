"""Pictures in the paper's form: log axes, iterations on x, normalized squared error on y."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay import plotting
from multireplay.reproduce.bounds import TERMS, Bounds
from multireplay.reproduce.curves import PANELS, Arrays, CurveFigure
from multireplay.reproduce.following import BETAS, STEPS_TAKEN, Following
from multireplay.reproduce.table import Row
from multireplay.reproduce.worlds import Size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_TITLES = {"shared": "one shared constant step", "best": "each method at its own best step"}
EXACT_LINES = {"LSTD": "--", "best ridge": "--", "maximum likelihood": ":"}


def draw(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size, stem: Path) -> None:
    """Write stem.png and stem.svg."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "multireplay", "font.size": 10}):
        drawings: dict[type, Any] = {CurveFigure: _curves, Following: _following, Bounds: _bounds}
        figure = drawings[type(experiment)](plt, experiment, rows, reports, size)
        figure.savefig(stem.with_suffix(".png"), dpi=150)
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        plt.close(figure)


def _two_panels(plt: Any, title: str, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 5.4), layout="constrained", **options)
    figure.suptitle(title)
    return figure, axes


def _curves(plt: Any, experiment: CurveFigure, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    count = f"{len(reports)} instances of {experiment.lengths[size]} samples"
    figure, axes = _two_panels(plt, f"{experiment.title}, {count}", sharey=True)
    lowest = min(row.error_mean for row in rows if row.error_mean > 0)
    for ax, panel in zip(axes, PANELS, strict=True):
        for method in experiment.methods:
            points = [row for row in rows if row.panel == panel and row.method == method.name]
            iterations = [point.iterations for point in points]
            means = np.array([point.error_mean for point in points])
            curves = np.array([report[f"{panel}/{method.name}"][0] for report in reports])
            style = plotting.method_style(method.name)
            step = f" ({points[0].step:.2g})" if panel == "best" else ""
            ax.plot(iterations, means, label=method.name + step, **style)
            with np.errstate(invalid="ignore"):
                low, high = np.quantile(curves, [0.1, 0.9], axis=0)
            ax.fill_between(iterations, low, high, color=style["color"], alpha=0.12, linewidth=0)
        for name in experiment.exact_grids:
            line = next(row for row in rows if row.panel == panel and row.method == name)
            if line.error_mean < 5:  # maximum likelihood can be far off the picture
                ax.axhline(line.error_mean, color="0.35", linestyle=EXACT_LINES[name], label=name, zorder=1)
            else:
                ax.plot(
                    [], [], color="0.35", linestyle=EXACT_LINES[name], label=f"{name}: {line.error_mean:.3g}, above"
                )
        step = f" ({experiment.shared_step:.2g})" if panel == "shared" else " (in brackets)"
        ax.set(xscale="log", yscale="log", xlabel="iterations", title=PANEL_TITLES[panel] + step)
        ax.set_ylim(lowest / 1.6, 2.0)
        ax.grid(alpha=0.25, which="major")
        ax.legend(frameon=False, fontsize=8.5, loc="lower left")
    axes[0].set_ylabel("averaged iterate" if experiment.averaged else "last iterate")
    axes[0].set_ylabel(f"normalized squared error, {axes[0].get_ylabel()}")
    return figure


def _following(plt: Any, experiment: Following, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    chains = f"{len(reports)} × chains in pairs"
    figure, axes = _two_panels(plt, f"{experiment.title}, {chains}")
    colors = (plotting.SKY, plotting.BLUE, plotting.GREEN, plotting.VERMILLION)
    for ax, setting, corollary in zip(
        axes, ("policy evaluation", "logistic regression"), ("Corollary 4", "Corollary 2"), strict=True
    ):
        for color, T in zip(colors, STEPS_TAKEN, strict=True):
            for method, style in (("measured difference", "o-"), ("Theorem 2", "^--")):
                points = [
                    (beta, row.error_mean)
                    for beta in BETAS
                    for row in rows
                    if (row.panel, row.method, row.iterations) == (f"{setting}, beta={beta:g}", method, T)
                ]
                label = f"T = {T}" if method == "measured difference" else None
                ax.plot(*zip(*points, strict=True), style, color=color, label=label, markersize=4)
            bound = next(row for row in rows if row.method == corollary and row.iterations == T)
            ax.axhline(bound.error_mean, color=color, linestyle=":", linewidth=1)
        ax.plot([], [], "^--", color="0.4", label="Theorem 2's bound (β > 1)", markersize=4)
        ax.plot([], [], ":", color="0.4", label=f"{corollary}'s bound (β = log T^1.5)")
        ax.set(yscale="log", xlabel="gap in effective mixing times, β", title=setting)
        ax.grid(alpha=0.25)
        ax.legend(frameon=False, fontsize=8.5)
    axes[0].set_ylabel("|E‖Δ‖ − E‖Δ̃‖|")
    return figure


def _bounds(plt: Any, experiment: Bounds, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    figure, axes = _two_panels(plt, experiment.title)
    styles = {
        "total": {"color": plotting.BLACK, "linestyle": "-"},
        "deterministic": {"color": plotting.ORANGE, "linestyle": "--"},
        "bias": {"color": plotting.PURPLE, "linestyle": "-."},
        "stochastic": {"color": plotting.GREEN, "linestyle": "--"},
    }
    titles = {"three states": "three states, B as large as the theorem asks", "paper MRP": "paper's process, m = 0.9"}
    for ax, panel in zip(axes, titles, strict=True):
        methods = dict.fromkeys(row.method for row in rows if row.panel == panel)
        for method in methods:
            points = [row for row in rows if row.panel == panel and row.method == method and row.error_mean > 0]
            style: dict[str, Any] = styles.get(method, {"color": plotting.BLUE, "linestyle": "-", "marker": "o"})
            if "step" in method:
                style = {"color": plotting.VERMILLION, "linestyle": "-", "marker": "s"}
            label = f"bound: {method}" if method in TERMS else method
            if points:
                ax.plot(
                    [p.iterations for p in points], [p.error_mean for p in points], label=label, markersize=4, **style
                )
        ax.set(xscale="log", yscale="log", xlabel="steps of the epoch, T_k", title=titles[panel])
        ax.grid(alpha=0.25)
        ax.legend(frameon=False, fontsize=8.5)
    axes[0].set_ylabel("squared error of the last iterate")
    return figure
