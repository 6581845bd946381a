"""Fitted against actual: rows, means of groups with their intervals, and what is left over time and by lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.report import figures
from multireplay.report.blocks import Block, Heading, Plot, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.fitted import FittedActual
from multireplay.report.rivals import Missing
from multireplay.show import plotting
from multireplay.show.text import plural, rough, short

POINTS = 1500
"""Rows that are drawn, spread over the record."""
SMALL = 0.005
"""Share of the points at each end of an axis that may lie outside it."""
NAMES = {
    "responses": ("fitted", "actual"),
    "values": ("fitted value V(s)", "one-step target r + γV(s′)"),
    "probabilities": ("fitted probability", "observed share"),
    "counts": ("fitted mean", "observed"),
}
STEPS = 24


def blocks_of(evidence: Evidence) -> list[Block]:
    """All that can be drawn of what is fitted, or a sentence on why nothing can."""
    found = evidence.fitted
    heading = Heading("What is fitted, and what is left")
    if isinstance(found, Missing):
        return [heading, Text(found.reason, tone="remark")]
    return [heading, *blocks_on(found)]


def blocks_on(found: FittedActual) -> list[Block]:
    """All that can be drawn of what is fitted beside what was observed."""
    blocks: list[Block] = [Text(_sentence(found))]
    twofold = len(np.unique(found.spread.actual[:POINTS])) <= 2
    blocks.append(_split(found) if twofold and found.what == "probabilities" else _points(found))
    if found.what in ("probabilities", "counts"):
        blocks.append(_calibration(found))
    return [*blocks, _over_time(found), _by_lag(found)]


def _sentence(found: FittedActual) -> str:
    share, left = found.pieces.explained, rough(found.pieces.spread)
    if found.what == "probabilities":
        return f"A row's outcome is {left} away from its fitted probability, as a root of the mean square."
    away = f"Rows are {left} away from what is fitted, as a root of the mean square"
    if not np.isfinite(share) or found.what == "values":
        return f"{away}."
    return f"{away}: {rough(100 * max(share, 0.0))} % of their variance is explained."


def _thinned(values: Vector) -> Vector:
    """Some of the spread rows, at even spaces."""
    return np.asarray(values[np.linspace(0, len(values) - 1, min(len(values), POINTS)).astype(int)])


def _range(*values: Vector) -> list[float]:
    """From the least to the largest, without a few far ones."""
    low, high = np.quantile(np.concatenate(values), [SMALL, 1 - SMALL])
    room = 0.06 * (high - low) or 1.0
    return [float(low - room), float(high + room)]


def _points(found: FittedActual) -> Plot:
    x_title, y_title = NAMES[found.what]
    fitted, actual = _thinned(found.spread.fitted), _thinned(found.spread.actual)
    across, up = _range(fitted), _range(fitted, actual)
    figure = figures.new(
        x={"title": {"text": x_title}, "range": across, "showgrid": True},
        y={"title": {"text": y_title}, "range": up, "showgrid": True},
    )
    figure.add_scatter(
        x=fitted.astype(np.float32), y=actual.astype(np.float32), mode="markers", name="rows",
        marker={"color": figures.OURS, "size": 4, "opacity": 0.35}, hovertemplate="%{x:.4g} · %{y:.4g}<extra></extra>",
    )  # fmt: skip
    _diagonal(figure, across)
    _groups(figure, found)
    outside = int(((fitted < across[0]) | (fitted > across[1]) | (actual < up[0]) | (actual > up[1])).sum())
    caption = (
        f"{plural(len(fitted), 'row')} spread over the record, and the means of all rows in "
        f"{plural(len(found.bins.fitted), 'group')} with their 95 % intervals under dependence: on the line where the "
        "fit is right."
    )
    if outside:
        caption += f" {plural(outside, 'row')} outside this window: a double click shows all."
    return Plot(figure, "Fitted against actual", caption, height=420)


def _split(found: FittedActual) -> Plot:
    """Fitted probabilities of the rows with each of two outcomes."""
    fitted, actual = found.spread.fitted, found.spread.actual
    low, high = float(fitted.min()), float(fitted.max())
    edges = np.linspace(low, high if high > low else low + 1e-9, STEPS + 1)
    curves = []
    for outcome, color in zip(np.unique(actual), (plotting.VERMILLION, figures.OURS), strict=False):
        count, _ = np.histogram(fitted[actual == outcome], edges)
        share = count / max(1, count.sum())
        curves.append(Line((edges[1:] + edges[:-1]) / 2, share, f"rows with {short(float(outcome))}", color))
    figure = figures.lines(curves, NAMES[found.what][0], "share of those rows", log_x=False, log_y=False)
    figure.update_traces(line_shape="hvh", fill="tozeroy", opacity=0.8)
    figure.update_yaxes(rangemode="tozero")
    caption = f"Of {plural(len(fitted), 'row')} spread over the record. The farther apart, the more the features tell."
    return Plot(figure, "Fitted probabilities by outcome", caption, height=320)


def _calibration(found: FittedActual) -> Plot:
    x_title, y_title = NAMES[found.what]
    bins = found.bins
    ends = [bins.actual - np.nan_to_num(bins.half), bins.actual + np.nan_to_num(bins.half), bins.fitted]
    low, high = float(min(map(np.min, ends))), float(max(map(np.max, ends)))
    room = 0.05 * (high - low) or 0.05
    bounds = [low - room, high + room]
    mean = "mean " * (found.what == "counts")
    figure = figures.new(
        x={"title": {"text": x_title}, "range": bounds, "showgrid": True},
        y={"title": {"text": f"{y_title} {mean}".strip()}, "range": bounds, "showgrid": True},
    )
    _diagonal(figure, bounds)
    _groups(figure, found)
    title = "Calibration" if found.what == "probabilities" else "Mean counts by group"
    caption = (
        f"All rows in {plural(len(bins.fitted), 'group')} by what is fitted: on the dashed line, that is what "
        "happens. The bars are 95 % intervals that allow for dependence."
    )
    return Plot(figure, title, caption, height=420)


def _diagonal(figure: Any, ends: Sequence[float]) -> None:
    figure.add_scatter(
        x=list(ends), y=list(ends), mode="lines", name="as fitted", hoverinfo="skip",
        line={"color": figures.GREY, "width": 1.6, "dash": "dash"},
    )  # fmt: skip


def _groups(figure: Any, found: FittedActual) -> None:
    """The means of groups with their intervals; those that are not to be relied on in another colour."""
    bins, marked = found.bins, found.bins.doubtful
    styles = ((~marked, plotting.ORANGE, "means"), (marked, plotting.VERMILLION, "means, not to be relied on"))
    for which, color, name in styles:
        if not which.any():
            continue
        known = np.isfinite(bins.half[which])
        text = [
            f"fitted {short(float(f))}<br>observed {short(float(y))} ± {short(float(h))}"
            + (f"<br>about {max(1, round(float(v)))} independent visits" if v < 1e6 else "")
            for f, y, h, v in zip(*(part[which] for part in bins), strict=True)
        ]
        figure.add_scatter(
            x=bins.fitted[which], y=bins.actual[which], mode="markers", name=name, text=text,
            marker={"color": color, "size": 9, "line": {"width": 1, "color": "white"}},
            error_y={"array": np.where(known, bins.half[which], 0.0), "color": color, "thickness": 2, "width": 4},
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _over_time(found: FittedActual) -> Plot:
    """Means of consecutive pieces of the record, and the band of independent rows."""
    pieces = found.pieces
    ends = np.cumsum(pieces.rows)
    middle, band = ends - pieces.rows / 2, 2 * pieces.spread / np.sqrt(np.maximum(pieces.rows, 1))
    hover = [
        f"rows {int(end - count):,} to {int(end) - 1:,}<br>mean residual {short(float(value))}"
        for end, count, value in zip(ends, pieces.rows, pieces.residual, strict=True)
    ]
    curve = Line(middle, pieces.residual, "mean residual", figures.OURS, mode="lines+markers", hover=hover)
    figure = figures.lines([curve], "row of the record", "mean of actual − fitted", log_x=False, log_y=False)
    figure.update_traces(line_width=1.2, marker_size=5)
    figure.add_hrect(y0=-float(band.mean()), y1=float(band.mean()), fillcolor=figures.GREY, opacity=0.25, line_width=0)
    figure.update_xaxes(tickformat="~s", range=[0, float(ends[-1])])
    beyond = int((np.abs(pieces.residual) > band).sum())
    caption = (
        f"The record in {plural(len(ends), 'piece')} of about {plural(round(float(pieces.rows.mean())), 'row')}. The "
        f"grey band is what independent rows would show 19 times of 20; {beyond} of {len(ends)} are beyond it."
    )
    return Plot(figure, "Residuals over time", caption, height=300)


def _by_lag(found: FittedActual) -> Plot:
    values, rows = found.correlation
    lags = np.arange(1, len(values))
    figure = figures.new(
        x={"title": {"text": "lag in rows"}, "range": [0.4, len(values) - 0.4]},
        y={"title": {"text": "autocorrelation"}},
        bargap=0.25,
        showlegend=False,
    )
    hover = "lag %{x}: %{y:.3f}<extra></extra>"
    figure.add_bar(x=lags, y=values[1:], marker={"color": figures.OURS}, hovertemplate=hover)
    noise = float(2 / np.sqrt(rows))
    figure.add_hrect(y0=-noise, y1=noise, fillcolor=figures.GREY, opacity=0.25, line_width=0)
    figure.update_yaxes(zeroline=True)
    caption = f"Of {plural(rows, 'row')}. The grey band is what independent residuals would show by chance."
    return Plot(figure, "Autocorrelation of the residuals", caption, height=300)
