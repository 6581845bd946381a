"""One picture of the bench: the ratio to the exact fit, by problem and method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.show.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

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
"""Methods in the picture, each by colour and marker; the table has all of them."""

FLOOR, CEILING = 0.3, 3e3


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Each method at its tuned step where it has one; a line through its standard errors; ∞ at the right edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(row["problem"] for row in rows))
    figure = Figure(figsize=(10, 2.6 + 0.5 * len(problems)), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    shown = {method: style for method, style in SHOWN.items() if any(row["method"] == method for row in rows)}
    for i, (method, (color, marker)) in enumerate(shown.items()):
        best = {row["problem"]: row for row in rows if row["method"] == method and row["step"] != "n/a"}
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
    figure.savefig(path, dpi=150)
