"""Pictures in the paper's form: log axes, iterations on x, normalized squared error on y."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.reproduce.bounds import TERMS, Bounds
from multireplay.reproduce.curves import PANELS, Arrays, CurveFigure
from multireplay.reproduce.following import BETAS, CHAINS, STEPS_TAKEN, Following
from multireplay.reproduce.table import Row
from multireplay.reproduce.worlds import Size
from multireplay.show import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_TITLES = {"shared": "one shared constant step, {}", "best": "each method at its own best step, given below"}
EXACT_LINES = {"LSTD": (0, (6, 3)), "best ridge": (0, (6, 3)), "maximum likelihood": (0, (1, 2))}
EXACT_COLOR = "0.4"
TOP = 2.0
"""Errors above this are cut off: an error of 1 is that of the starting point."""
FAR_OFF = 1e6
"""Where a diverged run is drawn to, far above the picture."""
FONTS: dict[Any, Any] = {"font.size": 11, "axes.titlesize": 12, "figure.titlesize": 13, "legend.fontsize": 10}

# what is not a method has none of the methods' colours: Tol's muted scheme, and light to dark for growing T
TERM_STYLES: dict[str, dict[str, Any]] = {
    "deterministic": {"color": "#999933", "linestyle": "--"},
    "bias": {"color": "#332288", "linestyle": "-."},
    "stochastic": {"color": "#882255", "linestyle": (0, (1, 1.5)), "linewidth": 2.2},
    "total": {"color": "0.25", "linestyle": "-"},
}
LENGTH_STYLES = (("#C9A227", "o"), ("#5FA777", "s"), ("#31688E", "D"), ("#3B0F54", "v"))


def draw(experiment: Any, rows: Sequence[Row], reports: Sequence[Arrays], size: Size, stem: Path) -> None:
    """Write stem.png and stem.svg."""
    import matplotlib

    drawings: dict[type, Callable[..., Figure]] = {CurveFigure: _curves, Following: _following, Bounds: _bounds}
    with matplotlib.rc_context({"svg.hashsalt": "multireplay", **FONTS}):
        figure = drawings[type(experiment)](experiment, rows, reports, size)
        figure.savefig(stem.with_suffix(".png"), dpi=150)
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def _two_panels(title: str, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 6.4), layout="constrained")
    figure.suptitle(title)
    figure.get_layout_engine().set(wspace=0.03)  # type: ignore[union-attr, call-arg]
    axes: Sequence[Axes] = figure.subplots(1, 2, **options)
    return figure, axes


def _legend_below(ax: Axes, columns: int = 3) -> None:
    """All labels under the axes, which the layout makes room for; in fewer columns where they would be too wide."""
    labels = np.array([len(str(label)) for label in ax.get_legend_handles_labels()[1]])
    if sum(6 + column.max() for column in np.array_split(labels, columns)) > 64:  # in letters
        columns -= 1
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, frameon=False, borderaxespad=0.0,
        handlelength=2.2, handletextpad=0.5, columnspacing=1.2,
    )  # fmt: skip


def _note(ax: Axes, text: str) -> None:
    ax.text(0.02, 0.03, text, transform=ax.transAxes, fontsize=9.5, color="0.3")


def _plain_ticks(axis: Any, low: float, high: float, fine: bool = True) -> None:
    """Ticks of a log axis as plain numbers: 1, 2 and 5 of every decade, more where the axis spans less than one."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

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


