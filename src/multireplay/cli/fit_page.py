"""The table and the page of `multireplay fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multireplay.cli.fitting import Fit
from multireplay.show.text import TextTable

SHOWN = 40
"""Coefficients in a table in the terminal; the page, the file and the JSON have all."""


def coefficient_table(found: Fit, most: int = SHOWN) -> TextTable:
    """One row a feature: its coefficient and what one standard deviation of it does, or its coefficients by class."""
    model = found.model
    weight = np.abs(model.coef * found.spread).max(axis=0)
    largest = np.sort(np.argsort(-weight, kind="stable")[:most])
    heads = ["coefficient"] if len(model.coef) == 1 else [f"for {name}" for name in model.classes]
    rows: list[dict[str, Any]] = []
    for place in largest:
        values = {head: f"{row[place]:.6g}" for head, row in zip(heads, model.coef, strict=True)}
        rows.append({"feature": model.features[place], **values})
        if len(model.coef) == 1:
            rows[-1]["times its deviation"] = f"{model.coef[0, place] * found.spread[place]:.3g}"
    ends = {head: f"{end:.6g}" for head, end in zip(heads, model.intercept, strict=True)}
    return TextTable([*rows, {"feature": "(intercept)", **ends}], title=f"{model.target}, {model.kind.value}")


def write_page(found: Fit, path: Path, command: str) -> Path:
    """A tab on the model in the units of the file, and those on the run behind it."""
    from multireplay.report import Section, Table, Text, sections_of_result, write

    model = found.model
    status, *rest = found.sentences()
    units = " with every feature brought to mean 0 and standard deviation 1" if model.fitted["standardize"] else ""
    runs = f" for the class {model.classes[0]}" if len(model.coef) > 1 else ""
    table = coefficient_table(found, most=len(model.features))
    blocks: list[Any] = [
        Text(status, tone="lead"),
        *map(Text, rest),
        Table(table.rows, caption="Coefficients, for the columns as they are in the file"),
        Text(f"The other tabs are on the run{runs}{units}."),
    ]
    sections = sections_of_result(found.results[0], names=found.coordinates, command=command)
    title = f"{model.target} from {Path(model.fitted['data']).name}"
    return write(path, title, [Section("Model", blocks), *sections], f"{model.kind.value}, {model.fitted['rows']} rows")
