"""Which samples were replayed, and in which order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multireplay._check import Positions
from multireplay.report import figures
from multireplay.report.blocks import Plot, Section, TableBlock, Text
from multireplay.report.coverage import MOST_DOTS, Coverage, Scale, coverage
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.rivals import Missing
from multireplay.report.sections.comparison import in_units
from multireplay.report.sections.convergence import epoch_names, route
from multireplay.show.text import plural, rough, short

FAR = "consecutive samples at least τ apart"
NEAR = "consecutive samples closer than τ"
HOVER = "%{text}<extra></extra>"
"""Without the long name that is in the legend."""


def section(evidence: Evidence) -> Section:
    plan, rows = evidence.plan, evidence.run.rows
    if not evidence.by_steps:
        said = [Text(_instead(evidence), tone="lead"), Text(route(evidence))]
        return Section("Replay", [*said, *in_units(evidence), _passes(evidence)])
    if plan is None:
        return Section("Replay", [Text("The order was left behind when this result was pickled.", tone="beware")])
    covered = coverage(plan, rows)
    order = _first(next(plan[0].blocks(512)), covered) if covered.doubling else _epochs(covered, evidence.tau)
    return Section("Replay", [Text(_summary(evidence, covered), tone="lead"), picture(covered, evidence.tau), order])


def _instead(evidence: Evidence) -> str:
    """What was done instead of replaying the record step by step."""
    epochs, rows = evidence.result.epochs, plural(evidence.run.rows, "row")
    if evidence.run.route == "exact":
        sums = "sums" if len(epochs) == 1 else f"{len(epochs)} Newton steps, each of sums"
        return f"Nothing was replayed: the exact fit takes {sums} over all {rows}, read in order."
    apart, count = rough(evidence.run.rows / epochs[0].taken), len(epochs) - 1
    passes = "one pass" if count == 1 else f"{count} passes"
    return (
        f"Nothing was replayed step by step. Newton: a coarse epoch of {plural(epochs[0].taken, 'sample')}, {apart} "
        f"rows apart on average, is fitted; then {passes} over all {rows} in order, a correction each."
    )


def _passes(evidence: Evidence) -> TableBlock:
    """What every pass read, and what was left after it."""
    rows = []
    for name, epoch, residual in zip(epoch_names(evidence), evidence.result.epochs, evidence.residuals, strict=True):
        apart = evidence.run.rows / epoch.taken if epoch.taken else float("nan")
        read: dict[str, object] = {"pass": name, "rows read": epoch.taken, "rows apart": float(f"{apart:.3g}")}
        rows.append(read | {"residual after it": "" if isinstance(residual, Missing) else float(residual.size)})
    return TableBlock(rows, caption="What was read, in this order", shown=24)


def _summary(evidence: Evidence, covered: Coverage) -> str:
    scales, tau, name = covered.scales, evidence.tau, type(evidence.run.replay).__name__
    last = scales[-1]
    if covered.doubling:
        text = (
            f"{name}: one pass of {plural(last.steps, 'step')} over {plural(covered.length, 'row')}. Half of all "
            f"consecutive steps read samples at least {plural(round(last.distance), 'row')} apart in time"
        )
        text += "." if math.isnan(tau) else f"; the record's autocorrelation time is {rough(tau)}."
    else:
        text = (
            f"{name}: {plural(len(scales), 'epoch')}, from {plural(scales[0].steps, 'step')} far apart in time to "
            f"{plural(last.steps, 'step')} close together, each from a fresh start."
        )
        near = [scale for scale in scales if scale.distance < tau]
        if near and len(near) < len(scales):
            text += (
                f" From {near[0].name} on the gap is below the autocorrelation time ({rough(tau)} steps): there "
                "consecutive samples are correlated, and the last epochs are nearly in order."
            )
    rounds = len(evidence.result.epochs) - evidence.planned
    if rounds > 0 and evidence.run.route == "rounds":
        each = "Then one round" if rounds == 1 else f"Then {rounds} rounds"
        text += f" {each} of variance reduction: the record in order for its mean operator, and once more as shown."
    return text


def picture(covered: Coverage, tau: float) -> Plot:
    """Position in the record by scale: marks where there are few, otherwise a strip as dark as it is dense."""
    scales = covered.scales
    figure = figures.new(
        x={"title": {"text": "position in the record (time)"}, "range": [0, covered.length * 1.004], "showgrid": False},
        y={
            "range": [len(scales) - 0.5, -0.5], "tickvals": list(range(len(scales))), "showgrid": False,
            "showline": False,
            "ticktext": [f"{s.steps:,}" if covered.doubling else s.name.removeprefix("epoch ") for s in scales],
            "title": {"text": "steps taken so far" if covered.doubling else "epoch"}, "ticks": "",
        },
        showlegend=True,
        barmode="overlay",
    )  # fmt: skip
    for name, color, members in _groups(scales, tau):
        _strips(figure, covered, color, [i for i in members if scales[i].dots is None])
        _marks(figure, covered, name, color, [i for i in members if scales[i].dots is not None])
    what = "the steps taken so far" if covered.doubling else "one epoch"
    caption = (
        f"Each line is {what}, each mark one sample. Beyond {MOST_DOTS} samples a line becomes a strip of "
        f"{len(covered.middles)} stretches, the stronger the more of a stretch's samples are read."
    )
    return Plot(figure, "Which samples each scale replays", caption, height=110 + 26 * len(scales))


def _groups(scales: tuple[Scale, ...], tau: float) -> list[tuple[str, str, list[int]]]:
    """The scales whose consecutive samples are far apart, and those where they are not."""
    near = [i for i, scale in enumerate(scales) if scale.distance < tau]
    far = [i for i in range(len(scales)) if i not in near]
    known = not math.isnan(tau)
    groups = [(FAR if known else "samples read", figures.OURS, far), (NEAR, figures.IN_ORDER, near)]
    return [group for group in groups if group[2]]


def _strips(figure: Any, covered: Coverage, color: str, members: list[int]) -> None:
    """A bar a stretch, all of one height and side by side."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    for i in members:
        share = covered.scales[i].share
        strength = share**0.4  # so that one sample in a thousand can still be seen
        opacity = 0.12 + 0.83 * strength / max(1.0, float(strength.max()))
        read = np.flatnonzero(share > 0)
        figure.add_bar(
            x=covered.middles[read], y=[0.8] * len(read), base=i - 0.4, width=covered.length / len(share),
            marker={"color": [f"rgba({red},{green},{blue},{opacity[at]:.2f})" for at in read], "line": {"width": 0}},
            customdata=share[read], showlegend=False,
            hovertemplate=f"{_hover(covered, i)}<br>each sample here read %{{customdata:.3g}} times<extra></extra>",
        )  # fmt: skip