def _power_ticks(axis: Any) -> None:
    """Ticks of a log axis over many decades."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(numticks=9))


def _fraction(step: float) -> str:
    """A step of one part in a whole number as 1/8; anything else in digits."""
    parts = round(1 / step)
    return f"{step:.2g}" if parts < 2 or abs(parts * step - 1) > 1e-5 else f"1/{parts}"


def _cut(values: Any) -> Any:
    """Errors with those of diverged runs far above the picture, so that their curves leave it at the top."""
    return np.nan_to_num(np.minimum(values, FAR_OFF), nan=FAR_OFF)


def _limits(values: Iterable[float], top: float = math.inf) -> tuple[float, float]:
    """Limits of a log axis that the values up to `top` fill, with a little room."""
    shown = [value for value in values if 0 < value < top]
    low, high = min(shown), max(shown)
    room = max(high / low, 1.1) ** 0.04
    return low / room, high * room


def _curves(experiment: CurveFigure, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    length, count = experiment.lengths[size], len(reports)
    title = (
        f"{experiment.title}\n{count} instances of {length} samples: mean, and band from the 10th to 90th percentile"
    )
    figure, axes = _two_panels(title, sharey=True)
    seen = []
    for ax, panel in zip(axes, PANELS, strict=True):
        for method in experiment.methods:
            points = [row for row in rows if row.panel == panel and row.method == method.name]
            iterations = [point.iterations for point in points]
            means = _cut([point.error_mean for point in points])
            band = np.quantile(_cut([report[f"{panel}/{method.name}"][0] for report in reports]), [0.1, 0.9], axis=0)
            style = plotting.method_style(method.name)
            if method.name == "dyadic":  # on top of the curves it follows, which show through the dashes
                style |= {"zorder": 6, "linewidth": 2.4, "linestyle": (0, (2.5, 1.8))}
            label = f"{method.name}: {_fraction(points[0].step)}" if panel == "best" else method.name
            ax.plot(iterations, means, label=label, **style)
            ax.fill_between(iterations, *band, color=style["color"], alpha=0.12, linewidth=0)
            seen += [*means, *band.ravel()]
        for name in experiment.exact_grids:
            error = next(row.error_mean for row in rows if row.panel == panel and row.method == name)
            _horizontal(ax, name, error)
            seen.append(error)
        ax.set(xscale="log", yscale="log", xlabel="iterations")
        ax.set_title(PANEL_TITLES[panel].format(_fraction(experiment.shared_step)))
        ax.grid(alpha=0.25, which="major")
        _legend_below(ax)
    low, high = _limits(seen, TOP)
    for ax in axes:
        ax.set_ylim(low, high)
        ax.set_xlim(0.8, length * 1.25)
        _plain_ticks(ax.yaxis, low, high)
        _plain_ticks(ax.xaxis, 1, length, fine=False)
    axes[0].set_ylabel(f"normalized squared error, {'averaged' if experiment.averaged else 'last'} iterate")
    return figure


def _horizontal(ax: Axes, name: str, error: float) -> None:
    """The line of an exact fit, or its number where it is above the picture."""
    label = name.replace("maximum", "max.")
    style: dict[str, Any] = {"color": EXACT_COLOR, "linestyle": EXACT_LINES[name], "linewidth": 1.6}
    if error < TOP:
        ax.axhline(error, label=label, zorder=1.5, **style)
    else:
        ax.plot([], [], label=f"{label} ({error:.3g}↑)", **style)


def _following(experiment: Following, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    figure, axes = _two_panels(f"{experiment.title}\n{len(reports) * CHAINS[size]} pairs of chains for every point")
    settings = {"policy evaluation": "Corollary 4", "logistic regression": "Corollary 2"}
    for ax, (setting, corollary) in zip(axes, settings.items(), strict=True):
        seen, lost = [], False
        for (color, marker), T in zip(LENGTH_STYLES, STEPS_TAKEN, strict=True):
            for method, line in (("measured difference", "-"), ("Theorem 2", "--")):
                points = [
                    (beta, row)
                    for beta in BETAS
                    for row in rows
                    if (row.panel, row.method, row.iterations) == (f"{setting}, beta={beta:g}", method, T)
                ]
                measured = method == "measured difference"
                lost |= any(row.error_mean == 0 for _, row in points)
                points = [(beta, row) for beta, row in points if row.error_mean > 0]
                x, y = [beta for beta, _ in points], [row.error_mean for _, row in points]
                style: dict[str, Any] = {"color": color, "marker": marker if measured else None, "markersize": 5.5}
                ax.plot(x, y, linestyle=line, label=f"T = {T}" if measured else None, **style)
                noise = [(b, row.error_mean) for b, row in points if row.error_mean < 2 * row.error_se]
                style |= {"linestyle": "none", "markerfacecolor": "white"}
                ax.plot([b for b, _ in noise], [value for _, value in noise], **style)
                seen += y
            bound = next(row for row in rows if row.method == corollary and row.iterations == T)
            ax.axhline(bound.error_mean, color=color, linestyle=(0, (1, 2)), linewidth=1.4)
        ax.plot([], [], "--", color="0.3", label="Theorem 2 (β > 1)")
        ax.plot([], [], linestyle=(0, (1, 2)), color="0.3", label=f"{corollary} (β = 1.5 log T)")
        hollow: dict[str, Any] = {"color": "0.3", "markerfacecolor": "white", "linestyle": "none", "markersize": 5.5}
        ax.plot([], [], marker="o", label="within 2 s.e. of 0", **hollow)
        ax.set(yscale="log", xlabel="gap in effective mixing times, β", title=setting)
        _power_ticks(ax.yaxis)
        low, high = _limits(seen)
        ax.set_ylim(low / 10, high)
        ax.grid(alpha=0.25)
        if lost:
            _note(ax, "left out: below resolution (no pair of chains differed)")
        _legend_below(ax)
    axes[0].set_ylabel(
        r"difference of errors, $|\,\mathrm{E}\|\Delta\| - \mathrm{E}\|\tilde{\Delta}\|\,|$", fontsize=12
    )
    return figure


def _bounds(experiment: Bounds, rows: Sequence[Row], reports: Sequence[Arrays], size: Size) -> Figure:
    figure, axes = _two_panels(f"{experiment.title}: MER's last iterate after every epoch")
    titles = {"three states": "three states, B as large as the theorem asks", "paper MRP": "paper's process, m = 0.9"}
    for ax, panel in zip(axes, titles, strict=True):
        here = [row for row in rows if row.panel == panel and row.error_mean > 0]
        measured = [row.error_mean for row in here if row.method not in TERMS]
        low = 10 ** math.floor(math.log10(min(measured)) - 1)
        high = _limits([row.error_mean for row in here if row.method == "total"], math.inf)[1]
        for method in dict.fromkeys(row.method for row in rows if row.panel == panel):
            points = [row for row in here if row.method == method]
            style: dict[str, Any] = {"linewidth": 1.6, "markersize": 5} | TERM_STYLES.get(method, {})
            if method not in TERMS:  # both are MER
                style |= {"color": plotting.BLUE, "marker": "o"}
            if "step" in method:
                style |= {"linestyle": "--", "marker": "s", "markerfacecolor": "white"}
            label = f"bound: {method}" if method in TERMS else method
            if max((point.error_mean for point in points), default=0.0) < low:
                label = f"{label} (below {low:g})"
            label = "measured, theorem's step" if method == "measured" else label
            ax.plot([p.iterations for p in points], [p.error_mean for p in points], label=label, **style)
        ax.set(
            xscale="log", yscale="log", xlabel=r"steps of the epoch, $T_k$", title=titles[panel], ylim=(low, 3 * high)
        )
        _power_ticks(ax.yaxis)
        ax.grid(alpha=0.25)
        if any(row.error_mean < 0 for row in rows if row.panel == panel):
            _note(ax, "left out: where the printed bound is negative")
        _legend_below(ax, columns=2)
    axes[0].set_ylabel("squared error of the last iterate")
    return figure
