"""What the pictures of the bench share: figures without a window, log axes that can be read, legends that fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOP = 2.0
"""Errors above this are cut off: an error of 1 is that of the starting point."""
FAR_OFF = 1e6
"""Where a diverged run is drawn to, far above the picture."""
FONTS: dict[Any, Any] = {"font.size": 11, "axes.titlesize": 12, "figure.titlesize": 13, "legend.fontsize": 10}
SETTINGS = {"svg.hashsalt": "multireplay", **FONTS}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that no window shows, whatever the backend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the picture as PNG or SVG, by the name of the file; the same picture gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def two_panels(title: str, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    """A figure with two axes side by side, below a title."""
    figure = new_figure(11.5, 6.4)
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


def power_ticks(axis: Any) -> None:
    """Ticks of a log axis over many decades."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(numticks=9))


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
