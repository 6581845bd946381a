"""What `multireplay fit` has found, in the terminal and on a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multireplay.cli.fitting import Fit
from multireplay.cli.inferred import table_of
from multireplay.report import Block, Section, Table, Text, sections_of_result, write
from multireplay.show.text import TextTable, say, terminal

SHOWN = 40
"""Coefficients in a table in the terminal; the page, the file and the JSON have all."""


def show(found: Fit, out: Path | None) -> None:
    """Print the coefficients, and all that a person should know of them."""
    for table in _tables(found):
        terminal().print(table)
    hidden = len(found.model.features) - SHOWN
    if hidden > 0:
        say(f"{hidden} smaller coefficients are not shown.")
    for line in found.sentences():
        say(line)
    if out is not None:
        say(f"Model: {out}")


def _tables(found: Fit, most: int = SHOWN) -> list[TextTable]:
    """A table for every row of the coefficients: those that matter most in it, and the intercept."""
    model, tables = found.model, []
    for place, summary in enumerate(found.summaries):
        weight = np.abs(model.coef[place] * found.spread)
        largest = np.sort(np.argsort(-weight, kind="stable")[:most])
        of = f", {model.classes[place if len(model.coef) > 1 else 1]}" if model.classes else ""
        title = f"{model.target}, {model.kind.value}{of}"
        tables.append(table_of(summary, np.append(largest, len(model.features)), title))
    return tables


def write_page(found: Fit, path: Path, command: str) -> Path:
    """The tabs on the run, and after the first one on the model in the units of the file."""
    model = found.model
    status, *rest = found.sentences()
    units = " with every feature brought to mean 0 and standard deviation 1" if model.fitted["standardize"] else ""
    runs = " for contrasts between the classes" if model.softmax else ""
    tables = _tables(found, most=len(model.features))
    blocks: list[Block] = [
        Text(status, tone="lead"),
        *map(Text, rest),
        *(Table(table.rows, caption=f"{table.title}: for the columns as they are in the file") for table in tables),
        Text(f"The other tabs are on the run{runs}{units}."),
    ]
    in_the_file = found.known[0] if found.known else None
    if in_the_file is not None and model.softmax:
        named = [f"{name}, {label}" for label in model.classes for name in in_the_file.names]
        in_the_file = in_the_file.beside(found.known[1:], named)
    first, *others = sections_of_result(found.results[0], command=command, uncertainty=in_the_file)
    title = f"{model.target} from {Path(model.fitted['data']).name}"
    sections = [first, Section("Model", blocks), *others]
    return write(path, title, sections, f"{model.kind.value}, {model.fitted['rows']} rows")
