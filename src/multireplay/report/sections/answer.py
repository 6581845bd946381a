"""The answer: how it went, the numbers worth a box, and the coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from multireplay.diagnose import Diagnosis
from multireplay.report import figures
from multireplay.report.blocks import Block, Fact, Facts, Plot, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.report.rivals import Missing
from multireplay.report.sections.comparison import quality
from multireplay.show import plotting
from multireplay.show.text import in_names, plural, rough, seconds, short

MOST_BARS = 30
SHOWN_ROWS = 12
LEAST = 1e-4
"""Distances below this many standard errors are not told apart."""
TONES: Mapping[str, Literal["good", "plain", "beware"]] = {"finished": "good", "ran": "plain"}
"""Of what is said on how it went; anything else is to beware of."""


def section(evidence: Evidence) -> Section:
    status = evidence.result.status
    said = str(status) if evidence.run.feature_names else in_names(str(status), evidence.names)
    blocks: list[Block] = [Text(said, TONES.get(status.code, "beware"))]
    if not evidence.diverged and not isinstance(evidence.exact, Missing):
        blocks.append(Text(quality(evidence), tone="lead"))
    by_size = np.argsort(-np.abs(evidence.result.x), kind="stable")
    blocks += [Facts(_facts(evidence)), _bars(evidence, by_size), _table(evidence, by_size)]
    if not isinstance(evidence.uncertainty, Missing):
        blocks.append(Text(_on_errors(evidence), tone="remark"))
    return Section("Answer", blocks)


def _facts(evidence: Evidence) -> list[Fact]:
    result = evidence.result
    facts = [
        Fact("coordinates", short(len(result.x)), f"from {plural(evidence.run.rows, 'row')}"),
        Fact("passes over the record", f"{result.passes:.3g}", f"in {seconds(evidence.ours.seconds)}"),
    ]
    residual = evidence.residual
    if not isinstance(residual, Missing):
        share = f"{rough(residual.size / residual.error)} of its standard error" if residual.error > 0 else ""
        facts.append(Fact("residual ‖F̂(x)‖", rough(residual.size), share))
    if not np.isnan(evidence.distance):
        worst = "standard errors in the worst coordinate, estimated"
        away = rough(evidence.distance) if evidence.distance > LEAST else f"below {LEAST:g}"
        facts.append(Fact("distance to the exact fit", away, worst))
    if evidence.solution is not None:
        gap = float(np.linalg.norm(result.x - evidence.solution))
        facts.append(Fact("distance to the solution", rough(gap), "which was given to the run"))
    found = evidence.diagnosis
    if isinstance(found, Diagnosis) and found.slowest is not None:
        worth = f"worth {rough(found.ess)} independent rows"
        facts.append(Fact("autocorrelation time", f"{rough(found.tau)} steps", worth))
    return facts


def _bars(evidence: Evidence, by_size: NDArray[np.intp]) -> Plot:
    """The largest coefficients as bars, with two standard errors to each side."""
    x, spread = evidence.result.x, evidence.uncertainty
    order = np.arange(len(x)) if len(x) <= MOST_BARS else by_size[:MOST_BARS]
    names = [figures.label(evidence.names[i]) for i in order]
    errors = None if isinstance(spread, Missing) else spread.errors[order]
    known = None if errors is None else np.where(np.isfinite(errors), 2 * errors, np.nan)
    figure = figures.new(
        x={"title": {"text": "coefficient"}, "showgrid": True, "zeroline": True},
        y={"autorange": "reversed", "tickvals": list(range(len(order))), "ticktext": names, "showgrid": False},
        bargap=0.35,
        showlegend=False,
    )
    values = [short(float(x[i])) for i in order]
    margins = [""] * len(order) if errors is None else [f" ± {short(float(error))}" for error in errors]
    whiskers = {} if errors is None else {"array": known, "color": plotting.ORANGE, "thickness": 2, "width": 4}
    figure.add_bar(
        x=x[order], y=np.arange(len(order)), orientation="h", marker={"color": figures.OURS}, error_x=whiskers,
        text=[f"{name}<br>{value}{margin}" for name, value, margin in zip(names, values, margins, strict=True)],
        textposition="none", hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    some = "" if len(x) <= MOST_BARS else f"The {MOST_BARS} largest of {len(x):,}."
    bars = "" if errors is None else "Whiskers: two standard errors to each side."
    return Plot(figure, "The coefficients", f"{some} {bars}".strip(), height=max(160, 80 + 22 * len(order)))


def _table(evidence: Evidence, by_size: NDArray[np.intp]) -> TableBlock:
    x, exact, spread = evidence.result.x, evidence.exact, evidence.uncertainty
    rows = []
    for i in by_size:
        row: dict[str, object] = {"coordinate": evidence.names[i], "value": float(x[i])}
        if not isinstance(spread, Missing):
            row["standard error"] = float(spread.errors[i])
        if not isinstance(exact, Missing):
            row["exact fit"] = float(exact.x[i])
            row["difference"] = float(x[i] - exact.x[i])
        if evidence.solution is not None:
            row["solution"] = float(evidence.solution[i])
        rows.append(row)
    return TableBlock(rows, caption="By size; a click on a heading sorts by it.", shown=SHOWN_ROWS)


def _on_errors(evidence: Evidence) -> str:
    assert not isinstance(evidence.uncertainty, Missing)
    text = (
        "Standard errors are those of the exact fit, from the means of 32 consecutive batches of the record, so that "
        "dependence between rows is counted."
    )
    if not np.isfinite(evidence.uncertainty.errors).all():
        text += " They are infinite where the record says nothing of a coordinate."
    if evidence.uncertainty.is_rough(evidence.tau):
        text += (
            f" A batch has {plural(evidence.uncertainty.batch, 'row')}, fewer than ten autocorrelation times: they are "
            "rough and probably too small."
        )
    return text
