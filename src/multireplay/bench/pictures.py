"""The pictures of the bench: the paper's figures in its form, the comparison, and the demonstration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.bench import draw
from multireplay.bench.bounds import TERMS
from multireplay.bench.figures import PANELS
from multireplay.bench.following import BETAS, CHAINS, STEPS_TAKEN
from multireplay.bench.store import Arrays
from multireplay.bench.table import Row
from multireplay.bench.world import Size
from multireplay.show import plotting
from multireplay.show.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_TITLES = {"shared": "one shared constant step, {}", "best": "each method at its own best step, given below"}
EXACT_LINES = {"LSTD": (0, (6, 3)), "best ridge": (0, (6, 3)), "maximum likelihood": (0, (1, 2))}

# what is not a method has none of the methods' colours: Tol's muted scheme, and light to dark for growing T
TERM_STYLES: dict[str, dict[str, Any]] = {
    "deterministic": {"color": "#999933", "linestyle": "--"},
    "bias": {"color": "#332288", "linestyle": "-."},
    "stochastic": {"color": "#882255", "linestyle": (0, (1, 1.5)), "linewidth": 2.2},
    "total": {"color": "0.25", "linestyle": "-"},
}
LENGTH_STYLES = (("#C9A227", "o"), ("#5FA777", "s"), ("#31688E", "D"), ("#3B0F54", "v"))

SHOWN: dict[str, tuple[str, str]] = {
    "mr.solve": (BLUE, "D"),
    "dyadic": (SKY, "o"),
    "shuffle x3": (GREEN, "s"),
    "MER": (BLACK, "v"),
    "serial": (VERMILLION, "X"),
    "skip, oracle gap": (ORANGE, "P"),
    "FTD": (PURPLE, "^"),
    "VRTD": (PURPLE, "<"),
    "VRFTD": (PURPLE, ">"),
    "MAG": (VERMILLION, "*"),
    "scikit-learn SGD, shuffle + average": (ORANGE, "p"),
}
"""Methods in the picture of the comparison, each by colour and marker; the table has all of them."""
FLOOR, CEILING = 0.3, 3e3


def draw_experiment(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size, stem: Path) -> None:
    """Write stem.png and stem.svg of a figure, of `tracking` or of `theory`."""
    import matplotlib

    picture = {"tracking": following, "theory": bounds}.get(experiment.name, curves)
    with matplotlib.rc_context(draw.SETTINGS):
        figure = picture(experiment, rows, reports, size)
        draw.save(figure, stem.with_suffix(".png"))
        draw.save(figure, stem.with_suffix(".svg"))


def curves(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    """Error by iterations in both panels: log axes, iterations on x, normalized squared error on y."""
    length, count = experiment.lengths[size], len(reports)
    title = (
        f"{experiment.title}\n{count} instances of {length} samples: mean, and band from the 10th to 90th percentile"
    )
    figure, axes = draw.two_panels(title, sharey=True)
    seen = []
    for ax, panel in zip(axes, PANELS, strict=True):
        for method in experiment.methods:
            points = [row for row in rows if row.panel == panel and row.method == method.name]
            means = draw.cut([point.error_mean for point in points])
            runs = draw.cut([report[f"{panel}/{method.name}"][1] for report in reports])
            band = np.quantile(runs, [0.1, 0.9], axis=0)
            style = plotting.method_style(method.name)
            if method.name == "dyadic":  # on top of the curves it follows, which show through the dashes
                style |= {"zorder": 6, "linewidth": 2.4, "linestyle": (0, (2.5, 1.8))}
            label = f"{method.name}: {draw.fraction(points[0].step)}" if panel == "best" else method.name
            draw.curve(ax, ([point.iterations for point in points], means, band), label, style, alpha=0.12)
            seen += [*means, *band.ravel()]
        for name in experiment.exact_grids:
            error = next(row.error_mean for row in rows if row.panel == panel and row.method == name)
            _horizontal(ax, name, error)
            seen.append(error)
        ax.set(xscale="log", yscale="log", xlabel="iterations")
        ax.set_title(PANEL_TITLES[panel].format(draw.fraction(experiment.shared_step)))
        ax.grid(alpha=0.25, which="major")
        draw.legend_below(ax)
    low, high = draw.limits(seen, draw.TOP)
    for ax in axes:
        ax.set_ylim(low, high)
        ax.set_xlim(0.8, length * 1.25)
        draw.plain_ticks(ax.yaxis, low, high)
        draw.plain_ticks(ax.xaxis, 1, length, fine=False)
    axes[0].set_ylabel(f"normalized squared error, {'averaged' if experiment.averaged else 'last'} iterate")
    return figure


def _horizontal(ax: Axes, name: str, error: float) -> None:
    """The line of an exact fit, or its number where it is above the picture."""
    label = name.replace("maximum", "max.")
    style: dict[str, Any] = {"color": "0.4", "linestyle": EXACT_LINES[name], "linewidth": 1.6}
    if error < draw.TOP:
        ax.axhline(error, label=label, zorder=1.5, **style)
    else:
        ax.plot([], [], label=f"{label} ({error:.3g}↑)", **style)


def following(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    """The difference from the i.i.d. error by the gap, for every number of steps, with Theorem 2's bound."""
    pairs = len(reports) * CHAINS[size]
    figure, axes = draw.two_panels(f"{experiment.title}\n{pairs} pairs of chains for every point")
    settings = {"policy evaluation": "Corollary 4", "logistic regression": "Corollary 2"}
    for ax, (setting, corollary) in zip(axes, settings.items(), strict=True):
        seen, lost = [], False
        panels = {f"{setting}, beta={beta:g}": beta for beta in BETAS}
        for (color, marker), T in zip(LENGTH_STYLES, STEPS_TAKEN, strict=True):
            for method, line in (("measured difference", "-"), ("Theorem 2", "--")):
                there = [row for row in rows if row.panel in panels and (row.method, row.iterations) == (method, T)]
                measured = method == "measured difference"
                points = [(panels[row.panel], row.error_mean) for row in there if row.error_mean > 0]
                lost |= len(points) < len(there)
                style: dict[str, Any] = {"color": color, "marker": marker if measured else None, "markersize": 5.5}
                label = f"T = {T}" if measured else None
                ax.plot([beta for beta, _ in points], [y for _, y in points], linestyle=line, label=label, **style)
                noise = [(panels[row.panel], row.error_mean) for row in there if 0 < row.error_mean < 2 * row.error_se]
                style |= {"linestyle": "none", "markerfacecolor": "white"}
                ax.plot([beta for beta, _ in noise], [y for _, y in noise], **style)
                seen += [y for _, y in points]
            bound = next(row for row in rows if row.method == corollary and row.iterations == T)
            ax.axhline(bound.error_mean, color=color, linestyle=(0, (1, 2)), linewidth=1.4)
        ax.plot([], [], "--", color="0.3", label="Theorem 2 (β > 1)")
        ax.plot([], [], linestyle=(0, (1, 2)), color="0.3", label=f"{corollary} (β = 1.5 log T)")
        hollow: dict[str, Any] = {"color": "0.3", "markerfacecolor": "white", "linestyle": "none", "markersize": 5.5}
        ax.plot([], [], marker="o", label="within 2 s.e. of 0", **hollow)
        ax.set(yscale="log", xlabel="gap in effective mixing times, β", title=setting)
        draw.power_ticks(ax.yaxis)
        low, high = draw.limits(seen)
        ax.set_ylim(low / 10, high)
        ax.grid(alpha=0.25)
        if lost:
            draw.note(ax, "left out: below resolution (no pair of chains differed)")
        draw.legend_below(ax)
    label = r"difference of errors, $|\,\mathrm{E}\|\Delta\| - \mathrm{E}\|\tilde{\Delta}\|\,|$"
    axes[0].set_ylabel(label, fontsize=12)
    return figure


