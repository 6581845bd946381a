"""Fitted against actual: rows, means of groups with their intervals, and what is left over time and by lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multireplay._check import Positions, Vector
from multireplay.report import figures
from multireplay.report.blocks import Block, Heading, Plot, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.fitted import ByClass, FittedActual
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
    "rates": ("fitted rate", "observed"),
    "classes": ("probability of the likeliest class", "share of rows of it"),
}
SHARES = ("probabilities", "classes")
"""What is fitted as the share of rows of a class."""
MOST_CLASSES, NAMED, DRAWN = 30, 10, 6
"""The most frequent classes, of which is drawn what they are taken for, a curve when asked for, and from the start."""
STEPS = 24


def blocks_of(evidence: Evidence) -> list[Block]:
    """All that can be drawn of what is fitted, or a sentence on why nothing can."""
    found = evidence.fitted
    heading = Heading("What is fitted, and what is left")
    if isinstance(found, Missing):
        return [heading, Text(found.reason, tone="remark")]
    shown = evidence.shown
    return [heading, *blocks_on(found, list(evidence.by_class), () if shown is None else shown.outcomes)]


def blocks_on(found: FittedActual, names: Sequence[str] = (), outcomes: Sequence[Any] = ()) -> list[Block]:
    """All that can be drawn of what is fitted beside what was observed, by the names of classes or of 0 and 1."""
    blocks: list[Block] = [Text(_sentence(found))]
    if found.classes is not None:
        blocks += _by_class(found.classes, names, f"{100 * found.level:g} %")
    twofold = len(np.unique(found.spread.actual[:POINTS])) <= 2
    blocks.append(_split(found, outcomes) if twofold and found.what in SHARES else _points(found))
    if found.what in (*SHARES, "counts", "rates"):
        blocks.append(_calibration(found))
    return [*blocks, _over_time(found), _by_lag(found)]


def _sentence(found: FittedActual) -> str:
    share, left = found.pieces.explained, rough(found.pieces.spread)
    if found.what == "classes":
        return (
            f"The outcome of a row is 1 where it is of the likeliest class: {left} away from the probability of that, "
            "as a root of the mean square."
        )
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
        f"{plural(len(found.bins.fitted), 'group')} with their {100 * found.level:g} % intervals under dependence: on "
        "the line where the fit is right."
    )
    if outside:
        caption += f" {plural(outside, 'row')} outside this window: a double click shows all."
    return Plot(figure, "Fitted against actual", caption, height=420)


def _split(found: FittedActual, outcomes: Sequence[Any]) -> Plot:
    """Fitted probabilities of the rows with each of two outcomes."""
    fitted, actual = found.spread.fitted, found.spread.actual
    low, high = float(fitted.min()), float(fitted.max())
    edges = np.linspace(low, high if high > low else low + 1e-9, STEPS + 1)
    curves = []
    for outcome, color in zip(np.unique(actual), (plotting.VERMILLION, figures.OURS), strict=False):
        count, _ = np.histogram(fitted[actual == outcome], edges)
        share = count / max(1, count.sum())
        name = f"rows with {outcomes[int(outcome)] if len(outcomes) == 2 else short(float(outcome))}"
        if found.what == "classes":
            name = "rows of that class" if outcome else "rows of another"
        curves.append(Line((edges[1:] + edges[:-1]) / 2, share, name, color))
    figure = figures.lines(curves, NAMES[found.what][0], "share of those rows", log_x=False, log_y=False)
    figure.update_traces(line_shape="hvh", fill="tozeroy", opacity=0.8)
    figure.update_yaxes(rangemode="tozero")
    caption = f"Of {plural(len(fitted), 'row')} spread over the record. The farther apart, the more the features tell."
    return Plot(figure, "Fitted probabilities by outcome", caption, height=320)


def _by_class(found: ByClass, names: Sequence[str], level: str) -> list[Block]:
    """What rows of every class are taken for, and calibration of each."""
    count = len(found.confusion)
    labels = [figures.label(str(name)) for name in (names if len(names) == count else range(count))]
    order = np.argsort(-found.confusion.sum(axis=1), kind="stable")
    return [confused(found.confusion, labels), *[_class_calibration(found, labels, order, level)] * bool(found.bins)]


def confused(confusion: Vector, labels: Sequence[str]) -> Plot:
    """What rows of every class are taken for: the area of a mark is the share of the rows of that class."""
    order = np.sort(np.argsort(-confusion.sum(axis=1), kind="stable")[:MOST_CLASSES])
    names, shown = [labels[i] for i in order], confusion[np.ix_(order, order)]
    total = confusion.sum(axis=1)[order]
    shares = shown / np.where(total > 0, total, 1.0)[:, None]
    few = len(names) <= DRAWN  # more names have no room on a phone but on one axis
    across = {"tickvals": list(range(len(names))), "ticktext": names, "range": [-0.6, len(names) - 0.4]}
    title = {"text": "likeliest class" if few else "likeliest class, in the same order"}
    figure = figures.new(
        x={**across, "title": title, "showgrid": True, "tickangle": -40, "showticklabels": few},
        y={**figures.named_places(names), "title": {"text": "observed class"}, "showgrid": True},
    )
    largest = min(52.0, 250.0 / len(names))
    for hit, color, name in (
        (True, figures.OURS, "rightly told"),
        (False, plotting.VERMILLION, "taken for another"),
    ):
        row, column = np.nonzero((shown > 0) & (np.eye(len(names), dtype=bool) == hit))
        told = shares[row, column]
        hover = [
            f"{names[i]}, taken for {names[j]}<br>{rough(100 * share)} %, {short(float(shown[i, j]))} rows"
            for i, j, share in zip(row, column, told, strict=True)
        ]
        figure.add_scatter(
            x=column, y=row, name=name, mode="markers+text" if few else "markers", hovertext=hover,
            marker={"color": color, "size": np.maximum(largest * np.sqrt(told), 3), "opacity": 0.75},
            text=[f"{share:.0%}" if share >= 0.005 else "" for share in told],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    right = rough(100 * float(np.trace(confusion) / (confusion.sum() or 1.0)))
    caption = f"The area of a mark is its share of the rows of that class. {right} % of all rows are rightly told."
    if len(labels) > MOST_CLASSES:
        caption += f" The {MOST_CLASSES} most frequent of {len(labels)} are shown."
    return Plot(figure, "What every class is taken for", caption, height=int(min(620, 240 + 26 * len(names))))


def _class_calibration(found: ByClass, labels: Sequence[str], order: Positions, level: str) -> Plot:
    """Observed shares by fitted probability, a curve a class."""
    figure = figures.new(
        x={"title": {"text": "fitted probability"}, "range": [-0.03, 1.03], "showgrid": True},
        y={"title": {"text": "observed share"}, "range": [-0.06, 1.06], "showgrid": True},
    )
    _diagonal(figure, [0.0, 1.0])
    for place, number in enumerate(order[:NAMED].tolist()):
        bins, color = found.bins[number], figures.CYCLE[place % len(figures.CYCLE)]
        figure.add_scatter(
            x=bins.fitted, y=bins.actual, mode="lines+markers", name=labels[number],
            visible=True if place < DRAWN else "legendonly", line={"color": color, "width": 1.2},
            marker={"color": color, "size": 7},
            error_y={"array": np.nan_to_num(bins.half), "color": color, "thickness": 1.2, "width": 3},
            hovertemplate="fitted %{x:.3f}<br>observed %{y:.3f}<extra>" + labels[number] + "</extra>",
        )  # fmt: skip
    caption = (
        "All rows in groups by the probability of a class: on the dashed line, that is what happens. The bars are "
        f"{level} intervals that allow for dependence."
    )
    if len(labels) > DRAWN:
        caption += (
            f" The {DRAWN} most frequent classes are drawn; a click on a name shows another of the first {NAMED}."
        )
    return Plot(figure, "Calibration of every class", caption, height=460)


def _calibration(found: FittedActual) -> Plot:
    x_title, y_title = NAMES[found.what]
    bins = found.bins
    ends = [bins.actual - np.nan_to_num(bins.half), bins.actual + np.nan_to_num(bins.half), bins.fitted]
    low, high = float(min(map(np.min, ends))), float(max(map(np.max, ends)))
    room = 0.05 * (high - low) or 0.05
    bounds = [low - room, high + room]
    mean = "mean " * (found.what in ("counts", "rates"))
    figure = figures.new(
        x={"title": {"text": x_title}, "range": bounds, "showgrid": True},
        y={"title": {"text": f"{y_title} {mean}".strip()}, "range": bounds, "showgrid": True},
    )
    _diagonal(figure, bounds)
    _groups(figure, found)
    title = f"Mean {found.what} by group" if found.what in ("counts", "rates") else "Calibration"
    caption = (
        f"All rows in {plural(len(bins.fitted), 'group')} by what is fitted: on the dashed line, that is what "
        f"happens. The bars are {100 * found.level:g} % intervals that allow for dependence."
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
