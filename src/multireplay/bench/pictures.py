"""The pictures of the bench: the paper's figures in its form, and the comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from multireplay.bench.figures import PANELS
from multireplay.bench.paired import FAR_OFF
from multireplay.bench.store import Arrays
from multireplay.bench.table import Curves, Row
from multireplay.bench.theorems import BETAS, CHAINS, STEPS_TAKEN, TERMS
from multireplay.bench.world import Size
from multireplay.show import plotting
from multireplay.show.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, save_figure

TOP = 2.0
"""Errors above this are cut off: an error of 1 is that of the starting point."""
FONTS: dict[Any, Any] = {"font.size": 11, "axes.titlesize": 12, "figure.titlesize": 13, "legend.fontsize": 10}
SETTINGS = {"svg.hashsalt": "multireplay", **FONTS}

PANEL_TITLES = {
    "shared": "one step for all, {}, which is MER's cap",
    "best": "each method at its own best step, given below",
}
EXACT_LINES = {"LSTD": (0, (6, 3)), "maximum likelihood": (0, (1, 2)), "unpenalized exact fit": (0, (1, 2))}
EXACT_LINES |= {"best ridge": (0, (6, 3))}
NORMS = {True: "‖·‖_Π", False: "Euclidean norm"}

# what is not a method has none of the methods' colours: Tol's muted scheme, and light to dark for growing T
TERM_STYLES: dict[str, dict[str, Any]] = {
    "deterministic": {"color": "#999933", "linestyle": "--"},
    "bias": {"color": "#332288", "linestyle": "-."},
    "stochastic": {"color": "#882255", "linestyle": (0, (1, 1.5)), "linewidth": 2.2},
    "total": {"color": "0.25", "linestyle": "-"},
}
LENGTH_STYLES = (("#C9A227", "o"), ("#5FA777", "s"), ("#31688E", "D"), ("#3B0F54", "v"))

SHOWN: dict[str, tuple[str, str]] = {
    "mr.solve": (BLUE, "D"), "dyadic": (SKY, "o"), "shuffle x3": (GREEN, "s"), "MER": (BLACK, "v"),
    "serial": (VERMILLION, "X"), "skip, oracle gap": (ORANGE, "P"), "FTD": (PURPLE, "^"), "VRTD": (PURPLE, "<"),
    "VRFTD": (PURPLE, ">"), "MAG": (VERMILLION, "*"), "scikit-learn SGD, shuffle + average": (ORANGE, "p"),
}  # fmt: skip
"""Methods in the picture of the comparison, each by colour and marker; the table has all of them."""
FLOOR, CEILING = 0.3, 3e3


def draw_experiment(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size, stem: Path) -> None:
    """Write stem.png and stem.svg of a figure, of `tracking` or of `theory`.

    A figure in ‖·‖_Π has stem-euclidean.png and .svg beside it.
    """
    others: dict[str, Callable[..., Figure]] = {"tracking": following, "theory": bounds}
    drawings: dict[str, Callable[..., Figure]] = {"": others.get(experiment.name, curves)}
    if getattr(experiment, "weighted", False):
        drawings["-euclidean"] = partial(curves, weighted=False)
    with matplotlib.rc_context(SETTINGS):
        for name, picture in drawings.items():
            figure = picture(experiment, rows, reports, size)
            save_figure(figure, stem.with_name(f"{stem.name}{name}.png"))
            save_figure(figure, stem.with_name(f"{stem.name}{name}.svg"))


def curves(
    experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size, weighted: bool | None = None
) -> Figure:
    """Error by iterations in both panels: log axes, iterations on x, normalized squared error on y.

    `weighted` says whether in ‖·‖_Π or in the Euclidean norm, by default in that of the paper's figure.
    """
    weighted = experiment.weighted if weighted is None else weighted
    length = experiment.lengths[size]
    table = Curves([row._replace(error_mean=row.error_weighted_mean) for row in rows] if weighted else rows)
    about = f"{len(reports)} instances of {length} samples: mean, and band from the 10th to 90th percentile"
    figure, axes = two_panels(f"{experiment.title}\n{about}", sharey=True)
    seen = []
    for ax, panel in zip(axes, PANELS, strict=True):
        for method in experiment.drawn:
            points = table.points(panel, method.name)
            means = cut([point.error_mean for point in points])
            band = np.quantile(
                cut([report[f"{panel}/{method.name}"][1 + weighted] for report in reports]), [0.1, 0.9], axis=0
            )
            style = plotting.method_style(method.name)
            if method.name == "dyadic":  # on top of the curves it follows, which show through the dashes
                style |= {"zorder": 6, "linewidth": 2.4, "linestyle": (0, (2.5, 1.8))}
            label = f"{method.name}: {fraction(points[0].step)}" if panel == "best" else method.name
            if method.name == "MER":  # one step an epoch: the largest, and the last
                largest, last = points[0].step, points[-1].step
                label = f"MER, own rule: {fraction(largest)}" + (f" to {last:.2g}" if last < largest else "")
            curve(ax, ([point.iterations for point in points], means, band), label, style, alpha=0.12)
            seen += [*means, *band.ravel()]
        for name, line in EXACT_LINES.items():
            for point in table.points(panel, name):  # one, or none where the figure has no such fit
                above = point.error_mean >= TOP
                label = name.replace("maximum", "max.") + (f" ({point.error_mean:.3g}↑)" if above else "")
                level = math.nan if above else point.error_mean
                ax.axhline(level, label=label, zorder=1.5, color="0.4", linestyle=line, linewidth=1.6)
                seen.append(point.error_mean)
        ax.set(xscale="log", yscale="log", xlabel="iterations")
        ax.set_title(PANEL_TITLES[panel].format(fraction(experiment.shared_step)))
        ax.grid(alpha=0.25, which="major")
        legend_below(ax)
    low, high = limits(seen, TOP)
    for ax in axes:
        ax.set_ylim(low, high)
        ax.set_xlim(0.8, length * 1.25)
        plain_ticks(ax.yaxis, low, high)
        plain_ticks(ax.xaxis, 1, length, fine=False)
    iterate = "averaged" if experiment.averaged else "last"
    axes[0].set_ylabel(f"normalized squared error, {NORMS[weighted]}, {iterate} iterate")
    return figure


def following(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    """The difference from the i.i.d. error by the gap, for every number of steps, with Theorem 2's bound."""
    pairs = len(reports) * CHAINS[size]
    figure, axes = two_panels(f"{experiment.title}\n{pairs} pairs of chains for every point")
    hollow: dict[str, Any] = {"markerfacecolor": "white", "linestyle": "none", "markersize": 5.5}
    dotted: dict[str, Any] = {"linestyle": (0, (1, 2))}
    for ax, setting in zip(axes, experiment.parts, strict=True):
        panels = {f"{setting.name}, beta={beta:g}": beta for beta in BETAS}
        there = [row for row in rows if row.panel in panels and row.method in ("measured difference", "Theorem 2")]
        positive = [row for row in there if row.error_mean > 0]
        for (color, marker), T in zip(LENGTH_STYLES, STEPS_TAKEN, strict=True):
            bound, measured = (
                [row for row in positive if row.iterations == T and (row.method == "Theorem 2") == is_bound]
                for is_bound in (True, False)
            )
            noise = [row for row in measured if row.error_mean < 2 * row.error_se]
            solid = {"marker": marker, "markersize": 5.5, "label": f"T = {T}"}
            for some, style in ((measured, solid), (noise, {"marker": marker, **hollow}), (bound, {"linestyle": "--"})):
                ax.plot([panels[row.panel] for row in some], [row.error_mean for row in some], color=color, **style)
            limit = next(row for row in rows if row.method == setting.corollary and row.iterations == T)
            ax.axhline(limit.error_mean, color=color, linewidth=1.4, **dotted)
        ax.plot([], [], "--", color="0.3", label="Theorem 2 (β > 1)")
        ax.plot([], [], color="0.3", label=f"{setting.corollary} (β = 1.5 log T)", **dotted)
        ax.plot([], [], marker="o", color="0.3", label="within 2 s.e. of 0", **hollow)
        ax.set(yscale="log", xlabel="gap in effective mixing times, β", title=setting.name)
        ax.yaxis.set_major_locator(LogLocator(numticks=9))
        low, high = limits(row.error_mean for row in positive)
        ax.set_ylim(low / 10, high)
        ax.grid(alpha=0.25)
        if len(positive) < len(there):
            note(ax, "left out: below resolution (no pair of chains differed)")
        legend_below(ax)
    label = r"difference of errors, $|\,\mathrm{E}\|\Delta\| - \mathrm{E}\|\tilde{\Delta}\|\,|$"
    axes[0].set_ylabel(label, fontsize=12)
    return figure


