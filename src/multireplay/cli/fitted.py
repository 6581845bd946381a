"""What `multireplay fit` has found, in the terminal and on a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.cli.fitting import Fit
from multireplay.cli.inferred import brief, short_table
from multireplay.cli.model import Model
from multireplay.report import Shown, sections_of_result, write
from multireplay.show.text import TextTable, plural, say, terminal

SHOWN = 40
"""Coefficients in the terminal, shared by the classes; the page, the file and the JSON have all."""
FEWEST = 3
"""Of every class, however many there are."""
STANDARDIZED = (
    "The run itself saw every feature brought to mean 0 and standard deviation 1, and a column of ones: residuals, "
    "norms and distances on this tab are in those units."
)
CONTRASTS = "It is on contrasts between the classes, which are fitted together."


def show(found: Fit, out: Path | None) -> None:
    """Print the coefficients, and all that a person should know of them."""
    console = terminal()
    weight = np.abs(found.model.coef * found.spread)
    tables, hidden = coefficient_tables(found.model, [summary.rows for summary in found.summaries], weight)
    for table in tables:
        console.print(table)
    for line in [*hidden, *found.sentences(), *([] if out is None else [f"Model: {out}"])]:
        say(line)


def coefficient_tables(
    model: Model, by_class: Sequence[Sequence[dict[str, Any]]], weight: Any, most: int = SHOWN
) -> tuple[list[TextTable], list[str]]:
    """The coefficients that matter most, by class, each in a table or all in one, and how many are not shown."""
    classes = names_of_rows(model)
    each, dim = max(FEWEST, most // len(classes)), len(model.features)
    chosen = [np.sort(np.argsort(-row, kind="stable")[:each]) for row in weight]
    picked = [[brief(rows[i]) for i in [*places, dim]] for rows, places in zip(by_class, chosen, strict=True)]
    title, level = f"{model.target}, {model.kind.value}", (model.inference or {}).get("level", 0.95)
    if len(classes) > 3:
        told = [[{"class": name if i == 0 else "", **row} for i, row in enumerate(rows)] for name, rows in
                zip(classes, picked, strict=True)]  # fmt: skip
        tables = [short_table([row for rows in told for row in rows], level, title)]
    else:
        named = [f"{title}, {name}" if name else title for name in classes]
        tables = [short_table(rows, level, name) for rows, name in zip(picked, named, strict=True)]
    hidden = (dim - each) * (dim > each)
    of = " of every class" if len(classes) > 1 else ""
    return tables, [f"{plural(hidden, 'smaller coefficient')}{of} are not shown."] if hidden else []


def names_of_rows(model: Model) -> list[str]:
    """What the rows of the coefficients are of: classes, or nothing that has a name."""
    return [str(name) for name in (model.classes[-1:] if len(model.coef) == 1 else model.classes)] or [""]


def write_page(found: Fit, path: Path, command: str) -> Path:
    """The tabs on the run, with the coefficients of every class in the units of the file."""
    model, classes = found.model, names_of_rows(found.model)
    several = len(found.results) > 1
    units = [*[STANDARDIZED] * model.fitted["standardize"], *[CONTRASTS] * model.softmax]
    shown = Shown(
        dict(zip(classes, found.known, strict=True)),
        " ".join(units),
        found.sentences()[0 if several and not found.worst.ok else 1 :],  # the tab itself says how its run went
        classes[0] if several else "",
        found.model.inference["level"] if found.model.inference else 0.95,
        model.classes,
    )
    sections = sections_of_result(found.results[0], command=command, uncertainty=shown if found.known else None)
    title = f"{model.target} from {Path(model.fitted['data']).name}"
    return write(path, title, sections, f"{model.kind.value}, {model.fitted['rows']} rows")
