"""Standard errors and intervals of a fit as the model file and --json carry them, and predictions with intervals."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Vector
from multireplay.buffer.names import INTERCEPT, listed
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.errors import InputError, UncertaintyWarning
from multireplay.inference import BatchMeans, Images, Summary, Uncertainty
from multireplay.inference.doubts import ALONE, CROWD, NAMED, NEVER, PENALTY, reason_in
from multireplay.inference.images import has_part
from multireplay.inference.summary import coefficient_row
from multireplay.show.text import TextTable, by_class, plural

KEPT = 1000
"""Features up to which a model file keeps what intervals of predictions are made of: 32 numbers each."""
NUMBERS = ("coefficient", "standard error", "t", "p", "low", "high", "effective")


def summaries_of(found: Sequence[Uncertainty], level: float) -> list[Summary]:
    """The tables of a fit, one for every row of its coefficients, in the units of the file; nothing warns."""
    with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):
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
            "held": None,
            "off": None,
        }
        for name in ("unknown", "held") if keep else ():
            table[name] = one.image_of(getattr(one.images, name))
        if keep and one.images is not None and one.images.off is not None:
            table["off"] = one.at(one.images.off) - one.at(np.zeros_like(one.images.off))  # in the units of the file
        tables.append(table)
    return {"level": summaries[0].level, "by": repr(BatchMeans()), "tables": tables}


def doubts_in(model: Model) -> list[str]:
    """What holds for intervals, which are not to be relied on, or why there are none: in sentences, with the classes.

    What holds for all classes is said once.
    """
    tables: Sequence[Mapping[str, Any]] = (model.inference or {}).get("tables", ())
    said: list[tuple[str, str]] = []
    for name, table in zip(model.classes if len(tables) > 1 else ("",), tables, strict=False):
        lines = [*(table.get("notes") or ()), *([table["doubts"]] if table["doubts"] else [])]
        lines = [f"no standard errors: {table['why_not']}"] if table["why_not"] else lines
        said += [(str(name), line) for line in lines]
    return [f"{line[:1].upper()}{line[1:]}." for line in by_class(said, len(tables))]


def rows_of(model: Model, path: Any = "the model file") -> list[list[dict[str, Any]]]:
    """Coefficients of every class with what the file knows of them, checked against one another."""
    names, found = [*model.features, INTERCEPT], []
    try:
        tables = [None] * len(model.coef) if model.inference is None else model.inference["tables"]
        for x, end, table in zip(model.coef, model.intercept, tables, strict=True):
            values = np.append(x, end)
            if table is None:
                found.append([coefficient_row(name, value) for name, value in zip(names, values, strict=True)])
            else:
                found.append([_row(*parts) for parts in zip(names, values, table["coefficients"], strict=True)])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from None
    return found


def _row(name: str, value: float, found: Mapping[str, Any]) -> dict[str, Any]:
    if str(found["name"]) != name or not isinstance(found["mark"], str):
        raise ValueError(f"a row of {found['name']!r} where that of {name!r} should be")
    numbers = {
        entry: math.nan if (given := found[entry.replace(" ", "_")]) is None else float(given) for entry in NUMBERS
    }
    if math.isnan(numbers["standard error"]) and (found["mark"] == reason_in(NEVER) or numbers["t"] == 0):
        numbers |= {"standard error": math.inf, "low": -math.inf, "high": math.inf}  # of which JSON has no name
    return {"name": name, **numbers, "coefficient": float(value), "mark": found["mark"]}


def doubtful_in(model: Model) -> dict[str, int]:
    """Places of the coefficients, the intercept last, of which the record of the fit has seen too little, by name.

    Not of those that only a penalty settles: predictions may well depend on what is known of them together.
    """
    marked = [
        row["name"]
        for rows in rows_of(model)
        for row in rows
        if row["mark"] not in ("", PENALTY) and np.isfinite(row["standard error"])
    ]
    return {name: place for place, name in enumerate([*model.features, INTERCEPT]) if name in marked}


@dataclass
class Doubted:
    """How many predictions have part in coefficients that are not to be relied on, and in which.

    Examples
    --------
    >>> from collections import Counter
    >>> Doubted(12, Counter({"storm": 12})).sentence(500)
    '12 of 500 predictions use storm, of which the record has seen too little: do not rely on their intervals.'
    """

    rows: int = 0
    by: Counter[str] = field(default_factory=Counter)

    def count(self, rows: NDArray[Any], places: Mapping[str, int], held: Vector | None = None) -> None:
        """Count these rows of features, and among them those with part in directions that only a penalty settles."""
        whole = np.column_stack([rows, np.ones(len(rows))])
        used, names = whole[:, list(places.values())] != 0, list(places)
        if held is not None:
            used, names = np.column_stack([used, has_part(held, whole)]), [*names, HELD]
        by = Counter(dict(zip(names, used.sum(axis=0).tolist(), strict=True)))
        self.add(Doubted(int(used.any(axis=1).sum()), by))

    def add(self, other: Doubted) -> None:
        """Count what others have counted."""
        self.rows += other.rows
        self.by += other.by  # without those that no row has

    def sentence(self, of: int) -> str | None:
        """What to make of it, for so many predictions; None where all are to be relied on."""
        if not self.rows:
            return None
        use, which = ("uses", "its interval") if self.rows == 1 else ("use", "their intervals")
        return (
            f"{self.rows:,} of {plural(of, 'prediction')} {use} {listed(list(self.by), NAMED)}, of which the record "
            f"has seen too little: do not rely on {which}."
        )


HELD = "combinations that only the penalty settles"
SHORT = {ALONE: "one or two stretches", CROWD: "few rows", PENALTY: "by the penalty", NEVER: "not known"}


def brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a summary with a short note, for which a table has room: a sentence below says what it means.

    Examples
    --------
    >>> from multireplay.cli.inferred import brief
    >>> brief({"mark": "about 6 independent visits: do not rely on this interval", "standard error": 0.1})["mark"]
    'about 6 visits'
    """
    mark = row["mark"]
    said = (
        SHORT.get(mark) or reason_in(mark).replace("independent ", "").replace("effective ", "").partition(" of a")[0]
    )
    return {**row, "mark": "not known" if np.isinf(row["standard error"]) else said}


