"""The work of `multireplay predict`: predictions block by block, to a file that is complete or not there at all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from multireplay._write import completed
from multireplay.cli.data_file import DataFile
from multireplay.cli.inferred import Doubted, bands, doubtful_in
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.cli.scores import Tally, tally
from multireplay.errors import InputError
from multireplay.inference import Uncertainty
from multireplay.show.progress import step_bar
from multireplay.tables import Design
from multireplay.tables.cells import as_classes, as_lists, as_numbers

WHAT = ("probability", "low", "high")
"""What there is of every class."""
LONG = 2**20
"""Rows from which there is a bar."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model, a record to predict for, and what is known of the coefficients, where intervals are asked for."""

    model: Model
    record: DataFile
    known: Sequence[Uncertainty]
    level: float
    every: int = 0
    """Which rows a page draws, if there is one: all that this divides."""
    drawn: dict[str, list[Any]] = field(default_factory=dict)
    """What it draws: predictions, chances, ends of intervals, the target and the time."""
    unscored: Counter[str] = field(default_factory=Counter)
    """How many rows have no prediction, by why."""
    doubted: Doubted = field(default_factory=Doubted)
    """How many predictions have intervals that are not to be relied on."""
    tallies: list[Tally | None] = field(default_factory=list)
    """What scores of blocks by the record's own target are made of; None where that is not to be read."""

    @property
    def carried(self) -> list[str]:
        """Columns that go beside the predictions: groups, times and what was no feature, such as names of rows."""
        fitted, used = self.model.fitted, self.model.columns
        told = [fitted.get("group"), fitted.get("time"), *(fitted.get("left_out") or {})]
        return [name for name in told if name in self.record.names and name not in used]

    @cached_property
    def names(self) -> dict[str, str]:
        """What carried columns are called: another name where one of ours is the same."""
        ours = {"prediction", *(f"{what} of {one}" for what in WHAT for one in self.model.classes)}
        ours |= {"low", "high"} if self.known else set()
        found: dict[str, str] = {}
        for name in self.carried:
            called = name
            while called in ours or (called != name and called in self.record.names):
                called += " in the file"
            found[name] = called
        return found

    @cached_property
    def doubtful(self) -> dict[str, int]:
        """Coefficients that intervals are not to be relied on for, by name."""
        return doubtful_in(self.model)

    @property
    def truth(self) -> str | None:
        """The column with the target, if the record has it."""
        column = self.record.column_of(self.model.target)
        return column if column in self.record.names else None

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.model.columns, *self.carried, *([] if self.truth is None else [self.truth])]))

    def beside(self, block: Any) -> dict[str, Any]:
        """Those columns of some rows, but for lists."""
        found = {self.names[name]: block.column(name) for name in self.carried}
        return {name: column for name, column in found.items() if not pa.types.is_nested(column.type)}

    def run(self, out: Path | None, keep: bool) -> dict[str, Any]:
        """Write all columns to the file, or print them; what is returned is the predictions alone.

        To `keep` them, all are returned and none is printed.
        """
        made: list[dict[str, Any]] = []
        rows, writer = self.record.source.rows, None
        as_text = out is None or out.suffix == ".csv"
        with ExitStack() as opened:
            advance = opened.enter_context(step_bar(rows, "predicting", "rows")) if rows >= LONG else None
            for first, block in self.record.batches(self.columns):
                found = self.predicted(block, first)
                beside = self.beside(block)
                if not keep:
                    alone = {"prediction": found["prediction"]}
                    if not beside and len(found) == 1 and as_text:  # an empty line would be no row
                        found = {name: values.fill_null(np.nan) for name, values in found.items()}
                    table = pa.table({**beside, **found})
                    writer = writer or _writer(out, table.schema, opened)
                    writer.write_table(table)
                    found, beside = alone, {}  # the rest is written
                made.append({**found, **beside})
                if advance is not None:
                    advance(block.num_rows)
        return {name: pa.chunked_array([part[name] for part in made]) for name in made[0]}

    def predicted(self, block: Any, first: int) -> dict[str, Any]:
        """Predictions of some rows by name of the column, with nothing for a row that cannot be scored."""
        exposure = self.model.exposure
        try:
            design = self.model.recipe.design(block)
        except InputError as error:
            where = f", rows from {first} on" if first else ""
            raise InputError(f"{self.record.path}{where}: {error}") from None
        spans = None if exposure is None else _spans(block.column(exposure), exposure, design)
        self.unscored.update(design.reasons)
        usable = design.usable
        rows = design.matrix if usable.all() else design.matrix[usable]
        found = self.model.predict(rows)
        if self.known:
            found |= bands(self.model, self.known, rows, self.level)
            self.doubted.count(rows, self.doubtful, getattr(self.known[0].images, "held", None))
        if spans is not None:
            found = {name: values * spans[usable] for name, values in found.items()}
        whole = {name: pa.array(values) for name, values in found.items()}
        if not usable.all():
            places = pa.array(np.cumsum(usable) - 1, mask=~usable)
            whole = {name: values.take(places) for name, values in whole.items()}
        if self.truth is not None:
            self.tallies.append(self._tally(block, whole["prediction"], spans))
        if self.every:
            self._draw(block, first, whole)
        return whole

    def actual(self, column: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
        """The target of rows, and where there is nothing; None where it is not to be read."""
        place = self.record.features.get(self.model.target, (None, None))[1]
        try:
            if self.model.kind is ModelKind.logistic:
                return as_classes(column, self.model.target)
            values = as_numbers(column, "") if place is None else as_lists(column, "")[0][:, place]
        except InputError:
            return None
        return values, ~np.isfinite(values)

    def _tally(self, block: Any, predicted: Any, spans: NDArray[Any] | None) -> Tally | None:
        both = self.actual(block.column(self.truth))
        if both is None:
            return None
        there = ~both[1] & predicted.is_valid().to_numpy(zero_copy_only=False)
        made = np.asarray(predicted.filter(pa.array(there)).to_numpy(zero_copy_only=False))
        return tally(self.model.kind, both[0][there], made, None if spans is None else spans[there])

    def score(self) -> dict[str, Any] | None:
        """The score of the predictions by the record's own target, if it has that, or why it is not defined."""
        whole = self.whole_tally
        return None if whole is None else whole.score(self.model.kind)

    @property
    def whole_tally(self) -> Tally | None:
        """What the score of all blocks is made of; None where the target of one is not to be read."""
        known = [one for one in self.tallies if one is not None]
        return reduce(Tally.joined, known) if known and len(known) == len(self.tallies) else None

    def _draw(self, block: Any, first: int, found: Mapping[str, Any]) -> None:
        """Keep what the page draws."""
        rows = np.flatnonzero((first + np.arange(block.num_rows)) % self.every == 0)
        chances = [found[f"probability of {name}"].to_numpy(zero_copy_only=False) for name in self.model.classes]
        time = self.model.fitted.get("time")
        drawn = {
            "row": pa.array(first + rows),
            "prediction": found["prediction"].take(rows),
            **({"chance": pa.array(chances[1] if len(chances) == 2 else np.max(chances, axis=0)).take(rows)} if chances
               else {name: found[name].take(rows) for name in ("low", "high") if name in found}),
            **({} if self.truth is None else {"actual": block.column(self.truth).take(rows)}),
            **({"time": block.column(time).take(rows)} if time in self.carried else {}),
        }  # fmt: skip
        for name, values in drawn.items():
            self.drawn.setdefault(name, []).append(values)


def _spans(column: Any, name: str, design: Design) -> NDArray[Any]:
    """The exposure of every row; one without a number above 0 cannot be used."""
    spans = as_numbers(column, name)
    design.leave_out(~(np.isfinite(spans) & (spans > 0)), f"no number above 0 in {name!r}")
    return spans


def _writer(path: Path | None, schema: Any, opened: ExitStack) -> Any:
    """What writes tables one after the other, to the file or to standard output, until all that is opened is closed."""
    from pyarrow import csv, parquet

    if path is None:
        return opened.enter_context(csv.CSVWriter(sys.stdout.buffer, schema))
    file = pa.PythonFile(opened.enter_context(completed(path)), mode="w")
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    return opened.enter_context(kind(file, schema))


def scored(score: Mapping[str, Any], against: str) -> str:
    """The score as a sentence, or why there is none."""
    if score["score"] is None:
        return f"{score['metric']} {against} is not defined: {score['why_not']}."
    return f"{score['metric']} {against}: {score['score']:.4g}"
