"""The work of `multireplay predict --on` and `--workers`: predictions in parts, a Parquet file each, in one folder."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import xlogy

from multireplay._check import Vector
from multireplay._write import beside, completed
from multireplay.cli.app import note
from multireplay.cli.data_file import DataFile
from multireplay.cli.fitting import SCORES
from multireplay.cli.large import ScoreSum
from multireplay.cli.model import Model
from multireplay.cli.options import ModelKind, print_json
from multireplay.cli.predicting import Predictor, scored
from multireplay.errors import InputError
from multireplay.show.progress import step_bar
from multireplay.spread import as_workers
from multireplay.tables.cells import as_classes, as_numbers
from multireplay.tables.recipe import dropped_in_words

LEAST, MOST_FILES = 2**20, 2**13
"""Rows of a file at least, and files that there are at most: what is in a file depends on the record alone."""


class Made(NamedTuple):
    """What came of some rows: how many, how many have no prediction and why, and what a score is made of."""

    rows: int
    unscored: Counter[str]
    sums: Vector | None


@dataclass(frozen=True)
class PredictingRows:
    """A task: the predictions for the rows from one to another, written to a file that is complete or not there."""

    predictor: Any
    path: Any
    memory: str
    first: int
    last: int
    out: str

    def __call__(self) -> Made:
        model = self.predictor.model
        predictor = replace(self.predictor, record=_opened(self.path, self.memory), unscored=Counter())
        target = [model.target] if model.target in predictor.record.names else []
        names = dict.fromkeys([*model.columns, *predictor.carried, *target])
        rows, sums, writer = 0, [], None
        with completed(Path(self.out)) as file:
            for start, block in predictor.record.batches(list(names), self.first, self.last):
                found = predictor.predicted(block, start)
                table = pa.table({**predictor.beside(block), **found})
                writer = writer or pq.ParquetWriter(pa.PythonFile(file, mode="w"), table.schema)
                writer.write_table(table)
                rows += block.num_rows
                if target:
                    sums.append(_sums(model, block.column(model.target), found["prediction"]))
            if writer is not None:
                writer.close()
        known = [part for part in sums if part is not None]
        return Made(rows, predictor.unscored, _joined(known) if known and len(known) == len(sums) else None)


@lru_cache(maxsize=2)
def _opened(path: Any, memory: str) -> DataFile:
    return DataFile.open(path, memory)


def _sums(model: Model, column: Any, predicted: Any) -> Vector | None:
    """What `ScoreSum` adds up, with squares about the mean of these rows; None where the target is not to be read."""
    there = predicted.is_valid().to_numpy(zero_copy_only=False)
    try:
        if model.kind is ModelKind.logistic:
            classes, nothing = as_classes(column, model.target)
            there = there & ~nothing
            made = np.asarray(predicted.filter(pa.array(there)).to_pylist()).astype(str)
            right = (classes[there].astype(str) == made).sum()
            return np.array([there.sum(), 0, 0, 0, 0, right, 0, 0, 0], dtype=np.float64)
        y = as_numbers(column, model.target)
    except InputError:
        return None
    there = there & np.isfinite(y)
    y, fitted = y[there], np.asarray(predicted.to_numpy(zero_copy_only=False), dtype=np.float64)[there]
    off = y - (y.mean() if len(y) else 0.0)
    counts = model.kind is ModelKind.poisson and bool((y >= 0).all())
    logs = (xlogy(y, y).sum(), xlogy(y, np.maximum(fitted, 1e-300)).sum()) if counts else (0.0, 0.0)
    return np.array([len(y), y.sum(), 0, off @ off, (y - fitted) @ (y - fitted), 0, *logs, fitted.sum()])


def _joined(parts: list[Vector]) -> Vector:
    """The sums of all parts; squares are about the mean of all."""
    whole = np.array(parts)
    counts, total = whole[:, 0], whole.sum(axis=0)
    means = whole[:, 1] / np.maximum(counts, 1)
    total[3] += counts @ (means - total[1] / max(total[0], 1.0)) ** 2
    return np.asarray(total)


def predict_in_parts(predictor: Predictor, out: Path | None, on: Any) -> Made:
    """Write the folder, which has its name only when all of it is there."""
    if out is None:
        raise InputError("--on and --workers write predictions to a folder: give its name with --out")
    if out.exists():
        raise InputError(f"--out {out} is there already: give the name of a new folder")
    out = Path(os.path.realpath(out))
    unfinished, record, workers = beside(out, "unfinished"), predictor.record, as_workers(on)
    rows = record.source.rows
    size = max(LEAST, -(-rows // MOST_FILES))
    sent = replace(predictor, record=None)  # type: ignore[arg-type]
    path = Path(os.path.abspath(record.path)) if isinstance(record.path, Path) else record.path

    def tasks() -> Iterator[PredictingRows]:
        for number, first in enumerate(range(0, rows, size)):
            file = str(unfinished / f"part-{number:05d}.parquet")
            yield PredictingRows(sent, path, record.memory, first, min(first + size, rows), file)

    made: list[Made] = []
    unfinished.mkdir(parents=True)
    try:
        with step_bar(rows, "predicting", "rows") as advance:
            for part in workers.map(tasks()):
                made.append(part)
                advance(part.rows)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    sums = [part.sums for part in made if part.sums is not None]
    found = _joined(sums) if len(sums) == len(made) else None
    return Made(sum(part.rows for part in made), sum((part.unscored for part in made), Counter()), found)


def say_parts(made: Made, model: Model, out: Path | None, as_json: bool) -> None:
    """Tell a person, or a program, what is in the folder."""
    score: dict[str, Any] | None = None
    if made.sums is not None:
        value = ScoreSum.score(model.kind, made.sums)
        why = None if value is not None else "there is nothing to explain: all are the same"
        score = {"metric": SCORES[model.kind], "score": value, "why_not": why}
    if as_json:
        about = {"rows": made.rows, "not_predicted": dict(made.unscored), "file": out, "score": score}
        print_json(about)
        return
    empty = made.unscored.total()
    if empty:
        note(f"{empty} of {made.rows} rows have no prediction: {dropped_in_words(made.unscored)}.")
    note(f"{made.rows - empty} predictions of {model.target!r} are in {out}.")
    if score is not None:
        note(scored(score, f"against the column {model.target!r}"))