def short_table(rows: Sequence[dict[str, Any]], level: float, title: str | None = None) -> TextTable:
    """The table of such rows; long names and notes take several lines where the terminal is narrow."""
    table = Summary(rows, level, ()).table()
    if any("class" in row for row in rows):
        alike = len({row["mark"] for row in rows}) == 1
        for row, shown in zip(rows, table.rows, strict=True):
            del shown["t"], shown["effective"]  # a narrow terminal has no room for all
            shown["class"] = row["class"]
            if alike:
                del shown["note"]  # which is below the table
        table = TextTable([{"class": "", **shown} for shown in table.rows])
    table.title, table.wrap = title, ("name", "note")
    return table


def known_by(model: Model, path: Any) -> list[Uncertainty]:
    """What a model file knows of its coefficients, as `Uncertainty`, or an error that says why it knows nothing."""
    if model.inference is None:
        raise InputError(f"{path} has no intervals: it was written by an earlier version. Fit the model again")
    rows_of(model, path)  # which are read with them
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
            unknown, held = (
                None if table.get(name) is None else np.array(table[name], dtype=np.float64)
                for name in ("unknown", "held")
            )
            for rows in (unknown, held):
                if rows is not None and not np.isfinite(rows).all():
                    raise InputError(f"{path} is damaged: what it does not know of is not all numbers")
            off = None if table.get("off") is None else np.array(table["off"], dtype=np.float64)
            if off is not None and (off.shape != (len(names),) or not np.isfinite(off).all()):
                raise InputError(f"{path} is damaged: what curvature moves its coefficients by is not a number of each")
            images = Images(batches, batches, np.ones(len(batches)), unknown=unknown, off=off, held=held)
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

        with warnings.catch_warnings(action="ignore", category=UncertaintyWarning):  # doubtful predictions are counted
            _, low, high = chance_bands(found, whole, level, softmax=model.softmax)
        pairs = zip(model.classes, low.T, high.T, strict=True)
        return {
            f"{end} of {name}": ends for name, *both in pairs for end, ends in zip(("low", "high"), both, strict=True)
        }
    ends = found[0].ends(level, of=whole)
    if model.kind is ModelKind.poisson:
        with np.errstate(over="ignore"):
            ends = np.exp(ends)
    return {"low": ends[:, 0], "high": ends[:, 1]}
