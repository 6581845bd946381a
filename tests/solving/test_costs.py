"""What is said beforehand of a record on disk that is not read once and in order."""

from __future__ import annotations

import numpy as np
import pytest
from disk_records import record, stored
from own_operators import pull
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.engine import kinds, turns

ROWS = 3001


def test_where_memory_is_short_the_record_is_read_several_times_to_the_same_bits(monkeypatch, tmp_path):
    problem = mr.VariationalInequality(pull, dim=2)
    options = {"replay": mr.Multiscale(phases=500), "step": 0.05}
    buffer = mr.Buffer(samples=record(ROWS)["samples"])
    memory, where = mr.solve(problem, buffer, **options), stored(tmp_path, buffer)
    monkeypatch.setattr(turns, "MEMORY", 0)
    with pytest.warns(UserWarning, match="iterates of all epochs at once, so that the record is read . times for them"):
        disk = mr.solve(problem, where, **options)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert one.taken == other.taken
        assert np.array_equal(one.last, other.last)
        assert np.array_equal(one.average, other.average)
    with pytest.raises(mr.InputError, match=r"checkpoint=\.\.\. is for one reading, and memory= has no room"):
        mr.solve(problem, where, checkpoint=tmp_path / "state", **options)


def test_sparse_rows_of_more_features_than_steps_say_what_they_cost(tmp_path, monkeypatch):
    """They are not many short chains either, which would be read in parts."""
    monkeypatch.setattr(kinds, "MEMORY", 1000)
    rng = np.random.default_rng(0)
    states = rng.integers(0, 600, ROWS + 1)
    buffer = mr.Buffer(states=states[:-1], next_states=states[1:], rewards=rng.standard_normal(ROWS))
    problem = mr.PolicyEvaluation(0.5, table=csr_array(np.eye(600)))
    for order in (mr.Interleaved(40), mr.Multiscale(epochs=8, phases=7)):
        memory = mr.solve(problem, buffer, replay=order, step=0.1)
        with pytest.warns(UserWarning, match="does not read the record in order"):
            disk = mr.solve(problem, stored(tmp_path, buffer), replay=order, step=0.1)
        assert np.array_equal(memory.x, disk.x)


def test_iterates_that_memory_has_no_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "MEMORY", 1000)
    where = stored(tmp_path, mr.Buffer(samples=np.ones((ROWS, 1))))
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=2000)
    options = {"replay": mr.Interleaved(7), "step": 0.1}
    says = r"no room for the iterates of all chains of 1 of the 1 epochs of Interleaved\(gap=7\), .* 224 kB: give it tw"
    with pytest.warns(UserWarning, match=says + "ice that, or the record is read in random order"):
        mr.solve(problem, where, **options)
    with pytest.raises(mr.InputError, match=says):
        mr.solve(problem, where, checkpoint=tmp_path / "state", **options)
