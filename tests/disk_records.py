"""A record that every problem can read, and the same on disk."""

from __future__ import annotations

import numpy as np

import multireplay as mr


def record(rows=3001, dim=5, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows + 1, dim))
    targets = (rng.random(rows) < 1 / (1 + np.exp(-A[1:, 0]))).astype(float)
    samples = rng.standard_normal((rows, 2))
    return mr.Buffer(features=A[:-1], next_features=A[1:], rewards=A[1:, 0], targets=targets, samples=samples)


def budget(buffer):
    """So little memory that the record stays on disk and is read in about twenty blocks."""
    return int(1.2 * sum(column.nbytes for column in buffer.columns.values())) + 2000


def stored(folder, buffer):
    for name, column in buffer.columns.items():
        np.save(folder / f"{name}.npy", column)
    return mr.Buffer.open(folder, memory=budget(buffer))