def bounds(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    """The terms of Theorem 1's bound by epoch, and the errors that are measured."""
    figure, axes = draw.two_panels(f"{experiment.title}: MER's last iterate after every epoch")
    titles = {"three states": "three states, B as large as the theorem asks", "paper MRP": "paper's process, m = 0.9"}
    for ax, panel in zip(axes, titles, strict=True):
        here = [row for row in rows if row.panel == panel and row.error_mean > 0]
        measured = [row.error_mean for row in here if row.method not in TERMS]
        low = 10 ** math.floor(math.log10(min(measured)) - 1)
        high = draw.limits([row.error_mean for row in here if row.method == "total"])[1]
        for method in dict.fromkeys(row.method for row in rows if row.panel == panel):
            points = [row for row in here if row.method == method]
            style: dict[str, Any] = {"linewidth": 1.6, "markersize": 5} | TERM_STYLES.get(method, {})
            if method not in TERMS:  # both are MER
                style |= {"color": BLUE, "marker": "o"}
            if "step" in method:
                style |= {"linestyle": "--", "marker": "s", "markerfacecolor": "white"}
            label = f"bound: {method}" if method in TERMS else method
            if max((point.error_mean for point in points), default=0.0) < low:
                label = f"{label} (below {low:g})"
            label = "measured, theorem's step" if method == "measured" else label
            ax.plot([p.iterations for p in points], [p.error_mean for p in points], label=label, **style)
        ax.set(xscale="log", yscale="log", xlabel=r"steps of the epoch, $T_k$", title=titles[panel])
        ax.set_ylim(low, 3 * high)
        draw.power_ticks(ax.yaxis)
        ax.grid(alpha=0.25)
        if any(row.error_mean < 0 for row in rows if row.panel == panel):
            draw.note(ax, "left out: where the printed bound is negative")
        draw.legend_below(ax, columns=2)
    axes[0].set_ylabel("squared error of the last iterate")
    return figure


def shown_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """By method of the picture and by problem, the row at its tuned step where it has one."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for method in SHOWN:
        best = {row["problem"]: row for row in rows if row["method"] == method and row["step"] != "n/a"}
        found |= {method: best} if best else {}
    return found


def draw_comparison(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The ratio to the exact fit by problem and method; a line through its standard errors; ∞ at the right edge."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    figure = draw.new_figure(10, 2.6 + 0.5 * len(problems))
    ax = figure.subplots()
    shown = shown_scores(rows)
    for i, (method, best) in enumerate(shown.items()):
        color, marker = SHOWN[method]
        place = np.array([problems.index(name) for name in best]) + 0.07 * (i - len(shown) / 2)
        ratios = np.clip([row["ratio_mean"] for row in best.values()], FLOOR, CEILING)
        spread = np.array([row["ratio_se"] for row in best.values()])
        spread = np.where(np.isfinite(spread) & (ratios < CEILING), spread, 0.0)
        low, high = np.minimum(spread, ratios - FLOOR), np.minimum(spread, CEILING - ratios)
        first = method == "mr.solve"
        ax.errorbar(
            ratios, place, xerr=[low, high], fmt=marker, color=color, markersize=8 if first else 6, elinewidth=0.9,
            markeredgecolor="white", markeredgewidth=0.5, label=method, zorder=4 if first else 3, clip_on=False,
        )  # fmt: skip
    ax.axvline(1.0, color=BLACK, linewidth=1)
    ax.axvline(1.05, color=BLACK, linewidth=0.7, linestyle=":")
    for i in range(0, len(problems), 2):
        ax.axhspan(i - 0.5, i + 0.5, color="0.95", zorder=0)
    ax.set(xscale="log", xlim=(FLOOR, CEILING), ylim=(len(problems) - 0.5, -0.5))
    ax.set_yticks(range(len(problems)), problems)
    ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    ax.set_xlabel(f"squared error / that of the exact fit (dotted: 1.05; right edge: {CEILING:.0f} and more, or ∞)")
    ax.set_title("Steps tuned on other seeds where a method has one", loc="left", fontsize=10)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    draw.save(figure, path)
