"""What `multireplay predict` has found, on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from multireplay.cli.fitted import names_of_rows
from multireplay.cli.inferred import rows_of
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.cli.predicting import Predictor, scored
from multireplay.errors import InputError
from multireplay.inference import Summary
from multireplay.report import write
from multireplay.report.blocks import TableBlock
from multireplay.report.sections import predicted, repeat
from multireplay.report.sections.coefficients import table_of
from multireplay.tables import as_times

WHAT = {ModelKind.linear: "responses", ModelKind.logistic: "probabilities", ModelKind.poisson: "counts"}


DRAWN = 2**17
"""Rows of a file that are drawn: all, or every so manyth that it is about so many."""


def write_page(path: Path, predictor: Predictor, count: int, command: str) -> Path:
    """A page with the predictions row by row, how they are spread, and how good they are if that is known."""
    model, score = predictor.model, predictor.score()
    whole = {name: pa.chunked_array(parts) for name, parts in predictor.drawn.items()}
    there = np.asarray(whole["prediction"].is_valid().to_numpy())
    values = np.asarray(whole["prediction"].drop_null().to_numpy())
    rows = whole["row"].to_numpy()[there]
    both = predictor.actual(whole["actual"]) if "actual" in whole else None
    classes = tuple(map(str, model.classes))
    actual = None if both is None else both[0][there]
    drawn = {name: whole[name].to_numpy()[there] for name in ("chance", "low", "high") if name in whole}
    found = predicted.Predictions(
        model.target,
        WHAT[model.kind],
        values.astype(str) if classes else values,
        rows,
        _times(str(model.fitted.get("time")), whole.get("time"), there),
        actual.astype(str) if classes and actual is not None else actual,
        None if both is None else ~both[1][there],
        drawn.get("chance"),
        (drawn["low"], drawn["high"]) if "low" in drawn else None,
        classes,
        predictor.level,
    )
    said = [f"{count - predictor.unscored.total()} predictions of {model.target} by a {model.kind.value} model."]
    if predictor.every > 1:
        said.append(f"Drawn and counted here is every {predictor.every}th row, {len(values)} of them.")
    if score is not None:
        said.append(scored(score, f"against the column {model.target} of the same file"))
    doubt = predictor.doubted.sentence(count - predictor.unscored.total())
    said += [] if doubt is None else [doubt]
    sections = [predicted.section(found, said, [coefficients_of(model)]), repeat.repeated(command)]
    return write(path, f"{model.target}, predicted for {predictor.record.path.name}", sections)


def coefficients_of(model: Model) -> TableBlock:
    """The table of the coefficients with all that the file knows of them, of every class."""
    several, level = len(model.coef) > 1, (model.inference or {}).get("level", 0.95)
    tables = [table_of(Summary(rows, level, ()), range(len(rows))) for rows in rows_of(model)]
    rows = [
        {**({"class": name} if several else {}), **row}
        for name, table in zip(names_of_rows(model), tables, strict=True)
        for row in table.rows
    ]
    longest = max(tables, key=lambda table: len(table.caption))
    caption = "Coefficients" if model.inference is None else f"Coefficients. {longest.caption}"
    return TableBlock(rows, caption=caption, shown=40)


def _times(name: str, column: Any, there: Any) -> tuple[str, list[Any]] | None:
    """When the rows were, where the file has the time and it does not go back, as it does with several series."""
    if column is None:
        return None
    try:
        times = as_times(column, name)
    except InputError:
        return None
    if times.clock or times.missing.any() or (np.diff(times.values) < 0).any():
        return None
    rows = np.flatnonzero(there)
    return name, [times.show(row) for row in rows.tolist()] if times.dates else times.values[rows].tolist()
