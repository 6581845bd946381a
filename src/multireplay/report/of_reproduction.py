"""The page on a reproduction of the paper's numerical section."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from multireplay.errors import InputError
from multireplay.report import figures
from multireplay.report.blocks import Block, FindingBlock, Picture, Plot, Section, Text
from multireplay.report.figures import Line
from multireplay.report.page import write
from multireplay.report.sections import repeat
from multireplay.report.wording import plural, short

if TYPE_CHECKING:
    from multireplay.reproduce.table import Row

TITLES = {"shared": "one shared constant step", "best": "each method at its own best step"}
TOP = 2.0
"""Errors above this are cut off: an error of 1 is that of the starting point."""
FAR_OFF = 1e6


def report_of_reproduction(
    path: str | os.PathLike[str], folder: str | os.PathLike[str], *, command: str | None = None
) -> Path:
    """Write one self-contained HTML page on what `multireplay reproduce` left in a folder.

    Parameters
    ----------
    path : str or path
        Where to write it.
    folder : str or path
        The folder, with its tables, pictures and claims.
    command : str, optional
        The command line that repeats it.

    Returns
    -------
    Path
        The file.
    """
    from multireplay.reproduce import table

    folder = Path(folder)
    tables = {file.stem: table.read(file) for file in sorted(folder.glob("*.csv"))}
    if not tables or not (folder / "claims.json").is_file():
        raise InputError(f"{folder} holds no tables and claims of a reproduction: multireplay reproduce --out {folder}")
    claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    verdicts = [f"{claim['figure']} · {claim['verdict']}" for claim in claims]
    entries = [
        FindingBlock(f"“{c['claim']}”", verdict, c["finding"]) for verdict, c in zip(verdicts, claims, strict=True)
    ]
    sections = [Section("Claims", [Text(_summary(claims), tone="lead"), *entries])]
    sections += [Section(name, _figure(name, found, folder)) for name, found in tables.items()]
    sections.append(repeat.repeated(command))
    return write(path, "The paper's numerical section, run again", sections, _runs(folder, tables))


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    verdicts = [row["verdict"] for row in rows]
    counts = [f"{verdicts.count(verdict)} “{verdict}”" for verdict in dict.fromkeys(verdicts)]
    return f"Verdicts on {plural(len(rows), 'claim')}: {', '.join(counts)}."


def _runs(folder: Path, names: Sequence[str] | dict[str, list[Row]]) -> str:
    texts = []
    for name in names:
        about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        texts.append(f"{plural(about['instances'], 'instance')}, seed {about['seed']}, size {about['size']}")
    return "; ".join(dict.fromkeys(texts))


def _figure(name: str, rows: list[Row], folder: Path) -> list[Block]:
    blocks: list[Block] = [
        Plot(curves([row for row in rows if row.panel == panel]), f"{name}: {TITLES[panel]}", "", height=460)
        for panel in TITLES
        if any(row.panel == panel for row in rows)
    ]
    picture = folder / f"{name}.png"
    if picture.is_file():
        blocks.append(Picture(picture, f"{name}, as in {picture.name}"))
    return blocks


def curves(rows: list[Row]) -> Any:
    """Error by iterations of every method; an exact fit, which has one row, as a line across."""
    methods = {name: [row for row in rows if row.method == name] for name in dict.fromkeys(row.method for row in rows)}
    lines = []
    for name, found in methods.items():
        if len(found) == 1:
            continue
        color, dash, mode = figures.method_style(name)
        errors = np.array([row.error_mean for row in found])
        hover = [
            f"{plural(row.iterations, 'step')}<br>{short(row.error_mean)} ± {short(row.error_se)}" for row in found
        ]
        shown = np.where(errors < FAR_OFF, errors, np.nan)
        lines.append(Line([row.iterations for row in found], shown, name, color, dash, mode, hover))
    figure = figures.lines(lines, "iterations", "normalized squared error")
    low = min(float(np.nanmin(np.asarray(line.y))) for line in lines)
    for name, found in methods.items():
        if len(found) == 1 and found[0].error_mean < TOP:
            figures.level(figure, found[0].error_mean, name)
            low = min(low, found[0].error_mean)
    figure.update_yaxes(range=[np.log10(low) - 0.1, np.log10(TOP)])
    return figure