def bounds(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    """The terms of Theorem 1's bound by epoch, and the errors that are measured."""
    figure, axes = two_panels(f"{experiment.title}: MER's last iterate after every epoch")
    titles = {"three states": "three states, B as large as the theorem asks", "paper MRP": "paper's process, m = 0.9"}
    for ax, panel in zip(axes, titles, strict=True):
        here = [row for row in rows if row.panel == panel and row.error_mean > 0]
        measured = [row.error_mean for row in here if row.method not in TERMS]
        low = 10 ** math.floor(math.log10(min(measured)) - 1)
        high = limits([row.error_mean for row in here if row.method == "total"])[1]
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
        ax.yaxis.set_major_locator(LogLocator(numticks=9))
        ax.grid(alpha=0.25)
        if any(row.error_mean < 0 for row in rows if row.panel == panel):
            note(ax, "left out: where the printed bound is negative")
        legend_below(ax, columns=2)
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
    figure = Figure(figsize=(10, 2.6 + 0.5 * len(problems)), layout="constrained")
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
    save_figure(figure, path)


def two_panels(title: str, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    """A figure with two axes side by side, below a title."""
    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    figure.suptitle(title)
    figure.get_layout_engine().set(wspace=0.03)  # type: ignore[union-attr, call-arg]
    axes: Sequence[Axes] = figure.subplots(1, 2, **options)
    return figure, axes


def curve(ax: Axes, points: tuple[Any, Any, Any], label: str, style: dict[str, Any], alpha: float) -> None:
    """A curve of (iterations, means, (low, high)), with a band in its own colour."""
    iterations, means, band = points
    ax.plot(iterations, means, label=label, **style)
    ax.fill_between(iterations, *band, color=style["color"], alpha=alpha, linewidth=0)


def legend_below(ax: Axes, columns: int = 3) -> None:
    """All labels under the axes, which the layout makes room for; in fewer columns where they would be too wide."""
    labels = np.array([len(str(label)) for label in ax.get_legend_handles_labels()[1]])
    if sum(6 + column.max() for column in np.array_split(labels, columns)) > 64:  # in letters
        columns -= 1
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, frameon=False, borderaxespad=0.0,
        handlelength=2.2, handletextpad=0.5, columnspacing=1.2,
    )  # fmt: skip


def note(ax: Axes, text: str) -> None:
    """A small line of text at the lower left."""
    ax.text(0.02, 0.03, text, transform=ax.transAxes, fontsize=9.5, color="0.3")


def plain_ticks(axis: Any, low: float, high: float, fine: bool = True) -> None:
    """Ticks of a log axis as plain numbers: 1, 2 and 5 of every decade, more where the axis spans less than one."""
    digits: tuple[float, ...] = (1, 2, 5) if fine else (1,)
    if high < 10 * low:
        digits = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    if high < 1.6 * low:
        digits = tuple(np.arange(1, 2, 0.05).round(2)) + tuple(np.arange(2, 10, 0.5))
    decades = [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    axis.set_major_locator(FixedLocator([digit * decade for decade in decades for digit in digits]))
    axis.set_minor_locator(FixedLocator([digit * decade for decade in decades for digit in range(1, 10)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    axis.set_minor_formatter(NullFormatter())


def fraction(step: float) -> str:
    """A step of one part in a whole number as 1/8; anything else in digits."""
    parts = round(1 / step)
    return f"{step:.2g}" if parts < 2 or abs(parts * step - 1) > 1e-5 else f"1/{parts}"


def cut(values: Any) -> Any:
    """Errors with those of diverged runs far above the picture, so that their curves leave it at the top."""
    return np.nan_to_num(np.minimum(values, FAR_OFF), nan=FAR_OFF)


def limits(values: Iterable[float], top: float = math.inf) -> tuple[float, float]:
    """Limits of a log axis that the values up to `top` fill, with a little room."""
    shown = [value for value in values if 0 < value < top]
    low, high = min(shown), max(shown)
    room = max(high / low, 1.1) ** 0.04
    return low / room, high * room
