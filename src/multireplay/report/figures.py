"""Plotly figures that suit the page: no background of their own, colours that can be told apart on white and on black.

Text, grid and hover colours are set by the page itself, from its light or dark colours.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multireplay.report.page import needed
from multireplay.show import plotting
from multireplay.show.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

GREY = "#7d8590"
OURS, IN_ORDER, SHUFFLED = BLUE, VERMILLION, GREEN
CYCLE = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
LONGEST_NAME = 22


@dataclass(frozen=True)
class Line:
    """A curve, or points by themselves, and how they are drawn. `hover` is a text a point."""

    x: ArrayLike
    y: ArrayLike
    name: str
    color: str
    dash: str = "solid"
    mode: str = "lines"
    hover: Sequence[str] | None = None
    symbol: str = "circle"


def label(text: str) -> str:
    """A user's name as a plot's text: what would be markup is shown as it is, long ones are cut."""
    cut = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    return html.escape(cut, quote=False)


def on_both(color: str) -> str:
    """A colour that can be seen on white and on black: black itself becomes grey."""
    return GREY if color == BLACK else color


def method_style(name: str) -> tuple[str, str, str]:
    """Colour, dash and mode of a method, as in the other pictures."""
    style = plotting.method_style(name)
    dash = {"-": "solid", "--": "dash", ":": "dot"}[style["linestyle"]]
    return on_both(style["color"]), dash, "lines+markers" if "marker" in style else "lines"


def new(x: Mapping[str, Any] | None = None, y: Mapping[str, Any] | None = None, **layout: Any) -> Any:
    """An empty figure with axes that make room for their own labels."""
    axis = {
        "automargin": True, "showline": True, "zeroline": False, "ticks": "outside", "ticklen": 4,
        "tickfont": {"size": 12}, "title": {"standoff": 8, "font": {"size": 13}},
    }  # fmt: skip
    figure = needed("plotly.graph_objects").Figure(layout={
        "template": "none",
        "margin": {"l": 10, "r": 14, "t": 12, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", "size": 13},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": axis,
        "yaxis": axis,
    })  # fmt: skip
    figure.update_layout(layout)
    figure.update_xaxes(x or {})
    figure.update_yaxes(y or {})
    return figure


def log_axis(title: str, values: ArrayLike) -> dict[str, Any]:
    """A logarithmic axis through the values."""
    return {"type": "log", "title": {"text": title}, "tickangle": 0, **log_ticks(values)}


def log_ticks(values: ArrayLike) -> dict[str, Any]:
    """Ticks of a logarithmic axis: decades, every so many of them, or 1, 2 and 5 of each where there are few."""
    positive = np.asarray(values, dtype=np.float64).ravel()
    positive = positive[np.isfinite(positive) & (positive > 0)]
    if not positive.size:
        return {}
    low, high = (int(np.floor(np.log10(value))) for value in (positive.min(), positive.max()))
    if high - low < 2:
        found = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
        return {"tickvals": found, "ticktext": [f"{value:.3g}" for value in found]}
    powers = range(low, high + 1, 1 + (high - low) // 7)
    texts = [f"{10.0**k:g}" if -3 <= k <= 3 else f"10<sup>{k}</sup>".replace("-", "−") for k in powers]
    return {"tickvals": [10.0**k for k in powers], "ticktext": texts}


def named_places(names: Sequence[str]) -> dict[str, Any]:
    """An axis with a name at 0, 1, 2, …, from top to bottom."""
    return {"range": [len(names) - 0.4, -0.6], "tickvals": list(range(len(names))), "ticktext": list(names)}


def lines(curves: Sequence[Line], x_title: str, y_title: str, *, log_x: bool = True, log_y: bool = True) -> Any:
    """Curves on one pair of axes."""
    x, y = np.hstack([curve.x for curve in curves]), np.hstack([curve.y for curve in curves])
    figure = new(
        x=log_axis(x_title, x) if log_x else {"title": {"text": x_title}},
        y=log_axis(y_title, y) if log_y else {"title": {"text": y_title}},
    )
    for curve in curves:
        add_line(figure, curve)
    return figure


def add_line(figure: Any, curve: Line, size: int = 8) -> None:
    """Draw one curve, with marks of that size if it has any."""
    name = html.escape(curve.name, quote=False)
    hover = "%{x:,} · %{y:.4g}" if curve.hover is None else "%{text}"
    figure.add_scatter(
        x=np.asarray(curve.x), y=np.asarray(curve.y), name=name, mode=curve.mode,
        line={"color": curve.color, "width": 2, "dash": curve.dash},
        marker={"color": curve.color, "size": size, "symbol": curve.symbol},
        text=None if curve.hover is None else list(curve.hover), hovertemplate=f"{hover}<extra>{name}</extra>",
    )  # fmt: skip


def level(figure: Any, value: float, name: str) -> None:
    """A dashed line across the figure at a height, with an entry in the legend."""
    x, y = np.hstack([trace.x for trace in figure.data]), np.hstack([trace.y for trace in figure.data])
    if figure.layout.yaxis.type == "log":
        figure.update_yaxes(log_ticks(np.append(y, value)))
    name = html.escape(name, quote=False)
    figure.add_scatter(
        x=[x.min(), x.max()], y=[value, value], mode="lines", name=name,
        line={"color": GREY, "width": 1.6, "dash": "dash"}, hovertemplate=f"{value:.4g}<extra>{name}</extra>",
    )  # fmt: skip
