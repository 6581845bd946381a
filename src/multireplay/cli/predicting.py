"""The work of `multireplay predict`: predictions block by block, to a file that is complete or not there at all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from multireplay._write import completed
from multireplay.cli.data_file import DataFile
from multireplay.cli.inferred import bands
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind
from multireplay.cli.scores import score_by
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
    drawn: dict[str, list[Any]] | None = None
    """What a page draws besides the predictions, if there is one: chances, and the ends of intervals."""
    unscored: Counter[str] = field(default_factory=Counter)
    """How many rows have no prediction, by why."""

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

    def beside(self, block: Any) -> dict[str, Any]:
        """Those columns of some rows, but for lists."""
        found = {self.names[name]: block.column(name) for name in self.carried}
        return {name: column for name, column in found.items() if not pa.types.is_nested(column.type)}

    def run(self, out: Path | None, keep: bool) -> dict[str, Any]:
        """Write all columns to the file, or print them; what is returned is the predictions alone.

        To `keep` them, all are returned and none is printed.
        """
        made: list[dict[str, Any]] = []
        rows, writer, carried = self.record.source.rows, None, self.carried
        as_text = out is None or out.suffix == ".csv"
        with ExitStack() as opened:
            advance = opened.enter_context(step_bar(rows, "predicting", "rows")) if rows >= LONG else None
            for first, block in self.record.batches([*self.model.columns, *carried]):
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
        if spans is not None:
            found = {name: values * spans[usable] for name, values in found.items()}
        if self.drawn is not None:
            self._draw(found, usable)
        if usable.all():
            return {name: pa.array(values) for name, values in found.items()}
        places = pa.array(np.cumsum(usable) - 1, mask=~usable)
        return {name: pa.array(values).take(places) for name, values in found.items()}

    def _draw(self, found: Mapping[str, NDArray[Any]], usable: NDArray[np.bool_]) -> None:
        """Keep what the page draws, not a number for a row that cannot be scored."""
        assert self.drawn is not None
        chances = [found[f"probability of {name}"] for name in self.model.classes]
        more = {"chance": chances[1] if len(chances) == 2 else np.max(chances, axis=0)} if chances else found
        for name in ("chance", "low", "high"):
            if name in more:
                whole = np.full(len(usable), np.nan)
                whole[usable] = more[name]
                self.drawn.setdefault(name, []).append(whole)


def _spans(column: Any, name: str, design: Design | None = None) -> NDArray[Any]:
    """The exposure of every row; one without a number above 0 cannot be used."""
    spans = as_numbers(column, name)
    if design is not None:
        design.leave_out(~(np.isfinite(spans) & (spans > 0)) & design.usable, f"no number above 0 in {name!r}")
    return spans


def _writer(path: Path | None, schema: Any, opened: ExitStack) -> Any:
    """What writes tables one after the other, to the file or to standard output, until all that is opened is closed."""
    from pyarrow import csv, parquet

    if path is None:
        return opened.enter_context(csv.CSVWriter(sys.stdout.buffer, schema))
    file = pa.PythonFile(opened.enter_context(completed(path)), mode="w")
    kind = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    return opened.enter_context(kind(file, schema))


def truth_of(record: DataFile, model: Model) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """The target's column and where there is nothing in it, if the file has it."""
    column, place = record.features.get(model.target, (model.target, None))
    if column not in record.names:
        return None
    try:
        found = record.table([column]).column(column)
        if model.kind is ModelKind.logistic:
            return as_classes(found, model.target)
        values = as_numbers(found, column) if place is None else as_lists(found, column)[0][:, place]
    except InputError:
        return None
    return values, ~np.isfinite(values)


def score_of(model: Model, record: DataFile, found: Any) -> dict[str, Any] | None:
    """The score of the predictions by the record's own target, if it has that, or why it is not defined."""
    both = truth_of(record, model)
    if both is None:
        return None
    there = ~both[1] & found.is_valid().to_numpy()
    truth, predicted = both[0][there], np.asarray(found.filter(pa.array(there)).to_numpy())
    if model.exposure is None:
        return score_by(model.kind, truth, predicted)
    spans = _spans(record.table([model.exposure]).column(model.exposure), model.exposure)
    return score_by(model.kind, truth, predicted, spans[there])


def scored(score: Mapping[str, Any], against: str) -> str:
    """The score as a sentence, or why there is none."""
    if score["score"] is None:
        return f"{score['metric']} {against} is not defined: {score['why_not']}."
    return f"{score['metric']} {against}: {score['score']:.4g}"
