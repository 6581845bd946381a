"""How the run came to its answer: residual and error by epoch, step sizes, and what competed on a held-out block."""

from __future__ import annotations

import numpy as np

from multireplay.report import figures
from multireplay.report.blocks import Block, Plot, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.rivals import Missing, recorded
from multireplay.report.sections.comparison import in_units
from multireplay.result import Epoch
from multireplay.show import plotting
from multireplay.show.text import TextTable, plural, rough, short
from multireplay.updates.base import Route

WAYS: dict[Route, str] = {
    "exact": "the exact fit of all rows",
    "corrections": "a fit of some rows that are far apart, corrected in passes over all of them",
    "rounds": "steps, then rounds of variance reduction",
    "steps": "plain steps",
}


def section(evidence: Evidence) -> Section:
    blocks: list[Block] = [Text(_summary(evidence), tone="lead"), Text(route(evidence)), *in_units(evidence)]
    if evidence.result.epochs[0].curve is not None:
        blocks.append(_errors(evidence))
    blocks += _residuals(evidence)
    if len(evidence.result.epochs) > 1 and evidence.by_steps:
        blocks.append(_steps(evidence))
    blocks.append(_table(evidence))
    if evidence.result.candidates is not None:
        blocks += _candidates(evidence.result.candidates)
    return Section("Convergence", blocks)


def route(evidence: Evidence) -> str:
    """Which way was taken, and why."""
    return f"The way to the answer: {WAYS[evidence.run.route]}. Why: {evidence.run.why.rstrip('.')}."


def _summary(evidence: Evidence) -> str:
    result, residual, start = evidence.result, evidence.residual, evidence.start
    if isinstance(residual, Missing):
        return f"{plural(len(result.epochs), 'epoch')}, {result.passes:.3g} passes over the record. {residual.reason}"
    text = f"The residual of the answer is {rough(residual.size)}"
    if not isinstance(start, Missing) and start.size > 0:
        text = f"From the start to the answer the residual went from {rough(start.size)} to {rough(residual.size)}"
    if not residual.error > 0 or not np.isfinite(residual.error):
        return f"{text}."
    share = residual.size / residual.error
    if share <= 1 and not result.status.ok:
        return f"{text}. That is {rough(share)} of its own standard error, and yet the run has not converged."
    if share <= 0.1:
        return f"{text}. That is {rough(share)} of its own standard error on this record: nothing is left but noise."
    if share <= 1:
        return f"{text}. That is {rough(share)} of its own standard error: within the noise of this record."
    return f"{text}. That is {rough(share)} times its own standard error: the run has not arrived at the exact fit."


def epoch_names(evidence: Evidence) -> list[str]:
    """What each epoch is, in a word: those of the plan by their number, later ones as rounds or corrections."""
    epochs, planned, route = evidence.result.epochs, evidence.planned, evidence.run.route
    if route == "exact":
        steps = [f"Newton step {i}" for i in range(1, len(epochs) + 1)]
        return [*steps[:-1], "exact fit"] if evidence.result.status.ok else steps
    if route == "corrections":
        return ["coarse epoch", *(f"correction {i}" for i in range(1, len(epochs)))]
    names = ["plain pass"] if planned == 1 else [f"epoch {epoch.k}" for epoch in epochs[:planned]]
    later = range(planned, len(epochs))
    return [*names, *(f"round {index - planned + 1}" if route == "rounds" else f"run {index + 1}" for index in later)]


def _about(epoch: Epoch, by_steps: bool) -> str:
    if not by_steps:
        return f"{plural(epoch.taken, 'row')} read"
    gap = "no fixed gap" if epoch.gap is None else f"gap {short(epoch.gap)}"
    return f"{plural(epoch.taken, 'step')}, {gap}, step size {short(epoch.step)}"


