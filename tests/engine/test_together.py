"""Epochs of short chains that share one reading in parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupting
from multireplay.engine.together import Parts

import multireplay as mr
from multireplay.engine import chains, kinds, together


@given(length=st.integers(2, 400), depth=st.integers(0, 6), extra=st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_every_chain_of_every_epoch_is_read_once_and_exactly(length, depth, extra):
    depth = min(depth, length.bit_length() - 1)
    parts = Parts(length, 2**depth)
    room = 2 * 2**depth + extra
    for k in range(depth + 1):
        found = []
        for low, high in parts.places(room):
            positions = parts.positions(low, high)
            assert len(positions) == parts.size(low, high) <= room
            found += positions[parts.chains(2**k, low, high)].tolist()
        gap = length // 2**k
        by_hand = [[t * length // 2**k - offset for t in range(1, 2**k + 1)] for offset in range(gap)]
        assert sorted(found, reverse=True) == by_hand


@given(length=st.integers(2, 400), depth=st.integers(0, 6), rooms=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_chains_does_not_depend_on_the_room(length, depth, rooms):
    depth = min(depth, length.bit_length() - 1)
    parts = Parts(length, 2**depth)
    orders = []
    for room in rooms:
        blocks = list(parts.places(2 * 2**depth + room))
        rows = [parts.positions(*places)[parts.chains(2 ** (depth // 2), *places)] for places in blocks]
        orders.append(np.concatenate(rows).tolist())
    assert orders[0] == orders[1]


def record(rows, dim=4):
    rng = np.random.default_rng(rows)
    A = rng.standard_normal((rows + 1, dim))
    return mr.Buffer(features=A[:-1], next_features=A[1:], rewards=A[1:, 0], targets=A[:-1].sum(axis=1))


@pytest.mark.parametrize("rows", [64, 777, 1000])
@pytest.mark.parametrize("problem", [mr.GLM(), mr.PolicyEvaluation(0.5, constraint=mr.sets.Ball(0.3))], ids=repr)
def test_as_epoch_after_epoch(monkeypatch, rows, problem):
    monkeypatch.setattr(kinds, "MEMORY", 2000)
    options = {"replay": mr.Multiscale(phases="all"), "step": (0.05, 0.01), "average": 0.5}
    found = mr.solve(problem, record(rows), **options)
    with monkeypatch.context() as patch:
        patch.setattr(together, "served", lambda plan, job: [])
        alone = mr.solve(problem, record(rows), **options)
    for one, other in zip(found.epochs, alone.epochs, strict=True):
        assert (one.k, one.taken, one.diverged) == (other.k, other.taken, False)
        assert np.allclose(one.last, other.last, rtol=1e-12, atol=1e-14)
        assert np.allclose(one.average, other.average, rtol=1e-12, atol=1e-14)


def test_an_epoch_that_diverges_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(kinds, "are_few", lambda planned, job: False)
    A = np.zeros((8, 1))
    A[[5, 7]] = 1e40  # last steps of chains of two steps, neighbours in a chain of four
    buffer = mr.Buffer(features=A, targets=np.ones(8))
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(epochs=2, phases="all"), step=0.1, average="none")
    assert [epoch.diverged for epoch in result.epochs] == [False, True]
    assert [epoch.taken for epoch in result.epochs] == [8, 3]


@pytest.mark.parametrize("rooms", [(100, 100), (100, 300)])
@pytest.mark.parametrize("at", [1, 2, 7, 20])
def test_interrupted_it_goes_on_to_the_same_bits(monkeypatch, tmp_path, at, rooms):
    """Also with blocks of another size, as a record on disk has them when it is opened with another budget."""
    monkeypatch.setattr(kinds, "MEMORY", 2000)
    options = {"replay": mr.Multiscale(phases="all"), "step": (0.05, 0.01)}
    straight = mr.solve(mr.GLM(), record(1000), **options)
    options["checkpoint"] = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(together, "BLOCK", rooms[0])
        patch.setattr(chains, "advance_chains", interrupting(chains.advance_chains, at))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(mr.GLM(), record(1000), **options)
    assert options["checkpoint"].exists()
    monkeypatch.setattr(together, "BLOCK", rooms[1])
    again = mr.solve(mr.GLM(), record(1000), **options)
    for one, other in zip(straight.epochs, again.epochs, strict=True):
        assert one.taken == other.taken
        assert np.array_equal(one.average, other.average)
        assert np.array_equal(one.last, other.last)


@pytest.mark.parametrize("at", [1, 2, 3, 5, 8])
def test_a_diverged_epoch_stays_so_over_an_interruption(monkeypatch, tmp_path, at):
    monkeypatch.setattr(kinds, "are_few", lambda planned, job: False)
    monkeypatch.setattr(together, "BLOCK", 16)
    A = np.zeros((64, 1))
    A[[40, 56]] = 1e40  # in one chain of four steps
    buffer = mr.Buffer(features=A, targets=np.ones(64))
    options = {"replay": mr.Multiscale(epochs=2, phases="all"), "step": 0.1, "average": "none"}
    with pytest.warns(mr.DivergenceWarning):
        straight = mr.solve(mr.GLM(), buffer, **options)
    assert [epoch.diverged for epoch in straight.epochs] == [False, True]
    assert 4 < straight.epochs[1].taken < 60
    options["checkpoint"] = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(chains, "advance_chains", interrupting(chains.advance_chains, at))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(mr.GLM(), buffer, **options)
    with pytest.warns(mr.DivergenceWarning):
        again = mr.solve(mr.GLM(), buffer, **options)
    assert [epoch.taken for epoch in again.epochs] == [epoch.taken for epoch in straight.epochs]
    assert np.array_equal(again.epochs[0].last, straight.epochs[0].last)
