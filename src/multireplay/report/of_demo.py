"""The page on the demonstration: every method's error by iterations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multireplay.report import figures
from multireplay.report.blocks import Plot
from multireplay.report.figures import Line
from multireplay.report.reports import report_of_tables
from multireplay.report.wording import plural, short

if TYPE_CHECKING:
    from multireplay.demo import Summary


def report_of_demo(
    path: str | os.PathLike[str],
    summaries: Mapping[str, Summary],
    lstd: float,
    m: float,
    instances: int,
    *,
    command: str | None = None,
) -> Path:
    """Write one self-contained HTML page on what `multireplay.demo.run_demo` found.

    Parameters
    ----------
    path : str or path
        Where to write it.
    summaries, lstd : mapping of str to Summary, float
        What ``run_demo`` returned.
    m, instances : float, int
        What it was called with.
    command : str, optional
        The command line that repeats it.

    Returns
    -------
    Path
        The file.
    """
    from multireplay.demo import LENGTH, STEP, demo_table

    curves = []
    for name, summary in summaries.items():
        color, dash, mode = figures.method_style(name)
        hover = [
            f"{plural(int(at), 'step')}<br>{short(float(mean))} ± {short(float(error))}"
            for at, mean, error in zip(summary.iterations, summary.mean, summary.error, strict=True)
        ]
        curves.append(Line(summary.iterations, summary.mean, name, color, dash, mode, hover))
    figure = figures.lines(curves, "iterations", "normalized squared error")
    figure.update_yaxes(range=[np.log10(lstd / 3), np.log10(2)])
    figures.level(figure, lstd, "LSTD (exact fit)")
    caption = f"Mean over {plural(instances, 'record')}. A click on a name in the legend hides its curve."
    notes = (
        "MER has one point an epoch, each from a fresh start. Its last epochs replay the record nearly in order, so "
        "that its best epoch is not its last. Dyadic uses every sample once in MER's own order.",
        "LSTD solves a d × d system: where d is small and the data fit, use it.",
    )
    table = demo_table(dict(summaries), lstd)
    return report_of_tables(
        path,
        "Policy evaluation from one trajectory",
        {table.title or "Errors": table},
        plots=[Plot(figure, "Error by iterations", caption, height=480)],
        notes=notes,
        subtitle=f"The paper's Markov reward process, m = {m:g}, step {STEP:g}, {instances} × {LENGTH:,} samples",
        command=command,
    )
