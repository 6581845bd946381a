"""Standard errors and intervals of a fit as the model file and --json carry them, and predictions with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.errors import InputError, UncertaintyWarning
from multireplay.inference import BatchMeans, Images, Summary, Uncertainty
from multireplay.show.text import TextTable

KEPT = 1000
"""Features up to which a model file keeps what intervals of predictions are made of: 32 numbers each."""
INTERCEPT = "(intercept)"


def summaries_of(found: Sequence[Uncertainty], level: float) -> list[Summary]:
    """The tables of a fit, one for every row of its coefficients, in the units of the file; nothing warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertaintyWarning)
        return [one.summary(level) for one in found]


def inference_of(found: Sequence[Uncertainty], summaries: Sequence[Summary]) -> dict[str, Any]:
    """All that a fit knows of its own uncertainty: a table for every row of its coefficients."""
    tables = []
    for one, summary in zip(found, summaries, strict=True):
        keep = one.images is not None and len(one.x) <= KEPT + 1
        table: dict[str, Any] = {
            "coefficients": [{name.replace(" ", "_"): value for name, value in row.items()} for row in summary.rows],
            "why_not": one.why_not or None,
            "notes": list(one.notes),
            "doubts": one.doubt_note() or None,
            "batches": one.pieces() if keep else None,
            "unknown": None,
        }
        if keep and one.images is not None and one.images.unknown is not None:
            table["unknown"] = one.image_of_unknown()
        tables.append(table)
    return {"level": summaries[0].level, "by": repr(BatchMeans()), "tables": tables}


def doubts_in(model: Model) -> list[str]:
    """What intervals are not to be relied on, or why there are none: a sentence, or one for each class that differs."""
    tables: Sequence[Mapping[str, Any]] = (model.inference or {}).get("tables", ())
    said = [f"No standard errors: {table['why_not']}" if table["why_not"] else table["doubts"] for table in tables]
    if len(set(said)) == 1:
        return [f"{said[0][0].upper()}{said[0][1:]}."] if said[0] else []
    named = zip(model.classes, said, strict=True)
    return [f"Class {name}: {sentence}." for name, sentence in named if sentence]


def brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a summary with a short note: a sentence below the table says what it means."""
    said = row["mark"].partition(":")[0].replace("independent ", "").replace("effective ", "")
    return {**row, "mark": "not known" if np.isinf(row["standard error"]) else said}


def short_table(rows: Sequence[dict[str, Any]], level: float, title: str | None = None) -> TextTable:
    """The table of such rows; long names take several lines where the terminal is narrow."""
    table = Summary(rows, level, ()).table()
    if any("class" in row for row in rows):
        for row, shown in zip(rows, table.rows, strict=True):
            del shown["t"], shown["effective"]  # a narrow terminal has no room for all
            shown["class"] = row["class"]
        table = TextTable([{"class": "", **shown} for shown in table.rows])
    table.title, table.wrap = title, "name"
    return table


def known_by(model: Model, path: Any) -> list[Uncertainty]:
    """What a model file knows of its coefficients, as `Uncertainty`, or an error that says why it knows nothing."""
    if model.inference is None:
        raise InputError(f"{path} has no intervals: it was written by an earlier version. Fit the model again")
    names = [*model.features, INTERCEPT]
    found = []
    try:
        for x, end, table in zip(model.coef, model.intercept, model.inference["tables"], strict=True):
            if table["why_not"]:
                raise InputError(f"{path} has no intervals: {table['why_not']}")
            if table["batches"] is None:
                raise InputError(
                    f"{path} has no intervals of predictions: files keep what they are made of for up to {KEPT} "
                    f"features, and this has {len(model.features)}; the estimators have predict_interval"
                )
            batches = np.array(table["batches"], dtype=np.float64)
            if batches.ndim != 2 or batches.shape[1] != len(names) or not np.isfinite(batches).all():
                raise InputError(f"{path} is damaged: its batches do not go with {len(names) - 1} features")
            unknown = None if table["unknown"] is None else np.array(table["unknown"], dtype=np.float64)
            if unknown is not None and not np.isfinite(unknown).all():
                raise InputError(f"{path} is damaged: what it does not know of is not all numbers")
            images = Images(batches, batches, np.ones(len(batches)), unknown=unknown)
            found.append(Uncertainty(np.append(x, end), names, images))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from None
    return found


def bands(model: Model, found: Sequence[Uncertainty], rows: NDArray[Any], level: float) -> dict[str, Vector]:
    """The ends of intervals of the mean response by name of the column: "low" and "high", or those of every class."""
    whole = np.hstack([rows, np.ones((len(rows), 1))])
    if model.kind is ModelKind.logistic:
        from multireplay.estimators.uncertain import chance_bands

        _, low, high = chance_bands(found, whole, level, softmax=model.softmax)
        pairs = zip(model.classes, low.T, high.T, strict=True)
        return {
            f"{end} of {name}": ends for name, *both in pairs for end, ends in zip(("low", "high"), both, strict=True)
        }
    ends = found[0].interval(level, of=whole)
    if model.kind is ModelKind.poisson:
        with np.errstate(over="ignore"):
            ends = np.exp(ends)
    return {"low": ends[:, 0], "high": ends[:, 1]}
