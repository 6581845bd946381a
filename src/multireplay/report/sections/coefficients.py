"""The coefficients with their intervals: a dot and a line each, and the table of `Result.summary`."""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from multireplay._check import Positions, Vector
from multireplay.errors import UncertaintyWarning
from multireplay.inference.summary import Summary
from multireplay.inference.uncertainty import Uncertainty
from multireplay.report import figures
from multireplay.report.blocks import Block, Choice, Plot, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.show import plotting
from multireplay.show.text import short

MOST = 40
"""Coefficients that are drawn: of more, those that are farthest from 0 in standard errors."""
MOST_CLASSES = 15
"""With more classes, fewer of each are drawn, and their tables have together …"""
MOST_ROWS = 2000
"""… so many rows, or `MOST` each."""
BRIEF = 500
"""Beyond so many numbers are only there as they are shown."""
SHOWN_ROWS = 12
UNLIKE = 60.0
"""Where one coefficient is so many times as large as the median interval, intervals could not be seen. Coefficients are
then in standard errors, up to …"""
FARTHEST = 100.0
"""… so many, and one that is farther out is an arrow."""
APART = 0.27
"""How far below a coefficient's own line that for independent rows is."""
EFFECTIVE = "effective sample size"
UNDER_DEPENDENCE, DOUBTFUL = "{:g} % under dependence", "{:g} %, not to be relied on"
INDEPENDENT = "{:g} % if rows were independent"


def blocks_of(evidence: Evidence) -> list[Block]:
    """The plot, the table, and how it was made; of several classes, the reader chooses one."""
    several = evidence.by_class
    thin: Sequence[Vector | None] = evidence.textbooks or [None] * len(several)
    pairs = zip(several.items(), thin, strict=True)
    groups = {name: _of_one(known, textbook, len(several), evidence.level) for (name, known), textbook in pairs}
    return list(groups.popitem()[1]) if len(groups) == 1 else [Choice("Coefficients of the class", groups)]


