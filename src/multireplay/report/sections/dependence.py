"""How dependent the record is, and what it would have cost to learn from it in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from multireplay._check import Vector
from multireplay.diagnose import ColumnDiagnosis, Diagnosis, diagnose
from multireplay.diagnose.curves import MOST_CURVES, LagCurve
from multireplay.diagnose.diagnosis import note
from multireplay.replay import Serial
from multireplay.report import figures
from multireplay.report.blocks import Block, Fact, Facts, Heading, Plot, Section, TableBlock, Text
from multireplay.report.evidence import Evidence
from multireplay.report.figures import Line
from multireplay.report.rivals import Missing
from multireplay.show.text import plural, rough, short

OPERATOR = "operator at the answer"


def section(evidence: Evidence) -> Section:
    cost = [Heading("What it would have cost to learn in order"), Text(cost_of_order(evidence))]
    if isinstance(evidence.diagnosis, Missing):
        return Section("Dependence", [Text(evidence.diagnosis.reason, tone="beware"), *cost])
    noise = None if evidence.operator is None else (evidence.operator, evidence.operator_names)
    return Section("Dependence", [*blocks_of(evidence.diagnosis, noise), *cost])


def blocks_of(found: Diagnosis, at_answer: tuple[Vector, Sequence[str]] | None = None) -> list[Block]:
    """A diagnosis: its sentence, its numbers and the autocorrelation functions of the slowest columns.

    `at_answer` is F̃(x, ξ_t) row by row and what its coordinates are called, if that is to be diagnosed too.
    """
    blocks: list[Block] = [Text(found.sentence, tone="lead")]
    if found.slowest is not None:
        blocks.append(Facts(_facts(found)))
    curves = list(found.curves)
    rows = [_row(column, found.rows) for column in found.columns]
    remarks: list[Block] = []
    if at_answer is not None:
        operator, names = at_answer
        chains = np.repeat(np.arange(found.chains), found.lengths or found.rows)[-len(operator) :]
        noise = diagnose({OPERATOR: operator}, groups=chains if found.chains > 1 else None)
        (column,) = noise.columns
        if column.worst_feature is not None:
            column = replace(column, worst_name=names[column.worst_feature])
        rows.append(_row(column, noise.rows))
        if column.worst_feature is not None:
            curves = [*curves[: MOST_CURVES - 1], replace(noise.curves[0], label=OPERATOR)]
            remarks = [Text(_on_operator(found, noise), tone="remark")]
    if curves:
        blocks.append(_functions(curves, found.rows))
    caption = "τ: integrated autocorrelation time in steps, 1 for independent rows. Effective sample size: rows/τ."
    return [*blocks, TableBlock(rows, caption=caption), *map(Text, found.about), *remarks]


def _facts(found: Diagnosis) -> list[Fact]:
    assert found.slowest is not None
    least, most = ("", "") if found.slowest.reliable else ("at least ", "at most ")
    share = f"{rough(100 * found.ess / found.rows)} % of the rows"
    return [
        Fact("rows", short(found.rows)),
        Fact("autocorrelation time τ", f"{least}{rough(found.tau)} steps", f"of {found.slowest.label}, the slowest"),
        Fact("worth independent rows", f"{most}{rough(found.ess)}", share),
    ]


def _functions(curves: list[LagCurve], rows: int) -> Plot:
    """Autocorrelation by lag, the slowest column first."""
    most, lines = max(int(curve.lags[-1]) for curve in curves), []
    for curve, color in zip(curves, figures.CYCLE, strict=False):
        pairs = zip(curve.lags, curve.values, strict=True)
        hover = [f"lag {at:,}: {short(float(value))}<br>τ = {rough(curve.tau)}" for at, value in pairs]
        ours = curve.label == OPERATOR
        style = {"color": figures.GREY, "dash": "dash"} if ours else {"color": color}
        lines.append(Line(curve.lags, curve.values, curve.label, hover=hover, **style))
    figure = figures.lines(lines, "lag in steps", "autocorrelation", log_x=False, log_y=False)
    noise = float(2 / np.sqrt(rows))
    figure.add_hrect(y0=-noise, y1=noise, fillcolor=figures.GREY, opacity=0.25, line_width=0)
    figure.update_xaxes(range=[0, most * 1.01])
    caption = (
        "Of the slowest feature of each column, the slowest columns first. The grey band is what independent rows "
        "would show by chance."
    )
    return Plot(figure, "Autocorrelation of the record", caption, height=360)


def _row(column: ColumnDiagnosis, rows: int) -> dict[str, object]:
    features = f"{column.examined} of {column.width}" if column.examined < column.width else str(column.width)
    if column.worst_feature is None:
        return {"column": column.name, "features": features, "note": "constant"}
    return {
        "column": column.name,
        "features": features,
        "median τ": float(column.tau_median),
        "worst τ": float(column.tau_max),
        "at": column.at,
        "effective sample size": float(round(column.ess)),
        "share of the rows": f"{100 * column.ess / rows:.3g} %",
        "note": note(column),
    }


def _on_operator(found: Diagnosis, noise: Diagnosis) -> str:
    text = (
        "What drives the error is the dependence of the operator F̃(x, ξ) at the answer. Measured on the last "
        f"{plural(noise.rows, 'row')}, its autocorrelation time is {rough(noise.tau)}"
    )
    if noise.tau < 1.5 and found.tau >= 3:
        return (
            f"{text}: the noise at the answer is nearly independent although the columns are not. The exact fit does "
            "not suffer then; steps in order still do, because they see the same neighbourhood again and again."
        )
    worth = rough(found.rows / max(noise.tau, 1.0))
    return f"{text}: the exact fit is about as accurate as from {worth} independent rows."


def cost_of_order(evidence: Evidence) -> str:
    """One pass in the record's own order against this run, in words."""
    serial, result = evidence.in_order, evidence.result
    if isinstance(serial, Missing):
        return serial.reason
    if isinstance(evidence.run.replay, Serial):
        return "This run itself reads the record in order."
    if not serial.ok:
        return "One plain pass in order with the same step size diverges on this record."
    opening = "One plain pass in the record's own order, with the same step size and average, ends"
    theirs, ours = evidence.in_standard_errors(serial.x), evidence.in_standard_errors(result.x)
    if theirs is not None and ours is not None:
        text = (
            f"{opening} {rough(theirs)} times as far from the exact fit as that is expected to be from the truth. "
            f"This run ends {rough(ours)} times as far."
        )
        if theirs < 0.3:
            return f"{text} Here order hardly matters."
        if theirs <= 1.5 * ours:
            return f"{text} Here learning in order is no worse than this run."
        return f"{text} As squared errors: {_multiple(theirs)} the exact fit's in order, {_multiple(ours)} here."
    if not isinstance(evidence.exact, Missing):
        there, here = (float(np.linalg.norm(x - evidence.exact.x)) for x in (serial.x, result.x))
        return f"{opening} {rough(there)} away from the exact fit; this run ends {rough(here)} away."
    there, here = evidence.residual_at(serial.x), evidence.residual_at(result.x)
    return f"{opening} with a residual of {rough(there)}; this run ends with {rough(here)}. {evidence.exact.reason}"


def _multiple(apart: float) -> str:
    """The squared error of a point so many standard errors from the exact fit, as a multiple of the exact fit's."""
    ratio = 1 + apart**2
    return f"{ratio:.2f} times" if ratio < 10 else f"{rough(ratio)} times"
