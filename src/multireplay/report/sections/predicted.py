"""Predictions for the rows of a file: over time, by class, and beside what was observed where that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.report import figures
from multireplay.report.blocks import Block, Heading, Plot, Section, TableBlock, Text
from multireplay.report.fitted import look_at_rows
from multireplay.report.sections.fitted import blocks_on, confused
from multireplay.show.text import plural

POINTS = 1500
"""Rows that are drawn, spread over the file."""
FEW = 200
"""Up to so many have a mark each."""
FEWEST = 8
"""Rows that have both, without which there is nothing to compare."""
SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the rows: the quantiles of the predictions."""
MOST_CLASSES = 40
"""Bars that are drawn: the most frequent classes."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions in the order of the rows: numbers or the names of classes, and what else is known of the rows."""

    target: str
    what: str
    """"responses", "counts", or "probabilities" where classes are predicted."""
    values: NDArray[Any]
    """Of the rows that have one."""
    rows: NDArray[np.int64]
    """Which rows of the file these are."""
    times: tuple[str, Sequence[Any]] | None = None
    """The name of the time and when each of these rows was."""
    actual: NDArray[Any] | None = None
    """What was observed, as far as it is known."""
    seen: NDArray[np.bool_] | None = None
    """Where it is."""
    chance: Vector | None = None
    """The probability of the second class, or with more of them that of the predicted one."""
    ends: tuple[Vector, Vector] | None = None
    """Of an interval of the mean response."""
    classes: tuple[str, ...] = ()
    level: float = 0.95
    """Of the intervals."""


def section(found: Predictions, said: Sequence[str], tables: Sequence[TableBlock]) -> Section:
    """The tab: it opens on a picture, unless there is no prediction at all."""
    words: list[Block] = [Text(line, tone="lead" if number == 0 else "plain") for number, line in enumerate(said)]
    if not len(found.values):
        return Section("Predictions", words)
    blocks = [_over_rows(found), *words]
    if found.classes:
        blocks.insert(0 if len(found.classes) > 2 else 1, _by_class(found))
    blocks.append(TableBlock(_spread(found), caption="Predictions"))
    blocks += _compared(found)
    return Section("Predictions", [*blocks, *tables])


def _over_rows(found: Predictions) -> Plot:
    """Predictions by row or time, with what was observed, or the probability where classes are predicted."""
    some = np.linspace(0, len(found.values) - 1, min(len(found.values), POINTS)).astype(int)
    title, when = ("row of the file", found.rows) if found.times is None else found.times
    x = [when[k] for k in some.tolist()]
    values = found.values if found.chance is None else found.chance
    up = figures.label(found.target)
    if found.classes:
        up = f"probability of {figures.label(found.classes[1])}" if len(found.classes) == 2 else "its probability"
    figure = figures.new(x={"title": {"text": figures.label(title)}}, y={"title": {"text": up}, "showgrid": True})
    if found.ends is not None:
        low, high = (ends[some] for ends in found.ends)
        for ends, fill in ((low, None), (high, "tonexty")):
            figure.add_scatter(
                x=x, y=ends.astype(np.float32), mode="lines", line={"width": 0}, fill=fill, hoverinfo="skip",
                fillcolor="rgba(125,133,144,0.3)", showlegend=fill is not None, name="interval of the mean response",
            )  # fmt: skip
    if found.actual is not None and found.seen is not None and not found.classes:
        observed = np.where(found.seen, found.actual, np.nan)[some]
        figure.add_scatter(
            x=x, y=observed.astype(np.float32), mode="markers", name="observed",
            marker={"color": figures.GREY, "size": 4, "opacity": 0.6},
        )  # fmt: skip
    mode = "markers" if found.classes else "lines" if len(some) > FEW else "lines+markers"
    figure.add_scatter(
        x=x, y=values[some].astype(np.float32), mode=mode, name="predicted", marker={"size": 4, "color": figures.OURS},
        line={"width": 1.2, "color": figures.OURS},
    )  # fmt: skip
    few = f"{plural(len(some), 'row')} spread over {len(found.values):,}. " if len(some) < len(found.values) else ""
    of = f"Probability of {found.classes[1]}" if len(found.classes) == 2 else "Probability of the predicted class"
    return Plot(figure, f"{of if found.classes else 'Predictions'}, row by row", few.strip(), height=340)


def _by_class(found: Predictions) -> Plot:
    """How many rows each class has, predicted and observed."""
    names = np.array(found.classes)
    predicted = np.array([(found.values == name).sum() for name in names])
    shown = np.sort(np.argsort(-predicted, kind="stable")[:MOST_CLASSES])
    figure = figures.new(
        x={"title": {"text": figures.label(found.target)}, "type": "category"}, y={"title": {"text": "rows"}},
        barmode="group",
    )  # fmt: skip
    labels = [figures.label(name) for name in names[shown]]
    figure.add_bar(x=labels, y=predicted[shown], name="predicted", marker={"color": figures.OURS})
    if found.actual is not None:
        observed = [int((found.actual[found.seen] == name).sum()) for name in names[shown]]
        figure.add_bar(x=labels, y=observed, name="observed", marker={"color": figures.GREY})
    few = f"The {MOST_CLASSES} most frequent of {len(names)}." if len(names) > MOST_CLASSES else ""
    return Plot(figure, "Rows by class", few, height=320)


def _spread(found: Predictions) -> list[dict[str, Any]]:
    if found.classes:
        counts = [(name, int((found.values == name).sum())) for name in found.classes]
        return [{"class": name, "rows": n, "share": f"{n / len(found.values):.2%}"} for name, n in counts]
    levels = np.quantile(found.values, SHARES)
    return [{"share of rows below": f"{s:.0%}", "prediction": float(v)} for s, v in zip(SHARES, levels, strict=True)]


def _compared(found: Predictions) -> list[Block]:
    """Fitted against actual, calibration and what is left, of the rows of which both are known."""
    seen = found.seen
    if found.actual is None or seen is None:
        return []
    values, actual = (found.values if found.chance is None else found.chance)[seen], found.actual[seen]
    blocks: list[Block] = [Heading("Beside what was observed")]
    if not found.classes:
        actual = actual.astype(np.float64)
    elif len(found.classes) == 2:
        actual = (actual == found.classes[1]).astype(np.float64)
    else:
        codes = {name: number for number, name in enumerate(found.classes)}
        confusion = np.zeros((len(codes), len(codes)))
        for one, other in zip(actual, found.values[seen], strict=True):
            if one in codes:
                confusion[codes[one], codes[other]] += 1
        blocks.append(confused(confusion, [figures.label(name) for name in found.classes]))
        actual = (actual == found.values[seen]).astype(np.float64)
    fine = np.isfinite(values) & np.isfinite(actual)
    if fine.sum() < FEWEST:
        return []
    what = "classes" if len(found.classes) > 2 else found.what
    return [
        *blocks,
        *blocks_on(look_at_rows(what, values[fine], actual[fine], found.level), outcomes=found.classes),
    ]
