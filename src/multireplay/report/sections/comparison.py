"""This run beside the exact fit, one pass in order and one shuffled pass."""

from __future__ import annotations

import numpy as np

from multireplay.report import figures
from multireplay.report.blocks import Block, Plot, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.reliability import is_of
from multireplay.report.rivals import IN_ORDER, SHUFFLED, Contender, Missing
from multireplay.show.text import rough, seconds, short

SHOWN_ROWS = 12
STYLES = {
    "this run": (figures.OURS, "solid", "lines+markers"),
    IN_ORDER: (figures.IN_ORDER, "dash", "lines"),
    SHUFFLED: (figures.SHUFFLED, "dot", "lines"),
}


def section(evidence: Evidence) -> Section:
    found = (evidence.ours, evidence.in_order, evidence.shuffled, evidence.exact)
    there = [rival for rival in found if not isinstance(rival, Missing)]
    reasons = dict.fromkeys(rival.reason for rival in found if isinstance(rival, Missing))
    blocks: list[Block] = [Text(verdict(evidence), tone="lead"), *in_units(evidence), *_paths(evidence, there)]
    blocks.append(TableBlock([_row(evidence, rival) for rival in there], caption=_caption(evidence)))
    blocks += [Text(reason, tone="remark") for reason in reasons]
    blocks += _coordinates(evidence)
    if not isinstance(evidence.exact, Missing) and not evidence.diverged and evidence.run.route != "exact":
        blocks.append(Text(_on_cost(evidence.ours, evidence.exact)))
    return Section("Comparison", blocks)


def in_units(evidence: Evidence) -> list[Block]:
    """What the run saw, for a tab whose numbers are in its units."""
    return [Text(evidence.units, tone="remark")] if evidence.units else []


def _row(evidence: Evidence, rival: Contender) -> dict[str, object]:
    row: dict[str, object] = {
        "method": rival.name,
        "passes": "–" if np.isnan(rival.passes) else float(f"{rival.passes:.3g}"),
        "seconds": float(f"{rival.seconds:.2g}"),
    }
    if not rival.ok:
        return {**row, "note": "diverged"}
    if not isinstance(evidence.exact, Missing):
        row["distance to the exact fit"] = float(np.linalg.norm(rival.x - evidence.exact.x))
        apart = evidence.in_standard_errors(rival.x)
        if apart is not None:
            row["in standard errors"] = apart
    if evidence.solution is not None:
        row["distance to the solution"] = float(np.linalg.norm(rival.x - evidence.solution))
    row["residual"] = evidence.residual_at(rival.x)
    return row


def _coordinates(evidence: Evidence) -> list[Block]:
    """The answer beside the exact fit and the solution, by coordinate."""
    exact, solution = evidence.exact, evidence.solution
    if evidence.diverged or evidence.run.route == "exact" or (isinstance(exact, Missing) and solution is None):
        return []
    rows: list[dict[str, object]] = []
    for label, known in evidence.by_class.items():
        if not is_of(known, evidence.result.x):
            continue  # of another run
        x, other = known.x, None if isinstance(exact, Missing) else known.at(exact.x)
        right = None if solution is None else known.at(solution)
        for i in np.argsort(-np.abs(x), kind="stable"):
            row: dict[str, object] = {"class": label, "coordinate": known.names[i], "value": float(x[i])}
            if other is not None:
                row |= {"exact fit": float(other[i]), "difference": float(x[i] - other[i])}
            if right is not None:
                row["solution"] = float(right[i])
            rows.append(row)
    caption = "In the units of your columns. " if evidence.shown is not None else ""
    return [TableBlock(rows, caption=f"{caption}By size; a click on a heading sorts by it.", shown=SHOWN_ROWS)]


def _caption(evidence: Evidence) -> str:
    text = "The passes in order and shuffled take plain steps with the step size, average and start of this run."
    if not isinstance(evidence.uncertainty, Missing):
        text += (
            f" One standard error is {rough(evidence.uncertainty.total)}: how far the exact fit itself is expected to "
            "be from the truth."
        )
        if evidence.uncertainty.is_rough(evidence.tau):
            text += " That is rough and probably too small, since the record is short for its autocorrelation time."
    return f"{text} The first run of a session may count some compiling among its seconds."


def _paths(evidence: Evidence, rivals: list[Contender]) -> list[Block]:
    curves = []
    for rival in rivals:
        if rival.steps is None or rival.distances is None or not rival.ok:
            continue
        way = [(step, gap) for step, gap in zip(rival.steps, rival.distances, strict=True) if gap > 0]
        if way:  # or it was there from the start
            hover = [f"{int(step):,} samples read<br>distance {short(gap)}" for step, gap in way]
            steps, gaps = zip(*way, strict=True)
            curves.append(Line(steps, gaps, rival.name, *STYLES[rival.name], hover))
    if not curves:
        return []
    target = "the exact fit" if evidence.solution is None else "the solution"
    figure = figures.lines(curves, "samples read", f"distance to {target}")
    caption = "Each method's answer, had it stopped there."
    if evidence.solution is not None and not isinstance(evidence.exact, Missing):
        figures.level(figure, float(np.linalg.norm(evidence.exact.x - evidence.solution)), "the exact fit")
    elif evidence.solution is None and not isinstance(evidence.uncertainty, Missing):
        figures.level(figure, evidence.uncertainty.total, "the exact fit's own standard error")
        caption += " Below the dashed line little is gained: the exact fit itself is that far from the truth."
    return [Plot(figure, f"The way to {target}", caption, height=420)]


def quality(evidence: Evidence) -> str:
    """How near the answer is to the exact fit, in a sentence."""
    exact = evidence.exact
    if evidence.run.route == "exact" and evidence.result.status.ok:
        return "This run is the exact fit itself."
    if isinstance(exact, Missing):
        return "Without an exact fit, answers are compared by their residuals on the record."
    ours = evidence.in_standard_errors(evidence.result.x)
    if ours is None:
        gap = float(np.linalg.norm(evidence.result.x - exact.x))
        return f"This run ends {rough(gap)} away from the exact fit."
    if evidence.result.candidates is not None:
        return (
            f"This run ends {rough(ours)} standard errors away from the exact fit. It was chosen on a held-out block, "
            "because the exact fit may overfit here: nearer to it is not better."
        )
    away = f"it ends {rough(ours)} standard errors away from it"
    if ours < 0.1:
        return f"This run is as good as the exact fit: {away}, well within its own error."
    if ours < 0.5:
        return f"This run is close to the exact fit: {away}, about {rough(100 * ours**2)} % more squared error."
    return f"This run is not as good as the exact fit: {away}, about {rough(1 + ours**2)} times its squared error."


def verdict(evidence: Evidence) -> str:
    """How the answer compares with all others, in words."""
    if evidence.diverged:
        return "This run diverged; its answer is compared with nothing."
    text = quality(evidence)
    for rival in (evidence.in_order, evidence.shuffled):
        apart = None if isinstance(rival, Missing) or not rival.ok else evidence.in_standard_errors(rival.x)
        if not isinstance(rival, Missing) and apart is not None:
            text += f" {rival.name.capitalize()} ends {rough(apart)} standard errors away."
    return text


def _on_cost(ours: Contender, exact: Contender) -> str:
    text = f"The exact fit took {seconds(exact.seconds)} and this run {seconds(ours.seconds)}."
    if exact.seconds <= ours.seconds:
        return (
            f"{text} With {len(exact.x):,} coordinates and a record in memory the exact fit is the simpler choice: "
            "problem.fit_exactly(buffer)."
        )
    return f"{text} A step costs O(d) here; the exact fit costs O(d²) a row."
