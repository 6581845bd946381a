"""A record whose numbers are made by a recipe as it is read, wherever it is: nothing of it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multireplay._check import Positions
from multireplay.buffer.columns import Array
from multireplay.buffer.disk.layout import Layout, MappedColumn, Part
from multireplay.buffer.disk.source import Field, Reader, Source
from multireplay.buffer.disk.table import BatchReader
from multireplay.cli.data_file import BLOCK, DataFile
from multireplay.cli.options import ModelKind
from multireplay.tables import Design
from multireplay.tables.cells import as_chunked, as_classes, as_lists, as_numbers

TARGET, WEIGHTS, LABELS = "\0target", "\0weights", "\0labels"
"""What is made besides the features: the target of the fit, what a row weighs, and the target as a series."""
MADE = 2**21
"""Bytes of numbers that are made at a time."""
NUMBER = Field(np.dtype(np.float64), None)


@dataclass(frozen=True)
class Response:
    """The column that is predicted, and how it becomes a number."""

    name: str
    kind: ModelKind
    column: str
    place: int | None = None
    worded: bool = False
    """Whether classes that are yes or no are words, as they are where some rows have none."""
    classes: tuple[Any, ...] = ()
    exposure: str | None = None
    weights: tuple[float, ...] = ()
    """Of the classes; or of one unit of exposure."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (self.column, *([] if self.exposure is None else [self.exposure]))

    def read(self, table: Any, design: Design) -> NDArray[Any]:
        """The target of every row as it is; rows without one cannot be used."""
        column = table.column(self.column)
        if self.kind is ModelKind.logistic:
            values, empty = as_classes(as_chunked(column).cast("string") if self.worded else column, self.name)
        elif self.place is not None:
            lists, empty = as_lists(column, self.column)
            values = lists[:, self.place] if lists.shape[1] else np.full(len(empty), np.nan)
        else:
            values = as_numbers(column, self.name)
            empty = np.isnan(values)
            design.leave_out_extremes(values, self.name)
        design.leave_out(empty, f"nothing in {self.name!r}")
        return values

    def spans(self, table: Any, design: Design) -> NDArray[np.float64]:
        """The exposure of every row; rows without one cannot be used."""
        assert self.exposure is not None
        found = as_numbers(table.column(self.exposure), self.exposure)
        design.leave_out(~np.isfinite(found), f"nothing in {self.exposure!r}")
        return found

    def numbers(self, table: Any, design: Design) -> dict[str, NDArray[np.float64]]:
        """What a fit needs of these rows."""
        values = self.read(table, design)
        if self.kind is ModelKind.logistic:
            known = np.array(self.classes)
            codes = np.minimum(np.searchsorted(known, values), len(known) - 1)
            worded = known.dtype.kind not in "iu"
            found = {TARGET: codes.astype(np.float64), LABELS: codes if worded else values.astype(np.float64)}
            return found | ({WEIGHTS: np.array(self.weights)[codes]} if self.weights else {})
        if self.exposure is None:
            return {TARGET: values, LABELS: values}
        spans = self.spans(table, design)
        with np.errstate(all="ignore"):
            return {TARGET: values / spans, LABELS: values, WEIGHTS: spans * self.weights[0]}


@dataclass(frozen=True)
class Designed:
    """Where a record is, and what is made of it: from this, a worker opens the same."""

    path: Any
    dialect: Any
    recipe: Any
    response: Response | None = None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def at_once(self) -> int:
        """Rows whose numbers are made at a time."""
        return max(64, min(BLOCK, MADE // (8 * len(self.recipe.names))))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file that are read."""
        return tuple(dict.fromkeys([*self.recipe.columns, *(() if self.response is None else self.response.columns)]))

    def as_source(self, memory: int) -> Source:
        """The record, opened here."""
        return DesignedSource(self, DataFile.open(self.path, memory, self.dialect))

    def layouts(self) -> dict[str, MappedColumn]:
        """The columns of a fit."""
        assert self.response is not None
        features = Layout(tuple(map(Part, self.recipe.names)), False)
        weights = {"weights": one(WEIGHTS)} if self.response.weights else {}
        return {"features": MappedColumn(features), "targets": one(TARGET), **weights}


def one(name: str) -> MappedColumn:
    """A column with one number a row."""
    return MappedColumn(Layout((Part(name),), True))


class DesignedSource(Source):
    """The features of a recipe by name, the target and weights; what cannot be made of a row is 0."""

    def __init__(self, designed: Designed, file: DataFile) -> None:
        self.file, self.where, self.label, self.rows = file, designed, file.source.label, file.source.rows
        response = designed.response
        names = [*designed.recipe.names, *([] if response is None else [TARGET, LABELS])]
        self.fields = dict.fromkeys([*names, *([WEIGHTS] if response and response.weights else [])], NUMBER)
        self.times, self.refused = {}, {}

    def reader(self, names: Sequence[str], first: int) -> Reader:
        batches = self.file.batches(self.columns(names), first, None, self.where.at_once)
        return BatchReader(batches, lambda batch: self.values(batch, names), first)

    def take(self, targets: Mapping[str, Array], rows: Positions) -> None:
        for here, batch in self.file.picked(self.columns(tuple(targets)), rows, self.where.at_once):
            for name, values in self.values(batch, tuple(targets)).items():
                targets[name][here] = values

    def columns(self, names: Sequence[str]) -> list[str]:
        """The columns of the file that these are made of."""
        ours = [name for name in names if name not in (TARGET, WEIGHTS, LABELS)]
        found = list(self.where.recipe.only(ours).columns) if ours else []
        return list(dict.fromkeys([*found, *(self.where.response.columns if len(ours) < len(names) else ())]))

    def values(self, batch: Any, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """Numbers by name of some rows."""
        ours = [name for name in names if name not in (TARGET, WEIGHTS, LABELS)]
        design, found = Design(np.empty((0, 0)), np.ones(batch.num_rows, dtype=bool)), {}
        if ours:
            recipe = self.where.recipe.only(ours)
            design = recipe.design(batch)
            found = dict(zip(recipe.names, design.matrix.T, strict=True))
        if len(ours) < len(names):
            found |= self.where.response.numbers(batch, design)
        bad = ~design.usable
        if bad.any():  # left out by whoever knows of all columns
            found = {name: np.where(bad, 0.0, values) for name, values in found.items()}
        return {name: found[name] for name in names}

    def verify(self, names: Sequence[str], rows: Positions) -> None:
        self.file.source.verify(self.columns(names), rows)

    def place(self, name: str, row: int) -> tuple[str, int]:
        return self.file.source.place(self.columns([name])[0], row)

    def at(self, row: int) -> str:
        return self.file.source.at(row)

    def overhead(self, names: Sequence[str]) -> int:
        numbers = [name for name in self.columns(names) if name in self.file.source.fields]
        made: int = 2 * 8 * min(self.rows, self.where.at_once) * len(self.where.recipe.names)
        return made + (self.file.source.overhead(numbers) if numbers else 0)

    def touched(self, names: Sequence[str]) -> tuple[float, str]:
        return self.file.source.touched([name for name in self.columns(names) if name in self.file.source.fields])

    def identity(self, names: Sequence[str]) -> list[object]:
        response = self.where.response
        made = [] if response is None else [list(response.classes), list(response.weights)]
        return [*self.file.source.identity(self.columns(names)), self.where.recipe.to_dict(), made]
