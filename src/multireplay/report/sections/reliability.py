"""How far the intervals are to be relied on: effective sample sizes, doubts, and other numbers of batches."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from multireplay.buffer.names import listed
from multireplay.inference.doubts import NAMED
from multireplay.inference.uncertainty import FEW, Uncertainty
from multireplay.report import figures
from multireplay.report.blocks import Block, Heading, Plot, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.reliability import ByBatches
from multireplay.show import plotting
from multireplay.show.text import rough, short

MOST = 40
"""Coordinates whose effective sample sizes are drawn: the smallest."""
MOST_LINES = 3
"""Coordinates with a line of their own: those whose standard errors rise most."""


def blocks_of(evidence: Evidence) -> list[Block]:
    """Effective sample sizes, doubts, and standard errors by the number of batches; nothing without intervals."""
    known = evidence.known
    if known.images is None:
        return []
    blocks: list[Block] = [Heading("How far to rely on the intervals"), _verdict(evidence)]
    if known.effective is not None and known.visits is not None:
        blocks.append(_effective(known))
    if evidence.batches is not None:
        blocks.append(_by_batches(evidence.batches, known.names))
    return blocks


def _verdict(evidence: Evidence) -> Text:
    known, batches = evidence.known, evidence.batches
    parts, rising = [], batches is not None and batches.rising
    error = np.asarray(known.standard_error)
    there, unknown, held = np.isfinite(error), np.isposinf(error), np.isnan(error)
    for which, why in ((unknown, "the record says nothing of"), (held, "the feasible set holds at its boundary")):
        if which.any():
            parts.append(f"There is no interval for {_named(known, which)}, which {why}.")
    if not there.any():
        return Text(" ".join(parts), tone="beware")
    if known.doubts:
        parts.append(f"{known.doubt_note()[:1].upper()}{known.doubt_note()[1:]}.")
    elif known.effective is not None:
        least = int(np.argmin(np.where(there, known.effective, np.inf)))
        worth = f"about {rough(float(known.effective[least]))} independent rows for {known.names[least]}"
        other = "" if there.all() else "other "
        parts.append(f"The record is worth {worth}, of which it has fewest: enough for every {other}interval.")
    else:
        parts.append("Effective sample sizes need the record, which is not here.")
    if rising:
        parts.append(
            "Standard errors still grow with the length of the batches: the record depends on its past for longer than "
            "32 batches can tell, and intervals are probably too short."
        )
    elif batches is not None:
        parts.append("With longer batches standard errors do not become larger than those shown, beyond chance.")
    return Text(" ".join(parts), tone="beware" if known.doubts or rising or unknown.any() else "plain")


def _named(known: Uncertainty, which: NDArray[np.bool_]) -> str:
    """Those coefficients by name, the first of many."""
    return listed([known.names[i] for i in np.flatnonzero(which)], NAMED)


def _effective(known: Uncertainty) -> Plot:
    """The effective sample size of every coordinate, the independent visits of its feature, and the limit of both."""
    assert known.effective is not None
    assert known.visits is not None
    least = np.minimum(known.effective, known.visits)
    shown = np.arange(len(least)) if len(least) <= MOST else np.argsort(least, kind="stable")[:MOST]
    names = [figures.label(known.names[i]) for i in shown]
    effective, visits = np.maximum(known.effective[shown], 0.5), np.maximum(known.visits[shown], 0.5)
    seen = np.isfinite(visits) & (visits < 1e3 * max(effective.max(), FEW))
    axis = figures.log_axis("independent rows that would tell as much", np.hstack([effective, visits[seen], FEW]))
    ends = np.hstack([effective, visits[seen], FEW / 2, FEW * 2])
    figure = figures.new(
        x={**axis, "showgrid": True, "range": [math.log10(ends.min()) - 0.1, math.log10(ends.max()) + 0.1]},
        y={**figures.named_places(names), "showgrid": False},
    )
    figure.add_vrect(
        x0=10 ** (math.log10(ends.min()) - 0.1), x1=FEW, fillcolor=plotting.VERMILLION, opacity=0.1, line_width=0
    )
    places = np.arange(len(shown))
    text = [
        f"{name}<br>effective sample size {short(float(round(size)))}" + f"<br>{known.doubts.get(int(i), '')}"
        for name, size, i in zip(names, effective, shown, strict=True)
    ]
    figure.add_scatter(
        x=effective, y=places, mode="markers", name="effective sample size", text=text,
        marker={"color": np.where(effective < FEW, plotting.VERMILLION, figures.OURS), "size": 9},
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    if seen.any():
        figure.add_scatter(
            x=visits[seen], y=places[seen], mode="markers", name="independent visits of the feature",
            marker={
                "color": np.where(visits[seen] < FEW, plotting.VERMILLION, plotting.ORANGE),
                "size": 10, "symbol": "diamond-open", "line": {"width": 2},
            },
            text=[f"{names[i]}<br>about {short(float(round(visits[i])))} independent visits" for i in places[seen]],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    some = f"The {MOST} smallest of {len(least):,}. " if len(least) > MOST else ""
    caption = f"{some}Below {FEW:g}, the shaded part, an interval is marked."
    return Plot(figure, "Effective sample sizes", caption, height=max(170, 100 + 24 * len(shown)))


def _by_batches(found: ByBatches, names: tuple[str, ...]) -> Plot:
    """Plain standard errors over those shown, by the number of batches, with the band of chance around 1."""
    counts, middle = found.counts, np.nanmedian(found.ratios, axis=1)
    places = np.arange(len(counts))
    curves = [Line(places, middle, "median of all coefficients", figures.OURS, mode="lines+markers")]
    last = np.nan_to_num(found.ratios[-1], nan=-1.0)
    if found.ratios.shape[1] > 1:
        for i, color in zip(np.argsort(-last, kind="stable")[:MOST_LINES], figures.CYCLE[1:], strict=False):
            curves.append(Line(places, found.ratios[:, i], figures.label(names[i]), color, dash="dot"))
    figure = figures.lines(curves, "number of batches", "standard error / as shown", log_x=False, log_y=False)
    low, high = found.chance()
    figure.add_scatter(
        x=np.hstack([places, places[::-1]]), y=np.hstack([low, high[::-1]]), mode="lines", fill="toself",
        fillcolor="rgba(125,133,144,0.22)", line={"width": 0}, hoverinfo="skip", name="by chance, if as shown",
    )  # fmt: skip
    figure.data = (figure.data[-1], *figure.data[:-1])  # behind the lines
    figure.update_xaxes(tickvals=places, ticktext=[str(count) for count in counts], range=[-0.15, len(counts) - 0.85])
    figure.update_yaxes(rangemode="tozero", showgrid=True)
    caption = (
        "Fewer batches are longer ones. These standard errors take batches for independent; those shown allow for the "
        "dependence of 32 batches. Lines that rise above the band say that the record is stickier than that can tell. "
        "Dotted: the coefficients that rise most."
    )
    return Plot(figure, "Standard errors by the number of batches", caption, height=340)
