"""Numbers behind a figure: one row a point, written so that the same seed gives the same bytes."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("panel", "method", "step", "iterations", "error_mean", "error_se", "error_weighted_mean", "instances")


class Row(NamedTuple):
    """A point of a curve: mean and standard error over instances."""

    panel: str
    method: str
    step: float
    iterations: int
    error_mean: float
    error_se: float
    error_weighted_mean: float
    instances: int


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and its standard error; the error of one value is not a number."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float(np.mean(values)), math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write a table; numbers that are not finite are written as nan or inf."""
    lines = [",".join(COLUMNS)]
    for row in rows:
        values = [f"{value:.6g}" if isinstance(value, float) else _quoted(str(value)) for value in row]
        lines.append(",".join(values))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _quoted(text: str) -> str:
    return f'"{text}"' if "," in text else text


def read(path: Path) -> list[Row]:
    """A table written by `write`."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                line["panel"], line["method"], float(line["step"]), int(line["iterations"]), float(line["error_mean"]),
                float(line["error_se"]), float(line["error_weighted_mean"]), int(line["instances"]),
            )
            for line in csv.DictReader(file)
        ]  # fmt: skip
