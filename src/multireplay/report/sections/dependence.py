"""How dependent the record is, and what it would have cost to learn from it in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.buffer.disk import StoredBuffer
from multireplay.diagnose import ColumnDiagnosis, Diagnosis, diagnose
from multireplay.diagnose.autocorrelation import autocorrelation
from multireplay.diagnose.diagnosis import note
from multireplay.diagnose.examine import as_sparse_series
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
    buffer = evidence.run.buffer
    assert not isinstance(buffer, StoredBuffer)  # which is not diagnosed
    noise = None if evidence.operator is None else (evidence.operator, evidence.operator_names)
    return Section("Dependence", [*blocks_of(evidence.diagnosis, buffer, noise), *cost])


def blocks_of(
    found: Diagnosis, buffer: Buffer | None, at_answer: tuple[Vector, Sequence[str]] | None = None
) -> list[Block]:
    """A diagnosis: its sentence, its numbers and, where the record is at hand, autocorrelation functions.

    `at_answer` is F̃(x, ξ_t) row by row and what its coordinates are called, if that is to be diagnosed too.
    """
    blocks: list[Block] = [Text(found.sentence, tone="lead")]
    if found.slowest is not None:
        blocks.append(Facts(_facts(found)))
    series = []
    if buffer is not None:
        series = [(column, _series(buffer, column)) for column in found.columns if column.worst_feature is not None]
    rows = [_row(column, found.rows) for column in found.columns]
    remarks: list[Block] = []
    if at_answer is not None:
        operator, names = at_answer
        noise = diagnose({OPERATOR: operator})
        (column,) = noise.columns
        if column.worst_feature is not None:
            column = replace(column, worst_name=names[column.worst_feature])
        rows.append(_row(column, noise.rows))
        if column.worst_feature is not None:
            series.append((column, operator[:, column.worst_feature]))
            remarks = [Text(_on_operator(found, noise), tone="remark")]
    if series:
        blocks.append(_functions(series[-len(figures.CYCLE) :], found.rows))
    caption = "τ: integrated autocorrelation time in steps, 1 for independent rows. Effective sample size: rows/τ."
    return [*blocks, TableBlock(rows, caption=caption), *remarks]


def _series(buffer: Buffer, column: ColumnDiagnosis) -> Vector:
    values = buffer[column.name]
    sparse = as_sparse_series(column.name, values)
    if sparse is not None:
        return np.asarray(sparse[:, [column.worst_feature]].toarray()[:, 0], dtype=np.float64)
    return np.asarray(values if values.ndim == 1 else values[:, column.worst_feature], dtype=np.float64)


def _facts(found: Diagnosis) -> list[Fact]:
    assert found.slowest is not None
    least, most = ("", "") if found.slowest.reliable else ("at least ", "at most ")
    share = f"{rough(100 * found.ess / found.rows)} % of the rows"
    return [
        Fact("rows", short(found.rows)),
        Fact("autocorrelation time τ", f"{least}{rough(found.tau)} steps", f"of {found.slowest.label}, the slowest"),
        Fact("worth independent rows", f"{most}{rough(found.ess)}", share),
    ]


def _functions(series: list[tuple[ColumnDiagnosis, Vector]], rows: int) -> Plot:
    """Autocorrelation by lag, up to five times the largest autocorrelation time."""
    most = max(20, int(5 * max(column.tau_max for column, _ in series)))
    most = min(most, *(len(values) - 1 for _, values in series))
    lags = np.unique(np.linspace(0, most, min(most + 1, 400)).round().astype(int))
    curves = []
    for index, (column, values) in enumerate(series):
        rho = autocorrelation(values, most)[lags]
        tau = rough(column.tau_max)
        hover = [f"lag {at:,}: {short(float(value))}<br>τ = {tau}" for at, value in zip(lags, rho, strict=True)]
        ours = column.name == OPERATOR
        color = figures.GREY if ours else figures.CYCLE[index % len(figures.CYCLE)]
        name = OPERATOR if ours else column.label
        curves.append(Line(lags, rho, name, color, dash="dash" if ours else "solid", hover=hover))
    figure = figures.lines(curves, "lag in steps", "autocorrelation", log_x=False, log_y=False)
    noise = float(2 / np.sqrt(rows))
    figure.add_hrect(y0=-noise, y1=noise, fillcolor=figures.GREY, opacity=0.25, line_width=0)
    figure.update_xaxes(range=[0, most * 1.01])
    caption = "Of the slowest feature of each column. The grey band is what independent rows would show by chance."
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