def _marks(figure: Any, covered: Coverage, name: str, color: str, members: list[int]) -> None:
    """One mark a sample; without any, one that is not seen, for the legend."""
    dots = [(i, at) for i in members for at in covered.scales[i].dots.tolist()]  # type: ignore[union-attr]
    lines: list[float] = [i for i, _ in dots] or [math.nan]
    positions: list[float] = [at for _, at in dots] or [math.nan]
    hover = [f"position {at:,}<br>{_hover(covered, i)}" for i, at in dots]
    marks = Line(positions, lines, name, color, mode="markers", hover=hover, symbol="line-ns-open")
    figures.add_line(figure, marks, size=9)
    figure.data[-1].update(hovertemplate=HOVER, marker={"line": {"width": 1.6, "color": color}})


def _hover(covered: Coverage, i: int) -> str:
    scale = covered.scales[i]
    kind = "typical distance" if covered.doubling else "gap"
    return f"{scale.name}<br>{plural(scale.steps, 'step')}<br>{kind} {short(scale.distance)}"


def _over_time(points: list[Line], x: dict[str, Any], rows: int, caption: str) -> Plot:
    y = {"title": {"text": "position in the record"}, "range": [-0.02 * rows, 1.03 * rows]}
    figure = figures.new(x=x, y=y, showlegend=False)
    for some in points:
        figures.add_line(figure, some, size=5)
    figure.update_traces(hovertemplate=HOVER)
    return Plot(figure, "The order of the steps", caption, height=320)


def _first(positions: Positions, covered: Coverage) -> Plot:
    count, steps = len(positions), covered.scales[-1].steps
    hover = [f"step {step:,} reads position {at:,}" for step, at in enumerate(positions, 1)]
    points = Line(np.arange(1, count + 1), positions, "", figures.OURS, mode="markers", hover=hover)
    some = f"All {steps:,} steps." if count == steps else f"The first {count:,} of {steps:,} steps."
    caption = f"{some} In order they would lie on a line that climbs one row a step."
    return _over_time([points], {"title": {"text": "step"}, "range": [0, count + 1]}, covered.length, caption)


def _epochs(covered: Coverage, tau: float) -> Plot:
    """All epochs one after the other: each goes through the whole record, in twice as many steps as the one before."""
    before = np.cumsum([0, *(scale.steps for scale in covered.scales)])
    points = []
    for name, color, members in _groups(covered.scales, tau):
        steps = np.concatenate([before[i] + covered.scales[i].thinned[0] for i in members])
        positions = np.concatenate([covered.scales[i].thinned[1] for i in members])
        scales = [i for i in members for _ in covered.scales[i].thinned[0]]
        hover = [
            f"step {step:,} of the run reads position {at:,}<br>{_hover(covered, i)}"
            for step, at, i in zip(steps, positions, scales, strict=True)
        ]
        points.append(Line(steps, positions, name, color, mode="markers", hover=hover))
    caption = "Every epoch goes through the whole record. At most 64 steps of each are shown, evenly spaced."
    axis = figures.log_axis("steps since the start of the run", [1, before[-1]])
    return _over_time(points, axis, covered.length, caption)
