"""Tables of numbers as files: CSV that is the same to the byte for the same numbers, and Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multireplay._check import Vector
from multireplay._write import save_text


class Row(NamedTuple):
    """A point of a curve: mean and standard error over instances; a bound has neither."""

    panel: str
    method: str
    step: float
    iterations: int
    error_mean: float
    error_se: float = math.nan
    error_weighted_mean: float = math.nan
    error_weighted_se: float = math.nan
    instances: int = 1


def mean_and_error(values: Vector) -> tuple[float, float]:
    """Mean and its standard error; the error of one value is not a number."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float(np.mean(values)), math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def write(path: Path, rows: Iterable[Sequence[Any]], columns: Sequence[str] = Row._fields) -> None:
    """Write a table with six digits of every number; those that are not finite are written as nan or inf."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows)
    save_text(path, text.getvalue())


def read_texts(path: Path) -> list[dict[str, str]]:
    """A table as it is written, by column."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read(path: Path) -> list[Row]:
    """The points of curves that `write` wrote."""
    kinds = {"panel": str, "method": str, "iterations": int, "instances": int}
    return [Row(**{name: kinds.get(name, float)(line[name]) for name in Row._fields}) for line in read_texts(path)]


def markdown(rows: Sequence[Mapping[str, Any]], left: Sequence[str]) -> list[str]:
    """The lines of a Markdown table, with the columns aligned to the right but for those in `left`."""
    if not rows:
        return []
    return [
        f"| {' | '.join(rows[0])} |",
        f"|{'|'.join('---' if name in left else '--:' for name in rows[0])}|",
        *(f"| {' | '.join(map(str, row.values()))} |" for row in rows),
    ]


class Curves:
    """The table of one figure, asked by panel and method."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def points(self, panel: str, method: str) -> list[Row]:
        return [row for row in self.rows if row.panel == panel and row.method == method]

    def end(self, panel: str, method: str) -> float:
        """Error when its samples are used up."""
        return self.points(panel, method)[-1].error_mean

    def best(self, panel: str, method: str) -> float:
        """Smallest error on its curve."""
        return min(row.error_mean for row in self.points(panel, method))
