"""One of each kind of set, in six dimensions and so small that steps leave them."""

from __future__ import annotations

import itertools

import numpy as np

from multireplay import sets

DIM = 6
SETS = {
    "whole space": sets.WholeSpace(),
    "ball": sets.Ball(0.3, center=np.full(DIM, 0.1)),
    "box": sets.Box(-0.1, 0.2),
    "nonnegative": sets.NonNegative(),
    "simplex": sets.Simplex(),
    "l1 ball": sets.L1Ball(0.4),
    "halfspace": sets.Halfspace(np.arange(1.0, DIM + 1), 0.2),
    "product": sets.Product((sets.Simplex(), 2), (sets.Ball(0.2), 3), (sets.WholeSpace(), 1)),
}


def crossed(sets, schemes, averages):
    """Every set with every scheme, and every average with each of them: the averages take turns."""
    for (i, named), (j, scheme) in itertools.product(enumerate(sets.items()), enumerate(schemes)):
        yield named, scheme, averages[(i + j) % len(averages)]
