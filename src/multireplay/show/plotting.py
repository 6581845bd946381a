"""Pictures of results. Colours are colour-blind safe (Okabe and Ito) and belong to methods, not to positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay._write import completed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from multireplay.result import Result

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip


MOST_TICKS = 40
"""Features up to which each has its name on the axis."""
_METHODS: dict[str, tuple[str, str]] = {
    "MER": (BLUE, "-"),
    "MER, one constant step": (BLUE, "--"),
    "serial": (VERMILLION, "-"),
    "skip": (ORANGE, "-"),
    "skip too much": (ORANGE, "--"),
    "skip too little": (ORANGE, ":"),
    "i.i.d.": (BLACK, "-"),
    "uniform": (PURPLE, "-"),
    "shuffle": (GREEN, "-"),
    "dyadic": (SKY, "--"),
}


def method_style(name: str) -> dict[str, Any]:
    """Colour, line and marker of a method, by the longest known beginning of its name."""
    known = max((start for start in _METHODS if name.startswith(start)), key=len)
    color, line = _METHODS[known]
    dots = {"marker": "o", "markersize": 4.5, "zorder": 5} if known.startswith("MER") else {}
    return {"color": color, "linestyle": line, "linewidth": 1.6, **dots}


def new_axes(ax: Axes | None) -> Axes:
    """`ax`, or the axes of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, of the kind that the name of the file ends in, with a mark that this program made it."""
    kind = path.suffix[1:].lower() or "png"
    marks = {"png": {"Software": "multireplay"}, "svg": {"Creator": "multireplay", "Date": None}}
    with completed(path) as file:
        figure.savefig(file, format=kind, dpi=150, metadata=marks.get(kind))


def plot_result(result: Result, ax: Axes | None = None) -> Axes:
    """See `Result.plot`."""
    ax = new_axes(ax)
    if result.epochs[0].curve is not None:
        return _plot_errors(result, ax)
    lengths = [epoch.taken for epoch in result.epochs]
    if len(lengths) > 1:
        distances = [float(np.linalg.norm(epoch.answer - result.x)) for epoch in result.epochs]
        ax.plot(lengths[:-1], distances[:-1], "o-", color=BLUE)
        ax.set(xscale="log", yscale="log", xlabel="steps of the epoch", ylabel="distance to the final answer")
    else:
        ax.stem(np.arange(1, len(result.x) + 1), result.x, linefmt=BLUE, markerfmt="o", basefmt="k-")
        ax.set(xlabel="coordinate", ylabel="answer x")
        names = None if result.run is None else result.run.feature_names
        if names is not None and len(names) <= MOST_TICKS:
            ax.set_xticks(np.arange(1, len(names) + 1), names, rotation=90 if len(names) > 6 else 0)
            ax.set_xlabel("feature")
    return ax


def _plot_errors(result: Result, ax: Axes) -> Axes:
    curves = [epoch.curve for epoch in result.epochs if epoch.curve is not None]
    if len(curves) > 1 or not len(curves[0].last):  # one point an epoch, as in the paper's figures
        steps = np.array([epoch.length for epoch in result.epochs])
        last, average = (np.array([getattr(curve, f"end_{name}") for curve in curves]) for name in ("last", "average"))
    else:
        steps, last, average = curves[0].iterations, curves[0].last, curves[0].average
    ax.plot(steps, last / curves[0].initial, "o-", color=ORANGE, label="last iterate")
    ax.plot(steps, average / curves[0].initial, "s-", color=BLUE, label="average")
    ax.set(xscale="log", yscale="log", xlabel="iterations", ylabel="normalized squared error")
    ax.legend(frameon=False)
    return ax
