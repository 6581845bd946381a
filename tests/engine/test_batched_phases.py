"""Operators over batches from a record on disk."""

from __future__ import annotations

import numpy as np
import pytest
from disk_records import record, stored
from interruption import interrupting
from multireplay.engine.batched_phases import BatchedPhases
from own_operators import pull_rows

import multireplay as mr
from multireplay.engine import kinds, together

ROWS = 3001


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record(ROWS)
    return buffer, stored(tmp_path_factory.mktemp("record"), buffer)


@pytest.mark.parametrize(
    ("how", "says"),
    [("raises", r"samples 1234 to 1236 \(counting from 1\): ValueError: by design"), ("nan", r"sample 1235 \(count")],
)
@pytest.mark.parametrize("where", [0, 1], ids=["memory", "disk"])
def test_what_goes_wrong_over_batches_is_named(both, how, says, where):
    value = both[0]["samples"][1234, 0]

    def operator(X, batch):
        if how == "raises" and (batch[:, 0] == value).any():
            raise ValueError("by design")
        return np.where(batch[:, :1] == value, np.nan, X - batch)

    problem = mr.VariationalInequality(operator, dim=2, batched=True)
    step = np.argwhere(mr.Interleaved(3).plan(ROWS)[0].positions.reshape(3, 1000) == 1235)[0][1] + 1
    with pytest.raises(mr.OperatorError, match=rf"epoch 1, step {step}, {says}"):
        mr.solve(problem, both[where], replay=mr.Interleaved(3), step=0.05)


def test_over_batches_the_default_reads_the_disk_in_order(both, recwarn):
    problem = mr.VariationalInequality(pull_rows, dim=2, batched=True, lipschitz=1.0)
    memory, disk = (mr.solve(problem, buffer) for buffer in both)
    assert not recwarn.list
    assert np.allclose(disk.x, memory.x, rtol=1e-10)
    assert np.allclose(disk.x, both[0]["samples"].mean(axis=0), rtol=1e-8)
    assert (disk.passes, len(disk.epochs)) == (memory.passes, len(memory.epochs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_over_batches_of_any_precision_and_with_a_set(tmp_path, dtype):
    buffer = mr.Buffer(samples=np.random.default_rng(0).standard_normal((500, 3)).astype(dtype))
    problem = mr.VariationalInequality(pull_rows, dim=3, batched=True, constraint=mr.sets.Ball(0.3))
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.1}
    memory, disk = (mr.solve(problem, where, **options) for where in (buffer, stored(tmp_path, buffer)))
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.allclose(one.last, other.last, rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_over_batches_a_run_that_diverges_says_so(tmp_path):
    buffer = mr.Buffer(samples=np.ones((600, 2)))
    problem = mr.VariationalInequality(lambda X, batch: -1e40 * X * batch, dim=2, batched=True)
    for where in (buffer, stored(tmp_path, buffer)):
        with pytest.warns(mr.DivergenceWarning):
            found = mr.solve(problem, where, replay=mr.Interleaved(3), step=0.1, x0=[1.0, 1.0])
        assert found.epochs[0].diverged
        assert 0 < found.epochs[0].taken < 30


@pytest.mark.parametrize("rows", [501, 777, 1001, 1500])
def test_over_batches_the_last_places_of_a_reading_in_parts_may_have_no_chain(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(kinds, "MEMORY", 2000)
    monkeypatch.setattr(together, "ASIDE", 4000)
    buffer = mr.Buffer(samples=np.random.default_rng(0).standard_normal((rows, 2)))
    problem = mr.VariationalInequality(pull_rows, dim=2, batched=True)
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.1}
    memory = mr.solve(problem, buffer, **options)
    where = stored(tmp_path, buffer)
    for room in (64, 80, 100):
        monkeypatch.setattr(together, "BLOCK", room)
        with pytest.warns(UserWarning, match="too many for one pass in order"):
            disk = mr.solve(problem, where, **options)
        for one, other in zip(memory.epochs, disk.epochs, strict=True):
            assert one.taken == other.taken
            assert np.allclose(one.average, other.average, rtol=1e-12)


def test_over_batches_short_chains_that_diverge_leave_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "MEMORY", 0)
    buffer = mr.Buffer(samples=np.ones((600, 2)))
    problem = mr.VariationalInequality(lambda X, batch: -1e60 * X * batch, dim=2, batched=True)
    options = {"replay": mr.Multiscale(epochs=3, phases="all"), "step": 0.1, "x0": [1.0, 1.0]}
    with pytest.warns(mr.DivergenceWarning), pytest.warns(UserWarning, match="too many"):
        found = mr.solve(problem, stored(tmp_path, buffer), **options)
    assert [epoch.diverged for epoch in found.epochs] == [True, True, True]
    assert found.epochs[2].last.tolist() == [1.0, 1.0]


def test_a_missing_column_is_said_in_the_words_of_the_user(tmp_path):
    where = stored(tmp_path, mr.Buffer(features=np.ones((500, 2))))
    with pytest.raises(mr.InputError, match=r"^VariationalInequality needs the column samples"):
        mr.solve(mr.VariationalInequality(pull_rows, dim=2, batched=True), where)


def test_a_checkpoint_is_not_for_another_engine(both, tmp_path, monkeypatch):
    problem = mr.VariationalInequality(pull_rows, dim=2, batched=True)
    where = stored(tmp_path, mr.Buffer(samples=both[0]["samples"]))
    options = {"replay": mr.Interleaved(7), "step": 0.05, "checkpoint": tmp_path / "state"}
    with monkeypatch.context() as patch:
        patch.setattr(BatchedPhases, "feed", interrupting(BatchedPhases.feed, 2))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(problem, where, **options)
    with pytest.raises(mr.InputError, match=r"^checkpoint .* belongs to another run"):
        mr.solve(problem, where, backend="python", **options)
    assert np.allclose(
        mr.solve(problem, where, **options).x, mr.solve(problem, both[0], **{**options, "checkpoint": None}).x
    )
