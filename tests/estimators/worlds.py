"""Records for the tests of the estimators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter

ROWS = 3000


class World(NamedTuple):
    """Features and what there is to predict from them."""

    X: np.ndarray
    amounts: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    weights: np.ndarray


def make(rows=ROWS, sticky=0.0, seed=0, sparse=False):
    """Features of several scales and means, autoregressive with that coefficient; targets of every kind."""
    rng = np.random.default_rng(seed)
    series = lfilter([np.sqrt(1 - sticky**2)], [1.0, -sticky], rng.standard_normal((rows + 500, 3)), axis=0)[500:]
    scores = series @ [1.0, -0.5, 0.25]
    X = series * [1.0, 20.0, 0.1] + ([0.0, 0.0, 0.0] if sparse else [0.0, 100.0, -3.0])
    if sparse:
        X[np.abs(series) < 0.5] = 0.0
    return World(
        X,
        scores + rng.standard_normal(rows) + 5.0,
        np.where(rng.random(rows) < 1 / (1 + np.exp(-scores)), "up", "down"),
        rng.poisson(np.exp(0.5 * scores + 1)),
        rng.random(rows) + 0.1,
    )
