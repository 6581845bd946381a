"""What is said beforehand of a record on disk that is not read once and in order."""

from __future__ import annotations

import numpy as np
import pytest
from disk_records import stored
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.engine import sparse

ROWS = 3001


def test_sparse_rows_of_more_features_than_steps_say_what_they_cost(tmp_path, monkeypatch):
    """They are not many short chains either, which would be read in parts."""
    monkeypatch.setattr(sparse, "MEMORY", 1000)
    rng = np.random.default_rng(0)
    states = rng.integers(0, 600, ROWS + 1)
    buffer = mr.Buffer(states=states[:-1], next_states=states[1:], rewards=rng.standard_normal(ROWS))
    problem = mr.PolicyEvaluation(0.5, table=csr_array(np.eye(600)))
    for order in (mr.Interleaved(40), mr.Multiscale(epochs=8, phases=7)):
        memory = mr.solve(problem, buffer, replay=order, step=0.1)
        with pytest.warns(UserWarning, match="does not read the record in order"):
            disk = mr.solve(problem, stored(tmp_path, buffer), replay=order, step=0.1)
        assert np.allclose(
            memory.x, disk.x, rtol=1e-13, atol=1e-16
        )  # lots end inside chains, and so do sums of averages
