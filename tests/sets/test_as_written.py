"""Projections called from Python are those of the compiled loops to the last bit, and do not wait for a compiler."""

from __future__ import annotations

import numpy as np
import pytest

from multireplay import sets
from multireplay.sets import projections

SETS = [
    sets.Ball(1.5), sets.Ball(2.0, center=np.linspace(-1, 1, 6)), sets.Simplex(), sets.Simplex(total=3.0),
    sets.L1Ball(2.0), sets.Product((sets.Simplex(), 3), (sets.Ball(1.0), 3)),
]  # fmt: skip


@pytest.mark.parametrize("feasible", SETS, ids=str)
def test_plain_python_gives_the_compiled_bits(feasible):
    rng = np.random.default_rng(0)
    points = [*(rng.standard_normal((40, 6)) * 10.0 ** rng.integers(-8, 9, (40, 6)))]
    points += [np.full(6, value) for value in (0.0, -0.0, 1e300, np.inf, np.nan)]
    for x in points:
        one, other = x.copy(), x.copy()
        with np.errstate(all="ignore"):
            projections._as_written()(one, feasible.spec(6))
        projections.project(other, feasible.spec(6))
        assert one.tobytes() == other.tobytes() or np.array_equal(one, other, equal_nan=True)
