"""The pages on two products of the bench: the comparison and the reproduction."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.errors import InputError
from multireplay.report import figures
from multireplay.report.blocks import Block, FindingBlock, Heading, Picture, Plot, Section, TableBlock, Text
from multireplay.report.figures import Line
from multireplay.report.page import write
from multireplay.report.sections import repeat
from multireplay.show.text import plural, short

if TYPE_CHECKING:
    from multireplay.bench.table import Row

File = str | os.PathLike[str]
SYMBOLS = {
    "D": "diamond", "o": "circle", "s": "square", "v": "triangle-down", "X": "x", "P": "cross", "^": "triangle-up",
    "<": "triangle-left", ">": "triangle-right", "*": "star", "p": "pentagon",
}  # fmt: skip
PANEL_TITLES = {"shared": "one shared step, MER's cap", "best": "each method at its own best step"}


def report_of_comparison(path: File, folder: File, *, command: str | None = None) -> Path:
    """Write one self-contained HTML page on what `multireplay compare` left in a folder, and return its path.

    Parameters
    ----------
    path, folder : str or path
        Where to write it, and the folder, with compare.csv.
    command : str, optional
        The command line that repeats it.
    """
    from multireplay.bench import scores

    file = Path(folder) / "compare.csv"
    if not file.is_file():
        raise InputError(f"there is no {file}: multireplay compare --out {folder} writes it")
    rows = scores.read(file)
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    bars = scores.acceptance(rows)
    why = [(row["problem"], row.pop("why not")) for row in bars]
    first: list[Block] = [Text(f"{scores.NOTE}.", tone="lead"), _ratios(rows, problems)]
    first.append(TableBlock(bars, caption="mr.solve against its bars"))
    if any(reason for _, reason in why):
        first.append(Heading("Where a bar is not met, and why"))
        first += [FindingBlock(problem, text=reason) for problem, reason in why if reason]
    sections = [Section("Bench", first)]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        here = [row for row in rows if row["suite"] == suite and row["step"] != "n/a"]
        lines = [
            {"method": method, "step": kind} | {problem: _cell(row) for problem, row in found.items()}
            for (method, kind), found in scores.by_method(here).items()
        ]
        caption = "Ratio to the exact fit's error, ± its standard error"
        sections.append(Section(suite, [TableBlock(lines, caption=caption)]))
    about = f"{plural(len(problems), 'problem')}, {plural(rows[0]['seeds'], 'seed')} each"
    return write(path, "mr.solve and its rivals", [*sections, repeat.repeated(command)], about)


def _ratios(rows: Sequence[dict[str, Any]], problems: list[str]) -> Plot:
    from multireplay.bench.pictures import CEILING, SHOWN, shown_scores

    curves = []
    for method, best in shown_scores(rows).items():
        color, marker = SHOWN[method]
        shift = 0.05 * (list(SHOWN).index(method) - len(SHOWN) / 2)
        hover = [
            f"{figures.label(name)}<br>{short(row['ratio_mean'])} ± {short(row['ratio_se'])}, step {row['step']}"
            for name, row in best.items()
        ]
        ratios = np.minimum([row["ratio_mean"] for row in best.values()], CEILING)
        place, color = [problems.index(name) + shift for name in best], figures.on_both(color)
        curves.append(Line(ratios, place, method, color, mode="markers", hover=hover, symbol=SYMBOLS[marker]))
    figure = figures.lines(curves, "squared error / that of the exact fit", "", log_y=False)
    names = [figures.label(name) for name in problems]
    figure.update_yaxes(tickvals=list(range(len(problems))), ticktext=names, autorange="reversed")
    figure.add_vline(x=1.0, line_color=figures.GREY, line_width=1)
    caption = f"Each method at its tuned step where it has one. Ratios above {CEILING:,.0f}, and ∞, are drawn there."
    return Plot(figure, "Error as a ratio to the exact fit's", caption, height=160 + 44 * len(problems))


def _cell(row: Mapping[str, Any]) -> str:
    error = f" ± {row['ratio_se']:.2g}" if np.isfinite(row["ratio_se"]) and row["ratio_se"] > 0 else ""
    return f"{row['ratio_mean']:.3g}{error}" if np.isfinite(row["ratio_mean"]) else "∞"


def report_of_reproduction(path: File, folder: File, *, command: str | None = None) -> Path:
    """Write one self-contained HTML page on what `multireplay reproduce` left in a folder, and return its path.

    Parameters
    ----------
    path, folder, command
        As in `report_of_comparison`; the folder has the tables, pictures and claims.
    """
    from multireplay.bench import table
    from multireplay.bench.reproduction import run_of

    folder = Path(folder)
    tables = {file: table.read(file) for file in sorted(folder.glob("*.csv"))}
    if not tables or not (folder / "claims.json").is_file():
        raise InputError(f"{folder} holds no tables and claims of a reproduction: multireplay reproduce --out {folder}")
    claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    verdicts = [claim["verdict"] for claim in claims]
    counts = [f"{verdict}: {verdicts.count(verdict)}" for verdict in dict.fromkeys(verdicts)]
    first: list[Block] = [Text(f"Verdicts on {plural(len(claims), 'claim')}: {'; '.join(counts)}.", tone="lead")]
    first += [FindingBlock(c["claim"], f"{c['figure']} · {c['verdict']}", c["finding"]) for c in claims]
    sections = [Section("Claims", first)]
    runs = []
    for file, rows in tables.items():
        sections.append(Section(file.stem, _figure(file, rows)))
        about = run_of(file)
        runs.append(f"{plural(int(about['instances']), 'instance')}, seed {about['seed']}, size {about['size']}")
    subtitle = "; ".join(dict.fromkeys(runs))
    return write(path, "The paper's numerical section, run again", [*sections, repeat.repeated(command)], subtitle)


def _figure(file: Path, rows: list[Row]) -> list[Block]:
    from multireplay.bench.figures import FIGURES

    weighted = file.stem in FIGURES and FIGURES[file.stem].weighted
    if weighted:  # the norm of the figure's caption
        rows = [row._replace(error_mean=row.error_weighted_mean, error_se=row.error_weighted_se) for row in rows]
    norm = ", ‖·‖_Π" if weighted else ""
    panels = {panel: [row for row in rows if row.panel == panel] for panel in PANEL_TITLES}
    blocks: list[Block] = [
        Plot(curves(found), f"{file.stem}: {PANEL_TITLES[panel]}{norm}", "", height=460)
        for panel, found in panels.items()
        if found
    ]
    picture = file.with_suffix(".png")
    if picture.is_file():
        blocks.append(Picture(picture, f"{file.stem}, as in {picture.name}"))
    return blocks


def curves(rows: list[Row]) -> Any:
    """Error by iterations of every method; an exact fit, which has one row, as a line across."""
    from multireplay.bench.paired import FAR_OFF
    from multireplay.bench.pictures import TOP

    lines, levels = [], {}
    for name in dict.fromkeys(row.method for row in rows):
        points = np.array([(r.iterations, r.error_mean, r.error_se) for r in rows if r.method == name])
        if len(points) > 1:
            lines.append(_line(name, points, FAR_OFF))
        elif points[0, 1] < TOP:
            levels[name] = float(points[0, 1])
    figure = figures.lines(lines, "iterations", "normalized squared error")
    for name, level in levels.items():
        figures.level(figure, level, name)
    low = min([*levels.values(), *(float(np.nanmin(np.asarray(line.y))) for line in lines)])
    figure.update_yaxes(range=[np.log10(low) - 0.1, np.log10(TOP)])
    return figure


def _line(name: str, points: Any, top: float) -> Line:
    """A method's points (iteration, mean, standard error) in its own colour; those above `top` are not drawn."""
    color, dash, mode = figures.method_style(name)
    iterations, means, _ = points.T
    hover = [f"{plural(int(at), 'step')}<br>{short(mean)} ± {short(error)}" for at, mean, error in points.tolist()]
    return Line(iterations, np.where(means < top, means, np.nan), name, color, dash, mode, hover)
