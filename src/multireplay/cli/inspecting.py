"""What a file is, for `multireplay inspect`: a model that was fitted, or a record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multireplay.buffer.names import listed
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitted import SHOWN, coefficient_tables, names_of_rows
from multireplay.cli.inferred import doubts_in, rows_of
from multireplay.cli.model import Model
from multireplay.cli.watched import RowReading
from multireplay.errors import InputError
from multireplay.show.text import TextTable, plural, short
from multireplay.streaming.store.journal import segments
from multireplay.streaming.store.verify import Verified, verify
from multireplay.tables import Kind, look_at
from multireplay.tables.cells import as_numbers

FEW = 12
"""Names of columns and levels of a category that are written out."""


def is_store(path: Path) -> bool:
    """Whether a folder has what the stores of streams have, be it damaged."""
    return isinstance(path, Path) and ((path / "store.json").exists() or bool(segments(path)))


def is_model(path: Path) -> bool:
    """Whether a file says that it is JSON, as only models do here."""
    if path.suffix == ".json":
        return True
    if not isinstance(path, Path) or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] == b"{"


@dataclass(frozen=True, eq=False)
class LookedAtModel:
    """A model file that was read and holds together."""

    path: Path
    model: Model
    rows: tuple[list[dict[str, Any]], ...]
    """The table of every row of the coefficients."""

    @classmethod
    def of(cls, path: Path) -> LookedAtModel:
        """Read it, or say what is wrong with it."""
        model = Model.load(path)
        rows = tuple(rows_of(model, path))
        try:
            doubts_in(model)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InputError(f"{path} is damaged: {type(error).__name__} {error}") from None
        return cls(path, model, rows)

    def shown(self, everything: bool) -> Iterator[str | TextTable]:
        """Sentences and tables, one after the other."""
        model = self.model
        classes = f", with {len(model.classes)} classes: {', '.join(map(str, model.classes))}" if model.classes else ""
        yield f"A {model.kind.value} model of {model.target!r}{classes}."
        yield from self._about()
        levels = _levels(model.recipe)
        numbers = [name for name in model.recipe.columns if name not in levels]
        some = len(numbers) if everything else FEW
        if numbers:
            yield f"From {plural(len(numbers), 'column')} of numbers: {listed(numbers, some)}."
        if levels:
            told = [{"categories": name, "levels": listed(found, some)} for name, found in levels.items()]
            yield TextTable(told, wrap="levels")
        weight = np.array([[_weight(row) for row in rows[:-1]] for rows in self.rows])
        tables, hidden = coefficient_tables(model, self.rows, weight, 10**9 if everything else SHOWN)
        yield from tables
        yield from (f"{line} --all shows them." for line in hidden)
        yield from doubts_in(model)

    def _about(self) -> Iterator[str]:
        """How it was fitted, as far as the file says so."""
        fitted, recipe = self.model.fitted, self.model.recipe
        if getattr(recipe, "formula", None):
            yield f"Formula: {recipe.formula}"
        if self.model.exposure is not None:
            yield f"Counts are for an exposure of 1, times the column {self.model.exposure!r}."
        data, rows = fitted.get("data"), fitted.get("rows")
        if isinstance(data, str) and isinstance(rows, int):
            beside = [f"{name} {fitted[name]!r}" for name in ("time", "group") if isinstance(fitted.get(name), str)]
            chains = fitted.get("chains")
            several = [plural(chains, "chain")] if isinstance(chains, int) and chains > 1 else []
            extra = f" ({', '.join([*beside, *several])})" if beside or several else ""
            yield f"Fitted to {plural(rows, 'row')} of {data}{extra}."
        settings = [f"{name}={fitted[name]}" for name in ("alpha", "standardize", "passes", "step") if name in fitted]
        version = fitted.get("multireplay")
        if settings:
            yield f"Settings: {', '.join(settings)}{f'; multireplay {version}' if isinstance(version, str) else ''}."
        status, held = fitted.get("status"), fitted.get("holdout")
        told = [line for line in (status if isinstance(status, list) else [status]) if isinstance(line, str)]
        if told:
            yield told[0] if len(told) == 1 else f"{len(told)} fits, one a class. The first: {told[0]}"
        yield from (line for line in fitted.get("about_rows") or () if isinstance(line, str))
        if isinstance(held, dict) and isinstance(held.get("score"), float):
            on = held.get("on") or f"the last {held.get('rows')} rows"
            yield f"{held.get('metric')} on {on}, which a trial fit had not seen: {short(held['score'])}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        model = self.model
        known = [{name.replace(" ", "_"): value for name, value in row.items()} for rows in self.rows for row in rows]
        names = [name for name in names_of_rows(model) for _ in range(len(model.features) + 1)]
        return {
            "file": self.path,
            "is": "model",
            "model": model.kind.value,
            "target": model.target,
            "classes": list(model.classes) or None,
            "features": list(model.features),
            "columns": list(model.columns),
            "exposure": model.exposure,
            "levels": _levels(model.recipe),
            "formula": getattr(model.recipe, "formula", None),
            "time": model.fitted.get("time"),
            "group": model.fitted.get("group"),
            "level": (model.inference or {}).get("level"),
            "coefficients": [
                {**({"class": name} if name else {}), **row} for name, row in zip(names, known, strict=True)
            ],
            "doubts": doubts_in(model),
            "fitted": model.fitted,
        }


def _weight(row: Mapping[str, Any]) -> float:
    """How much a coefficient matters, as far as the file knows: in standard errors."""
    if math.isnan(row["t"]):  # or it is infinite, of which JSON has no name
        return math.inf if row["standard error"] == 0 else 0.0
    return abs(float(row["t"]))


def _levels(recipe: Any) -> dict[str, list[str]]:
    """The columns that a model takes for categories, with their levels."""
    found: Mapping[str, Sequence[str]] | None = getattr(recipe, "levels", None)
    if found is None:
        found = {term.column: term.levels for term in recipe.terms if term.levels}
    return {name: list(levels) for name, levels in found.items()}


@dataclass(frozen=True, eq=False)
class LookedAtData:
    """A record, and what its columns hold."""

    path: Path
    rows: int
    columns: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, path: Path, memory: str, dialect: Any) -> LookedAtData:
        """Read all columns, or say what is wrong with the file."""
        file = DataFile.open(path, memory, dialect)
        table = file.table(file.names)
        columns = []
        for name, look in look_at(table).items():
            found = {"name": name, "holds": look.kind.value, "missing": look.missing, "levels": list(look.levels)}
            ends = _ends(table.column(name), name) if look.kind is Kind.number and name not in file.widths else None
            columns.append({**found, "range": ends, "width": file.widths.get(name), "about": look.about})
        return cls(path, table.num_rows, tuple(columns))

    def shown(self, everything: bool) -> Iterator[str | TextTable]:
        """A sentence and a table."""
        yield f"A record of {plural(self.rows, 'row')} and {plural(len(self.columns), 'column')}."
        most = len(self.columns) if everything else SHOWN
        told = []
        for column in self.columns[:most]:
            ends, width = column["range"], column["width"]
            holds = column["holds"] if width is None else f"{width} numbers a row"
            what = listed(column["levels"], 6) or ("" if ends is None else f"{short(ends[0])} to {short(ends[1])}")
            told.append({"column": column["name"], "holds": holds, "missing": column["missing"] or "", "what": what})
        yield TextTable(told, wrap="what")
        if len(self.columns) > most:
            yield f"{len(self.columns) - most} more columns are not shown; --all shows them."
        yield from (f"{c['name']!r} {c['about']}." for c in self.columns[:most] if c["about"])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"file": self.path, "is": "record", "rows": self.rows, "columns": self.columns}


def _ends(column: Any, name: str) -> list[float] | None:
    """The least and the largest number of a column."""
    values = as_numbers(column, name)
    values = values[np.isfinite(values)]
    return [float(values.min()), float(values.max())] if len(values) else None


@dataclass(frozen=True, eq=False)
class LookedAtStore:
    """The store of a stream, every byte of which was compared with its checksums."""

    store: Verified
    reading: RowReading | None = None
    """How rows become numbers, where `watch` made it."""

    @classmethod
    def of(cls, path: Path) -> LookedAtStore:
        """Read all of it."""
        store = verify(path)
        try:
            return cls(store, RowReading.load(path))
        except InputError as error:
            store.wrong.append(str(error))
        return cls(store)

    def shown(self, everything: bool) -> Iterator[str | TextTable]:
        """Sentences and tables, one after the other."""
        store, stream = self.store, self.store.stream
        yield f"A stream of {store.made['problem']!r} in {store.folder}."
        yield from () if self.reading is None else self.reading.sentences()
        if stream is not None:
            held = f" and {plural(len(store.quarantined), 'row')} put aside" if store.quarantined else ""
            yield f"Position {stream.position:,}; {plural(store.kept, 'row')} in the journal{held}."
        yield f"It is being written by {store.writer}." if store.writer else "Nobody writes to it now."
        names = ("file", "records", "rows", "from", "bytes", "about")
        known = [{name: part[name] for name in names if part.get(name) is not None} for part in store.parts]
        yield TextTable([dict.fromkeys(names, "") | part for part in known])
        if stream is not None and stream.x is not None:
            yield from str(stream.result().summary()).splitlines() if everything else [str(stream.status)]
            yield str(stream.drift)
        yield from (f"WRONG: {line}" for line in store.wrong)
        if not store.wrong:
            yield "All of it is as it was written."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        store, stream = self.store, self.store.stream
        return {
            "file": store.folder, "is": "store", "problem": f"{store.made['problem']!r}",
            "settings": store.made["settings"],
            "position": None if stream is None else stream.position, "x": None if stream is None else stream.x,
            "kept": store.kept, "quarantined": len(store.quarantined), "writer": store.writer, "parts": store.parts,
            "wrong": store.wrong, "read": None if self.reading is None else asdict(self.reading),
        }  # fmt: skip
