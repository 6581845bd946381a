"""Operators and a link as users write them. Tests share them: what is jitted is compiled anew in every process."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit
def pull(x, sample):
    """Towards the sample."""
    return x - sample


def pull_rows(X, batch):
    """The same over a batch."""
    return X - batch


@numba.njit
def rotation(x, sample, out):
    """Strongly monotone and no gradient: x plus a quarter turn of neighbouring pairs, minus the sample."""
    for j in range(0, x.shape[0], 2):
        out[j] = x[j] - x[j + 1] - sample[j]
        out[j + 1] = x[j + 1] + x[j] - sample[j + 1]


@numba.njit
def own_link(z):
    return z + 0.5 * np.sin(z)
