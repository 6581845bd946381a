"""A dependent record in a file, of which the answer is known, and a way to run commands."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from scipy.signal import lfilter
from typer.testing import CliRunner

from multireplay.cli import app

ROWS = 4000


@pytest.fixture
def run():
    def command(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return command


@pytest.fixture(scope="session")
def columns():
    rng = np.random.default_rng(0)
    x = lfilter([1.0], [1.0, -0.9], rng.standard_normal(ROWS))
    z = 5 + 2 * rng.standard_normal(ROWS)
    chance = 1 / (1 + np.exp(-(0.5 * x - 0.3 * (z - 5))))
    return {
        "when": np.arange(ROWS),
        "x": x,
        "z": z,
        "place": np.where(z > 5, "north", "south"),
        "heat": 3 * x - z + 7 + 0.1 * rng.standard_normal(ROWS),
        "fails": np.where(rng.random(ROWS) < chance, "yes", "no"),
        "count": rng.poisson(np.exp(0.1 * x + 0.2 * (z - 5))),
    }


@pytest.fixture
def data(tmp_path, columns):
    path = tmp_path / "data.csv"
    csv.write_csv(pa.table(columns), path)
    return path
