"""The live page on a stream: the answer now and over time, its intervals, drift and rate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._write import save_text
from multireplay.report import figures
from multireplay.report.blocks import Block, Fact, Facts, Plot, Section, TableBlock, Text
from multireplay.report.figures import CYCLE, GREY, Line
from multireplay.report.page import as_file, render
from multireplay.show.text import plural, short
from multireplay.streaming.answer import StreamResult

UNKNOWN = 1e100
"""A threshold above this stands for none."""
APART = 0.1
"""Of the width of a plot, between the texts at two alarms."""
DRAWN = 6
"""Coordinates that are drawn: those with the largest |t|."""


def report_of_stream(
    path: str | os.PathLike[str], result: StreamResult, history: Sequence[Mapping[str, Any]], about: str, refresh: float
) -> Path:
    """Write a page on a stream, which browsers load again every so many seconds, and return its path.

    Parameters
    ----------
    path : str or path
        The file.
    result : StreamResult
        The answer now.
    history : sequence of mappings
        What was known before: position, x, standard_error, low, high, statistic, threshold, rate.
    about : str
        A line below the title.
    refresh : float
        Seconds.
    """
    file = as_file(path)
    rate = history[-1]["rate"] if history else 0.0
    facts = [
        Fact("rows taken", f"{result.position:,}"),
        Fact("rows a second", f"{rate:,.0f}" if rate >= 100 else short(rate)),
        Fact(
            "alarms of drift",
            f"{len(result.drift.alarms)}",
            f"last at row {result.drift.alarms[-1]:,}" if result.drift.alarms else "",
        ),
    ]
    if history and history[-1].get("quarantined"):
        facts.insert(1, Fact("put aside", f"{history[-1]['quarantined']:,}", "rows that cannot be used"))
    table = result.summary().rows
    blocks: list[Block] = [
        Facts(facts),
        Text(str(result.status), tone="lead"),
        TableBlock(table, caption="The answer now"),
    ]
    sections = [Section("Now", blocks)]
    if len(history) > 1:
        sections += [
            Section("Over time", _over_time(result, history)),
            Section("Drift and rate", _drift(result, history)),
        ]
    save_text(file, render("A stream", sections, about, refresh))
    return file


def _over_time(result: StreamResult, history: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The largest coordinates with their intervals."""
    at = np.array([one["position"] for one in history])
    x = np.array([one["x"] for one in history], dtype=float)
    ends = {name: np.array([one[name] for one in history], dtype=float) for name in ("low", "high")}
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.nan_to_num(np.abs(x[-1] / history[-1]["standard_error"]), nan=0.0)
    found: list[Block] = []
    for place, number in enumerate(np.argsort(-size, kind="stable")[:DRAWN]):
        color, name = CYCLE[place % len(CYCLE)], result.names[number]
        curves = [
            Line(at, x[:, number], name, color),
            Line(at, ends["low"][:, number], "95 % from", GREY, "dot"),
            Line(at, ends["high"][:, number], "to", GREY, "dot"),
        ]
        figure = figures.lines(curves, "rows", name, log_x=False, log_y=False)
        found.append(Plot(figure, name, "The answer and its interval under dependence.", 280))
    return found


def _drift(result: StreamResult, history: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The largest move, with the alarms as lines across, and the rate."""
    at = [one["position"] for one in history]
    move = [one["statistic"] for one in history]
    limit = [one["threshold"] if one["threshold"] < UNKNOWN else np.nan for one in history]
    curves = [
        Line(at, move, "largest move", CYCLE[0]),
        Line(at, limit, "alarm above", CYCLE[1], "dash"),
    ]
    moves = figures.lines(curves, "rows", "in standard errors", log_x=False, log_y=False)
    _mark(moves, [row for row in result.drift.alarms if row >= at[0]], [*move, *limit])
    rates = figures.lines(
        [Line(at, [one["rate"] for one in history], "rows a second", CYCLE[2])], "rows", "rows a second",
        log_x=False, log_y=False,
    )  # fmt: skip
    told = plural(len(result.drift.alarms), "alarm")
    about = "Alarms are lines across, with the row at which something had changed." * bool(result.drift.alarms)
    return [Text(f"{result.drift} ({told})"), Plot(moves, "Drift", about, 280), Plot(rates, "Rate", "", 280)]


def _mark(figure: Any, alarms: Sequence[int], heights: Sequence[float]) -> None:
    """A line across at every alarm, and its row beside those that leave room for it."""
    if not alarms:
        return
    x, ends = np.repeat(np.array(alarms, dtype=float), 3), [np.nanmin(heights), np.nanmax(heights), np.nan]
    rows = [f"row {row:,.0f}" for row in x]
    figures.add_line(figure, Line(x, np.tile(ends, len(alarms)), "alarm", CYCLE[3], "dot", hover=rows))
    written, width = np.inf, float(np.ptp(figure.data[0].x))
    for row in reversed(alarms):
        if written - row > APART * width:
            figure.add_annotation(
                x=row, y=0, yref="paper", text=f"row {row:,}", showarrow=False, xanchor="right", yanchor="bottom",
                font={"size": 11, "color": GREY},
            )  # fmt: skip
            written = row
