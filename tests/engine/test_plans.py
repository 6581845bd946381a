"""Phases of a gap, the sweep over them, and all epochs in one pass."""

from __future__ import annotations

import numpy as np
import pytest
from own_operators import pull
from reference import glm_operator

import multireplay as mr
from multireplay import sets
from multireplay.engine import kinds, plans, sequential


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    F = rng.standard_normal((102, 3))
    return mr.Buffer(
        features=F[:-1],
        next_features=F[1:],
        rewards=rng.standard_normal(101),
        targets=rng.standard_normal(101),
        samples=rng.standard_normal((101, 3)),
    )


PROBLEMS = [mr.GLM(), mr.GLM("softplus"), mr.PolicyEvaluation(0.6), mr.VariationalInequality(pull, dim=3)]


def chains_by_hand(A, y, k, phases, step, skip):
    """The chains of epoch k, literally: every chain from 0, their last iterates and averages averaged."""
    B, gap = len(A), len(A) // 2**k
    count = gap if phases == "all" else min(phases, gap)
    lasts, averages = [], []
    for j in range(count):
        x, iterates = np.zeros(A.shape[1]), []
        for t in range(1, 2**k + 1):
            i = t * B // 2**k - j * gap // count - 1
            x = x - step * glm_operator("identity")(x, A[i], y[i])
            iterates.append(x)
        lasts.append(x)
        averages.append(np.mean(iterates[skip:], axis=0))
    return np.mean(lasts, axis=0), np.mean(averages, axis=0)


@pytest.mark.parametrize("backend", ["python", "compiled"])
@pytest.mark.parametrize("phases", [2, 7, "all"])
def test_phases_against_the_literal_chains(data, phases, backend):
    result = mr.solve(mr.GLM(), data, replay=mr.Multiscale(phases=phases), step=0.05, average="full", backend=backend)
    for epoch in result.epochs:
        last, average = chains_by_hand(data["features"], data["targets"], epoch.k, phases, 0.05, 0)
        assert np.allclose(epoch.last, last, rtol=1e-10)
        assert np.allclose(epoch.average, average, rtol=1e-10)


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("feasible", [sets.WholeSpace(), sets.Simplex()])
def test_engines_agree_on_phases_and_sweeps(data, problem, feasible):
    for replay in (mr.Multiscale(phases=3), mr.Multiscale(phases="all"), mr.Multiscale(phases="all", sweep=True)):
        options = {"replay": replay, "step": 0.05, "constraint": feasible, "average": 0.5}
        slow, fast = (mr.solve(problem, data, **options, backend=backend) for backend in ("python", "compiled"))
        for one, other in zip(slow.epochs, fast.epochs, strict=True):
            assert np.allclose(one.last, other.last, rtol=1e-10, atol=1e-12)
            assert np.allclose(one.average, other.average, rtol=1e-10, atol=1e-12)
        assert slow.passes == fast.passes


def test_chains_longer_than_a_block(monkeypatch, data):
    options = {"replay": mr.Multiscale(phases=2), "step": 0.05}
    monkeypatch.setattr(kinds, "are_few", lambda planned, job: False)  # one after the other
    whole = mr.solve(mr.GLM(), data, **options)
    monkeypatch.setattr(plans, "BLOCK", 8)
    parts = mr.solve(mr.GLM(), data, **options)
    for one, other in zip(whole.epochs, parts.epochs, strict=True):
        assert np.array_equal(one.last, other.last)
        assert np.array_equal(one.average, other.average)


def test_a_sweep_is_one_chain(data):
    replay = mr.Multiscale(epochs=3, phases="all", sweep=True)
    epoch = replay.plan(101)[2]
    assert (epoch.chains, epoch.length) == (1, 8 * 12)
    x = np.zeros(3)
    for position in epoch.positions:
        a, y = data["features"][position - 1], data["targets"][position - 1]
        x = x - 0.05 * a * (a @ x - y)
    found = mr.solve(mr.GLM(), data, replay=replay, step=0.05).epochs[2]
    assert np.allclose(found.last, x, rtol=1e-10)


@pytest.mark.parametrize("rows", [2, 3, 64, 100, 101])
@pytest.mark.parametrize("problem", PROBLEMS[:3], ids=repr)
@pytest.mark.parametrize("feasible", [sets.WholeSpace(), sets.Ball(0.2)])
def test_one_pass_is_bit_for_bit_the_epochs_one_after_the_other(monkeypatch, data, rows, problem, feasible):
    options = {"replay": mr.Multiscale(), "step": 0.05, "average": 0.3, "constraint": feasible}
    streamed = mr.solve(problem, data[:rows], **options)
    monkeypatch.setattr(sequential, "is_scale", lambda planned, job: False)
    apart = mr.solve(problem, data[:rows], **options)
    assert len(streamed.epochs) == len(apart.epochs) == rows.bit_length() - 1
    for one, other in zip(streamed.epochs, apart.epochs, strict=True):
        assert np.array_equal(one.last, other.last)
        assert np.array_equal(one.average, other.average)
        assert (one.k, one.gap, one.taken) == (other.k, other.gap, other.taken)


def test_one_pass_is_used_whenever_it_applies(monkeypatch, data):
    used = []
    original = sequential.Scales
    monkeypatch.setattr(sequential, "Scales", lambda *arguments: used.append(1) or original(*arguments))
    mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.05)
    tracked = mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.05, track=mr.Track([0.0] * 3, at="end"))
    assert len(used) == 2
    for epoch in tracked.epochs:
        assert epoch.curve.iterations.tolist() == [epoch.length]
        assert epoch.curve.last[0] == pytest.approx(epoch.last @ epoch.last)
    mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=0.05, backend="python")
    mr.solve(mr.GLM(), data, replay=mr.Multiscale(), step=mr.steps.Decaying(mu=10.0, t0=10))
    mr.solve(mr.GLM(), data, replay=mr.Dyadic(), step=0.05)
    assert len(used) == 2


def test_an_epoch_that_diverges_in_one_pass_leaves_the_others_alone():
    buffer = mr.Buffer(features=[[1e60], [1.0], [1e60], [1.0]], targets=np.ones(4))
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(), step=0.1, average="none")
    assert [epoch.diverged for epoch in result.epochs] == [False, True]
    assert result.epochs[0].last == pytest.approx(0.19)


def test_all_phases_beat_one_phase_at_the_same_depth():
    process = mr.simulate.paper_mrp(0.9)
    errors = []
    for seed in range(5):
        record = process.buffer(2**14, seed=seed)
        row = [
            np.sum(
                (mr.solve(process.problem, record, replay=replay, step=0.25).epochs[9].answer - process.solution) ** 2
            )
            for replay in (mr.Multiscale(), mr.Multiscale(phases=4), mr.Multiscale(phases="all"))
        ]
        errors.append(row)
    one, four, every = np.mean(errors, axis=0)
    assert every < four < one