def _of_one(known: Uncertainty, textbook: Vector | None, classes: int, level: float) -> list[Block]:
    with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):  # the page says it itself
        summary = known.summary(level)
    order = ordered(summary)
    plot = _plot(summary, order[: min(MOST, max(10, 40 * MOST_CLASSES // classes))], textbook)
    table = replace(table_of(summary, order[: max(MOST, MOST_ROWS // classes)]), brief=classes * len(order) > BRIEF)
    hidden = len(order) - len(table.rows)
    remarks = [*summary.lines, *[f"{hidden:,} coefficients that are nearer to 0 are not on this page."] * (hidden > 0)]
    return [plot, table, *(Text(line, "remark") for line in remarks)]


def ordered(summary: Summary) -> list[int]:
    """Of many coefficients the one farthest from 0 first, in standard errors, or by size where there are none."""
    rows = summary.rows
    if len(rows) <= MOST:
        return list(range(len(rows)))
    known = any(math.isfinite(row["t"]) for row in rows)
    sizes = [abs(row["t"] if known else row["coefficient"]) for row in rows]
    return [int(i) for i in np.argsort(-np.nan_to_num(sizes, nan=-1.0, posinf=np.inf), kind="stable")]


def _plot(summary: Summary, shown: list[int], textbook: Vector | None) -> Plot:
    rows, percent = summary.rows, 100 * summary.level
    x, low, high, error = (
        np.array([rows[i][name] for i in shown]) for name in ("coefficient", "low", "high", "standard error")
    )
    thin = np.full(len(shown), np.nan) if textbook is None else textbook[shown]
    known = np.isfinite(error) & (error > 0)
    unlike = _unlike(x, high - low)
    unit = np.where(known, error, 1.0) if unlike else np.ones(len(shown))
    place = np.clip(x / unit, -FARTHEST, FARTHEST) if unlike else x
    inside, arrow = place == x / unit, np.where(x > 0, "triangle-right", "triangle-left")
    symbol = np.where(~inside, arrow, np.where(known, "circle", "circle-open"))
    names = [figures.label(str(rows[i]["name"])) for i in shown]
    figure = figures.new(
        x={"title": {"text": "coefficient" + " / standard error" * unlike}, "showgrid": True, "zeroline": True},
        y={**figures.named_places(names), "showgrid": False},
        showlegend=bool(known.any()),
    )
    marked = np.array([bool(rows[i]["mark"]) for i in shown])
    hover = [_hover(rows[i], float(error), percent) for i, error in zip(shown, thin, strict=True)]
    half = ndtri((1 + summary.level) / 2) * thin
    for which, color, name in (
        (~marked, figures.OURS, UNDER_DEPENDENCE.format(percent)),
        (marked, plotting.VERMILLION, DOUBTFUL.format(percent)),
    ):
        places = np.flatnonzero(which)
        _strokes(figure, np.flatnonzero(which & known & inside), (low / unit, high / unit), (name, color, 5.0, 0.0))
        figure.add_scatter(
            x=place[places], y=places, mode="markers", showlegend=False,
            marker={"color": color, "size": 9, "symbol": symbol[places].tolist()},
            text=[hover[i] for i in places], hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    seen, independent = np.flatnonzero(known & inside & np.isfinite(thin)), INDEPENDENT.format(percent)
    _strokes(figure, seen, ((x - half) / unit, (x + half) / unit), (independent, figures.GREY, 1.6, APART))
    caption = _caption(known, len(rows), unlike, textbook is not None)
    return Plot(figure, "The coefficients", caption, height=max(170, 100 + 24 * len(shown)))


def _unlike(x: Vector, width: Vector) -> bool:
    """Whether intervals could not be seen if all coefficients were drawn on one scale."""
    seen = np.isfinite(width) & (width > 0)
    return bool(seen.any() and np.abs(x[seen]).max() > UNLIKE * np.median(width[seen]))


def _strokes(figure: Any, places: Positions, ends: tuple[Vector, Vector], style: tuple[str, str, float, float]) -> None:
    """One line a coefficient, as one curve with gaps."""
    if not len(places):
        return
    name, color, width, below = style
    gaps = np.full(len(places), np.nan)
    x, y = np.column_stack([ends[0][places], ends[1][places], gaps]), np.column_stack([places, places, gaps]) + below
    figure.add_scatter(
        x=x.ravel(), y=y.ravel().astype(np.float32), mode="lines", name=name, line={"color": color, "width": width},
        opacity=0.55 if width > 2 else 1.0, hoverinfo="skip",
    )  # fmt: skip


def _hover(row: dict[str, Any], thin: float, percent: float) -> str:
    """The whole name, since the axis cuts long ones, and the numbers."""
    text = f"{html.escape(str(row['name']), quote=False)}<br>{short(row['coefficient'])}"
    if math.isfinite(row["standard error"]):
        text += f" ± {short(row['standard error'])}<br>{percent:g} %: {short(row['low'])} to {short(row['high'])}"
    if math.isfinite(thin):
        text += f"<br>if rows were independent: ± {short(thin)}"
    return text + f"<br>{row['mark']}" * bool(row["mark"])


def _caption(known: Vector, dim: int, unlike: bool, thin: bool) -> str:
    parts = []
    if dim > len(known):
        far = "farthest from 0 in standard errors" if known.any() else "largest"
        parts.append(f"The {len(known)} of {dim:,} that are {far}.")
    if unlike:
        parts.append(
            "Their sizes are so different that each is drawn in units of its own standard error, and as an arrow if "
            f"it is more than {FARTHEST:g} of them from 0."
        )
    if thin and known.any():
        parts.append(
            "The thin line is what textbook standard errors say, which take rows for independent: where it is much "
            "shorter, they promise too much."
        )
    return " ".join(parts)


def table_of(summary: Summary, order: Sequence[int]) -> TableBlock:
    """The table of the summary, by the numbers."""
    rows, level = [], f"{100 * summary.level:g} % from"
    for i in order:
        found = summary.rows[i]
        row = {name: found[name] for name in ("name", "coefficient", "standard error", "t", "p")}
        worth = found["effective"]
        row |= {level: found["low"], "to": found["high"], EFFECTIVE: round(worth) if math.isfinite(worth) else worth}
        note = found["mark"].partition(": do not rely")[0]  # which the caption says once
        rows.append({name: "" if _missing(value) else value for name, value in row.items()} | {"note": note})
    caption = "A click on a heading sorts by it. p: of the test that the coefficient is 0."
    if any("do not rely" in summary.rows[i]["mark"] for i in order):
        caption += " Do not rely on an interval with a note on few rows."
    return TableBlock(rows, caption=caption, shown=SHOWN_ROWS)


def _missing(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