def _axis(names: list[str], first: int) -> dict[str, object]:
    """An axis with a mark an epoch; at most ten of them carry their name."""
    marks = list(range(first, first + len(names)))
    every = -(-len(names) // 10)
    if len(names) > 6:
        names = [name.removeprefix("epoch ") for name in names]
    shown = [name if (len(names) - 1 - i) % every == 0 else "" for i, name in enumerate(names)]
    title = "epoch" if len(names) > 6 else ""
    return {"tickvals": marks, "ticktext": shown, "title": {"text": title}, "range": [marks[0] - 0.4, marks[-1] + 0.4]}


def _residuals(evidence: Evidence) -> list[Block]:
    epochs, chosen = evidence.result.epochs, evidence.result.chosen % len(evidence.result.epochs)
    names, found = epoch_names(evidence), list(evidence.residuals)
    about = [_about(epoch, evidence.by_steps) for epoch in epochs]
    first = 1
    if not isinstance(evidence.start, Missing):
        names, found, about, first = ["start", *names], [evidence.start, *found], ["before any step", *about], 0
    sizes = np.array([np.nan if isinstance(r, Missing) or not r.size > 0 else r.size for r in found])
    if not np.isfinite(sizes).any() or len(sizes) == 1:
        return []
    marks = np.arange(first, first + len(names))
    hover = [
        f"{name}<br>residual {short(float(size))}<br>{what}"
        for name, size, what in zip(names, sizes, about, strict=True)
    ]
    line = Line(marks, sizes, "residual on the record", figures.OURS, "solid", "lines+markers", hover)
    figure = figures.lines([line], "", "residual ‖F̂(x)‖", log_x=False)
    figure.update_xaxes(_axis(names, first))
    residual = evidence.residual
    if not isinstance(residual, Missing) and residual.error > 0 and np.isfinite(residual.error):
        figures.level(figure, residual.error, "its standard error")
    answer = chosen + 1 - first
    if len(epochs) > 1 and np.isfinite(sizes[answer]):
        at, size, what = [marks[answer]], [sizes[answer]], [f"the answer<br>{hover[answer]}"]
        star = Line(at, size, "the answer", figures.IN_ORDER, mode="markers", hover=what, symbol="star")
        figures.add_line(figure, star, size=14)
    caption = (
        "The residual is the size of the record's mean operator at the answer of each epoch: zero at the exact fit. "
        "Below its standard error, what is left of it is noise of this record."
    )
    return [Plot(figure, "Residual of every epoch", caption, height=340)]


def _steps(evidence: Evidence) -> Plot:
    epochs, names = evidence.result.epochs, epoch_names(evidence)
    figure = figures.new(
        x={**_axis(names, 1), "showgrid": False},
        y={"title": {"text": "step size"}, "rangemode": "tozero"},
        showlegend=False,
        bargap=0.5,
    )
    hover = [f"{name}<br>{_about(epoch, True)}" for name, epoch in zip(names, epochs, strict=True)]
    figure.add_bar(
        x=list(range(1, len(epochs) + 1)), y=[epoch.step for epoch in epochs], marker={"color": plotting.SKY},
        text=hover, textposition="none", hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    caption = "That of its first step, where it changes within an epoch."
    return Plot(figure, "Step size of every epoch", caption, height=240)


def _errors(evidence: Evidence) -> Plot:
    """Squared error against the known solution: one point an epoch where they start anew, otherwise along the run."""
    epochs = evidence.result.epochs
    named = zip(epoch_names(evidence), epochs, strict=True)
    found = [(name, epoch, epoch.curve) for name, epoch in named if epoch.curve]
    anew = evidence.planned > 1 or not len(found[0][2].last)
    points, where = [], []
    before = 0
    for index, (name, epoch, curve) in enumerate(found):
        points.append(recorded(epoch, curve, ends=anew, later=index > 0))
        where += (
            [f"{name}<br>{_about(epoch, evidence.by_steps)}"]
            if anew
            else [f"{name}, step {int(at):,}" for at in points[-1][0]]
        )
        if not (anew and evidence.by_steps):
            points[-1][0] += before
        before += epoch.taken
    steps, last, average = np.hstack(points)
    scale = found[0][2].initial or 1.0
    kinds = ((last, "last iterate", plotting.ORANGE, "circle"), (average, "average", figures.OURS, "square"))
    lines = []
    for values, name, color, symbol in kinds:
        hover = [f"{at}<br>{short(float(value))}" for at, value in zip(where, values / scale, strict=True)]
        lines.append(Line(steps, values / scale, name, color, mode="lines+markers", symbol=symbol, hover=hover))
    axis = "steps of the epoch" if anew and evidence.by_steps else "steps"
    figure = figures.lines(lines, axis, "‖x − x*‖² / ‖x₀ − x*‖²")
    if not isinstance(evidence.exact, Missing) and evidence.solution is not None:
        value = float(np.sum((evidence.exact.x - evidence.solution) ** 2)) / scale
        if value > 0:
            figures.level(figure, value, "the exact fit")
    return Plot(figure, "Error against the known solution", "Squared distance, as a share of that of the start.")


def _table(evidence: Evidence) -> TableBlock:
    epochs, chosen = evidence.result.epochs, evidence.result.chosen % len(evidence.result.epochs)
    rows = []
    for index, (name, epoch) in enumerate(zip(epoch_names(evidence), epochs, strict=True)):
        residual = evidence.residuals[index]
        row: dict[str, object] = {"epoch": name}
        if evidence.by_steps:
            row["gap"] = "–" if epoch.gap is None else float(epoch.gap)
            row |= {"steps": epoch.taken, "step size": float(epoch.step)}
        else:
            row["rows read"] = epoch.taken
        if epoch.curve is not None:
            row["‖last − x*‖²"] = float(epoch.curve.end_last)
            row["‖average − x*‖²"] = float(epoch.curve.end_average)
        row["residual"] = "" if isinstance(residual, Missing) else float(residual.size)
        row["note"] = f"diverged at step {epoch.taken + 1:,}" if epoch.diverged else ""
        if index == chosen and len(epochs) > 1:
            row["note"] = "the answer"
        rows.append(row)
    return TableBlock(rows, caption="Every epoch", shown=24)


def _candidates(table: TextTable) -> list[Block]:
    (score,) = (name for name in table.names if name not in ("update", "step size", "answer", "note"))
    lines = []
    for index, kind in enumerate(dict.fromkeys((row["update"], row["answer"]) for row in table.rows)):
        rows = [row for row in table.rows if (row["update"], row["answer"]) == kind and row["step size"]]
        points = sorted((float(row["step size"]), float(row[score])) for row in rows)
        points = [(step, value) for step, value in points if np.isfinite(value)]
        if points:
            x, y = zip(*points, strict=True)
            name = f"{kind[0].split('(')[0]}, {kind[1]}"
            hover = [f"step size {short(step)}<br>{short(value)}" for step, value in points]
            color, symbol = figures.CYCLE[index % len(figures.CYCLE)], ("circle", "square", "diamond")[index % 3]
            lines.append(Line(x, y, name, color, mode="lines+markers", hover=hover, symbol=symbol))
    blocks: list[Block] = []
    if lines:
        figure = figures.lines(lines, "step size", score, log_y=False)
        blocks.append(Plot(figure, "What competed on the held-out block", "The smallest was run on the whole record."))
    blocks.append(TableBlock.of(table, caption="Candidates"))
    return blocks
