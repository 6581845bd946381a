"""A real dependent record: weekly CO2 at Mauna Loa, shipped with statsmodels, predicted from its own past."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from multireplay._check import Vector
from multireplay.buffer.buffer import Buffer
from multireplay.compare.worlds.base import Entry, MissingExtra, World, fit
from multireplay.diagnose.autocorrelation import integrated_autocorrelation_time
from multireplay.problems import GLM
from multireplay.reproduce.worlds import Size

LAGS = (1, 2, 3, 4, 6, 8, 13, 26, 39, 52)
SHARE = 2 / 3


def weekly_changes() -> Vector:
    """Week-to-week changes of the CO2 concentration, gaps interpolated, scaled to variance 1."""
    try:
        co2 = importlib.import_module("statsmodels.datasets.co2")
    except ImportError:
        raise MissingExtra("the CO2 record needs statsmodels: pip install 'multireplay[compare]'") from None
    values = np.asarray(co2.load_pandas().data["co2"], dtype=np.float64)
    known = np.isfinite(values)
    weeks = np.arange(len(values))
    changes = np.diff(np.interp(weeks, weeks[known], values[known]))
    return np.asarray(changes / changes.std())


def carbon_dioxide(size: Size, cache: Path) -> World:
    """Next week's change by linear regression on ten lags and a constant.

    No population solution exists. The reference x* is least squares on the whole record; the methods and the
    yardstick see a window of two thirds of it, which starts at a place that depends on the seed.
    """
    changes = weekly_changes()
    start = max(LAGS)
    columns = [changes[start - lag : len(changes) - lag] for lag in LAGS]
    features = np.column_stack([*columns, np.ones(len(columns[0]))])
    targets = changes[start:]
    problem = GLM()
    whole = Buffer(features=features, targets=targets)
    gram = features.T @ features / len(features)
    length = int(SHARE * len(features))

    def record(seed: Any) -> Buffer:
        first = int(np.random.default_rng(seed).integers(len(features) - length + 1))
        return whole[first : first + length]

    return World(
        problem=problem,
        record=record,
        solution=problem.fit_exactly(whole),
        weight=gram,
        jacobian=gram,
        time=float(np.max(integrated_autocorrelation_time(changes))) / 2,
        exact=fit(problem),
        yardstick="least squares",
        reference="least squares on the whole record; methods see windows of two thirds of it",
    )


ENTRIES = (Entry("CO2 at Mauna Loa (real)", "glm", carbon_dioxide, 0.5),)
