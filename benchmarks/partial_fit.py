"""`partial_fit` row by row beside scikit-learn's: seconds, and how many times theirs ours takes.

Cold is the first stream of a process, with the loading of compiled loops and, where nothing has ever been compiled, the
compiling; warm is a second one. The first rows of a stream are fitted anew as they come in, the last thousand go to a
buffer that is full. The table is also written beside this file, as partial_fit.csv.

    python benchmarks/partial_fit.py
"""

from __future__ import annotations

import csv
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import SGDClassifier, SGDRegressor

import multireplay as mr
from multireplay.show.text import TextTable

ROWS, WIDTH, LAST = 6000, 10, 1000


def streams() -> dict[str, tuple[type, type, dict[str, object], np.ndarray]]:
    """By name: ours, theirs, what `partial_fit` is given besides, and the targets."""
    y = features() @ np.arange(WIDTH) + np.random.default_rng(1).standard_normal(ROWS)
    log_loss = lambda: SGDClassifier(loss="log_loss")  # noqa: E731
    return {
        "regressor": (mr.MERRegressor, SGDRegressor, {}, y),
        "classifier": (mr.MERClassifier, log_loss, {"classes": [0, 1]}, (y > 0).astype(int)),
        "three classes": (
            mr.MERClassifier,
            log_loss,
            {"classes": [0, 1, 2]},
            np.digitize(y, np.quantile(y, [0.3, 0.6])),
        ),
        "Poisson": (mr.MERPoissonRegressor, SGDRegressor, {}, np.abs(y).round()),
    }


def features() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH))


def seconds(model, X, y, options) -> tuple[float, float]:
    """For all rows, and for the last of them, one at a time."""
    began = time.perf_counter()
    for row in range(ROWS):
        if row == ROWS - LAST:
            full = time.perf_counter()
        model.partial_fit(X[row : row + 1], y[row : row + 1], **options)
    end = time.perf_counter()
    return end - began, end - full


def main() -> None:
    X, rows = features(), []
    for name, (ours, theirs, options, y) in streams().items():
        for how in ("cold", "warm"):
            mine, rival = seconds(ours(), X, y, options), seconds(theirs(), X, y, options)
            rows.append({
                "stream": name, "start": how, "ours (s)": f"{mine[0]:.2f}", "scikit-learn (s)": f"{rival[0]:.2f}",
                "ratio": f"{mine[0] / rival[0]:.2f}", f"of the last {LAST}": f"{mine[1] / rival[1]:.2f}",
            })  # fmt: skip
    with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    print(TextTable(rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
