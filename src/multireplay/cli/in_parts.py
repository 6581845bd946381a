"""The work of `multireplay predict --on` and `--workers`: predictions in parts, a Parquet file each, in one folder."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from multireplay._write import beside, completed
from multireplay.cli.inferred import Doubted
from multireplay.cli.predicting import Predictor
from multireplay.cli.scores import Tally
from multireplay.cli.surveyed import FilePart, parts_of
from multireplay.show.progress import step_bar
from multireplay.spread import as_workers


class Made(NamedTuple):
    """What came of some rows: how many, how many have no prediction and why, or no reliable interval, what a score is
    made of, and a page."""

    rows: int
    unscored: Counter[str]
    doubted: Doubted
    tally: Tally | None
    drawn: dict[str, list[Any]]


@dataclass(frozen=True)
class PredictingRows:
    """A task: the predictions for the rows from one to another, written to a file that is complete or not there."""

    predictor: Any
    where: FilePart
    out: str

    def __call__(self) -> Made:
        fresh: dict[str, Any] = {"unscored": Counter(), "doubted": Doubted(), "tallies": [], "drawn": {}}
        predictor = replace(self.predictor, record=self.where.opened(), **fresh)
        rows, writer = 0, None
        with completed(Path(self.out)) as file:
            for start, block in self.where.batches(predictor.columns):
                found = predictor.predicted(block, start)
                table = pa.table({**predictor.beside(block), **found})
                writer = writer or pq.ParquetWriter(pa.PythonFile(file, mode="w"), table.schema)
                writer.write_table(table)
                rows += block.num_rows
            if writer is not None:
                writer.close()
        return Made(rows, predictor.unscored, predictor.doubted, predictor.whole_tally, predictor.drawn)


def predict_in_parts(predictor: Predictor, out: Path, on: Any) -> int:
    """Write the folder, which has its name only when all of it is there; gives the number of rows."""
    out = Path(os.path.realpath(out))
    unfinished, record, workers = beside(out, "unfinished"), predictor.record, as_workers(on)
    sent = replace(predictor, record=None)  # type: ignore[arg-type]

    def tasks() -> Iterator[PredictingRows]:
        for number, part in enumerate(parts_of(record)):
            yield PredictingRows(sent, part, str(unfinished / f"part-{number:05d}.parquet"))

    rows = 0
    unfinished.mkdir(parents=True)
    try:
        with step_bar(record.source.rows, "predicting", "rows") as advance:
            for made in workers.map(tasks()):
                advance(made.rows)
                rows += made.rows
                predictor.unscored.update(made.unscored)
                predictor.doubted.add(made.doubted)
                if predictor.truth is not None:
                    predictor.tallies.append(made.tally)
                for name, values in made.drawn.items():
                    predictor.drawn.setdefault(name, []).extend(values)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return rows
