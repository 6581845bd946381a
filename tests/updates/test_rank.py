"""Directions that a record says nothing of."""

from __future__ import annotations

import numpy as np
import pytest

import multireplay as mr
from multireplay.buffer.record import as_record
from multireplay.engine.sums import Folding
from multireplay.updates.rank import known_directions


@pytest.mark.parametrize("seed", range(4))
def test_free_directions_are_null_vectors_of_the_features(seed):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((3000, 8)) * 10.0 ** rng.uniform(-3, 3, 8)
    F[:, 2], F[:, 4] = F[:, 0] - F[:, 1], 0.0
    known = known_directions(as_record(mr.GLM(), mr.Buffer(features=F, targets=F[:, 3])), Folding(1))
    assert known.groups == ((0, 1, 2), (4,))
    assert np.abs(F @ known.free.T).max() <= 1e-9 * np.abs(F).max()


def test_the_answer_is_the_shortest_one():
    rng = np.random.default_rng(5)
    F = rng.standard_normal((9000, 6))
    F[:, 2], F[:, 4], F[:, 5] = F[:, 0] - F[:, 1], 0.0, 1.0
    y = F @ np.arange(6.0) + rng.standard_normal(9000)
    result = mr.solve(mr.GLM(), mr.Buffer(features=F, targets=y))
    assert np.allclose(result.x, np.linalg.lstsq(F, y, rcond=None)[0], rtol=1e-8, atol=1e-10)
    assert result.free == ((0, 1, 2), (4,))
