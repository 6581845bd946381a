"""The page on the comparison bench."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.errors import InputError
from multireplay.report import figures
from multireplay.report.blocks import Block, FindingBlock, Heading, Plot, Section, TableBlock, Text
from multireplay.report.figures import Line
from multireplay.report.page import write
from multireplay.report.sections import repeat
from multireplay.report.wording import plural, short

SYMBOLS = {
    "D": "diamond", "o": "circle", "s": "square", "v": "triangle-down", "X": "x", "P": "cross", "^": "triangle-up",
    "<": "triangle-left", ">": "triangle-right", "*": "star", "p": "pentagon",
}  # fmt: skip
NUMBERS = (
    "passes", "samples_touched", "ratio_mean", "ratio_se", "error_mean", "exact_error_mean", "seconds", "condition",
)  # fmt: skip
NOTE = (
    "Mean squared error of each method over that of the exact fit (LSTD, maximum likelihood or the best ridge) on the "
    "same records. “Tuned” is the best constant step of a factor-2 grid on other seeds; ∞ means that some run diverged."
)


def report_of_comparison(
    path: str | os.PathLike[str], folder: str | os.PathLike[str], *, command: str | None = None
) -> Path:
    """Write one self-contained HTML page on what `multireplay compare` left in a folder.

    Parameters
    ----------
    path : str or path
        Where to write it.
    folder : str or path
        The folder, with compare.csv.
    command : str, optional
        The command line that repeats it.

    Returns
    -------
    Path
        The file.
    """
    from multireplay.compare.table import acceptance

    file = Path(folder) / "compare.csv"
    if not file.is_file():
        raise InputError(f"there is no {file}: multireplay compare --out {folder} writes it")
    rows = _read(file)
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    first: list[Block] = [Text(NOTE, tone="lead"), _picture(rows, problems)]
    bars = _markdown(acceptance(rows))
    why = [(row["problem"], row.pop("why not")) for row in bars]
    first.append(TableBlock(bars, caption="mr.solve against its bars"))
    if any(reason for _, reason in why):
        first.append(Heading("Where a bar is not met, and why"))
        first += [FindingBlock(problem, text=reason) for problem, reason in why if reason]
    suites = [
        Section(
            suite, [TableBlock(_pivot(rows, suite), caption="Ratio to the exact fit's error, ± its standard error")]
        )
        for suite in dict.fromkeys(row["suite"] for row in rows)
    ]
    again = repeat.repeated(command)
    about = f"{plural(len(problems), 'problem')}, {plural(rows[0]['seeds'], 'seed')} each"
    return write(path, "mr.solve and its rivals", [Section("Bench", first), *suites, again], about)


def _read(file: Path) -> list[dict[str, Any]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return [
            {
                **row,
                **{name: float(row[name]) if row[name] else "" for name in NUMBERS},
                "seeds": int(row["seeds"]),
            }
            for row in csv.DictReader(lines)
        ]


def _picture(rows: Sequence[dict[str, Any]], problems: list[str]) -> Plot:
    from multireplay.compare.draw import CEILING, SHOWN

    curves = []
    for i, (method, (color, marker)) in enumerate(SHOWN.items()):
        best = {row["problem"]: row for row in rows if row["method"] == method and row["step"] != "n/a"}
        if not best:
            continue
        ratios = np.minimum([row["ratio_mean"] for row in best.values()], CEILING)
        place = [problems.index(name) + 0.05 * (i - len(SHOWN) / 2) for name in best]
        hover = [
            f"{figures.label(name)}<br>{short(row['ratio_mean'])} ± {short(row['ratio_se'])}, step {row['step']}"
            for name, row in best.items()
        ]
        style = {"mode": "markers", "symbol": SYMBOLS[marker]}
        curves.append(Line(ratios, place, method, figures.on_both(color), hover=hover, **style))
    figure = figures.lines(curves, "squared error / that of the exact fit", "", log_y=False)
    figure.update_yaxes(
        tickvals=list(range(len(problems))), ticktext=[figures.label(name) for name in problems], autorange="reversed"
    )
    figure.add_vline(x=1.0, line_color=figures.GREY, line_width=1)
    caption = f"Each method at its tuned step where it has one. Ratios above {CEILING:,.0f}, and ∞, are drawn there."
    return Plot(figure, "Error as a ratio to the exact fit's", caption, height=160 + 44 * len(problems))


def _markdown(lines: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a Markdown table."""
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def _pivot(rows: Sequence[dict[str, Any]], suite: str) -> list[dict[str, str]]:
    """One line a method and step, one column a problem."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if row["suite"] != suite or row["step"] == "n/a":
            continue
        kind = "tuned" if row["step"].startswith("tuned") else "-" if row["method"] == "exact fit" else row["step"]
        cells = found.setdefault((row["method"], kind), {"method": row["method"], "step": kind})
        error = f" ± {row['ratio_se']:.2g}" if np.isfinite(row["ratio_se"]) and row["ratio_se"] > 0 else ""
        cells[row["problem"]] = f"{row['ratio_mean']:.3g}{error}" if np.isfinite(row["ratio_mean"]) else "∞"
    return list(found.values())
