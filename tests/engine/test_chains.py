"""Phases of a gap one after the other, the sweep over them, and what goes wrong in a chain."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import numba
import numpy as np
import pytest
from disk_records import record, stored
from own_operators import pull
from reference import glm_operator

import multireplay as mr
from multireplay import sets
from multireplay.engine import chains
from multireplay.engine.chains import Team
from multireplay.engine.compiled import CompiledStepper
from multireplay.problems.base import UNBOUNDED
from multireplay.updates import plain


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
    monkeypatch.setattr(CompiledStepper, "are_few", lambda self, planned, room: False)  # one after the other
    whole = mr.solve(mr.GLM(), data, **options)
    monkeypatch.setattr(chains, "BLOCK", 8)
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


ROWS = 3001


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record(ROWS)
    return buffer, stored(tmp_path_factory.mktemp("record"), buffer)


RAISES, NOT_FINITE = 1e6, 2e6  # samples on which this operator goes wrong


def sometimes_wrong(x, sample):
    if sample[0] == RAISES:
        raise ValueError("by design")
    if sample[0] == NOT_FINITE:
        return np.full(2, np.nan)
    return x - sample


@pytest.mark.filterwarnings("ignore:Interleaved")  # of random access
@pytest.mark.parametrize("jit", [lambda f: f, numba.njit], ids=["python", "jitted"])
def test_what_goes_wrong_is_named(tmp_path, jit):
    problem = mr.VariationalInequality(jit(sometimes_wrong), dim=2)
    order = mr.Interleaved(3)
    chain, step = np.argwhere(order.plan(ROWS)[0].positions.reshape(3, 1000) == 1234)[0].tolist()
    assert chain > 0
    for wrong, says in ((RAISES, "ValueError: by design"), (NOT_FINITE, "where x = ")):
        samples = record(ROWS)["samples"].copy()
        samples[1233, 0] = wrong
        buffer = mr.Buffer(samples=samples)
        for where in (buffer, stored(tmp_path, buffer)):
            with pytest.raises(mr.OperatorError) as error:
                mr.solve(problem, where, replay=order, step=0.05)
            assert f"epoch 1, step {step + 1}, sample 1234 (counting from 1)" in str(error.value)
            assert says in str(error.value)


@pytest.mark.filterwarnings("ignore:Interleaved")
@pytest.mark.parametrize("jit", [lambda f: f, numba.njit], ids=["python", "jitted"])
def test_a_chain_that_diverges_stops_those_after_it(tmp_path, monkeypatch, jit):
    """As in memory, where chains are run one after the other."""
    samples = np.zeros((600, 1))
    samples[301::3] = -1e40  # the middle one of three chains, from its 101st step on

    def stretch(x, sample):
        return x * sample

    buffer = stored(tmp_path, mr.Buffer(samples=samples))
    assert isinstance(buffer, mr.StoredBuffer)
    problem = mr.VariationalInequality(jit(stretch), dim=1)
    x, steps = 1.0, 0
    for sample in samples[1::3, 0].tolist():
        if abs(x * sample) > UNBOUNDED:
            break
        x, steps = x - 0.5 * x * sample, steps + 1
    assert 100 < steps < 110
    told = []
    monkeypatch.setattr(plain, "step_bar", lambda total: nullcontext(told.append))
    with pytest.warns(mr.DivergenceWarning):
        found = mr.solve(problem, buffer, replay=mr.Interleaved(3), step=0.5, x0=[1.0], progress=True)
    assert found.epochs[0].diverged
    assert min(told) >= 0
    order = mr.Interleaved(3).plan(600)[0].positions.reshape(3, 200)
    chain = order[:, 0].tolist().index(2)
    assert chain == 1
    assert found.epochs[0].taken == chain * 200 + steps


@pytest.mark.filterwarnings("ignore:Multiscale")
def test_error_curves_of_several_chains_are_of_their_mean(both):
    problem, track = mr.VariationalInequality(pull, dim=2), mr.Track(np.zeros(2))
    options = {"replay": mr.Multiscale(phases=3), "step": 0.05, "track": track}
    memory, disk = (mr.solve(problem, buffer, **options) for buffer in both)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.array_equal(one.curve.iterations, other.curve.iterations)
        assert np.array_equal(one.curve.last, other.curve.last)
        assert np.array_equal(one.curve.average, other.curve.average)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_part_is_done_once_and_the_first_by_the_caller(size):
    done = []
    with Team(size) as team:
        team.share(lambda low, high: done.append((low, high, threading.current_thread())), range(0, 3 * size + 1, 3))
    assert sorted(part[:2] for part in done) == [(3 * part, 3 * part + 3) for part in range(size)]
    assert next(part[2] for part in done if part[0] == 0) is threading.current_thread()


def test_more_parts_than_threads_where_there_is_one():
    done = []
    with Team(1) as team:
        team.share(lambda low, high: done.append((low, high)), [0, 1, 2])
    assert done == [(0, 1), (1, 2)]


def test_pieces_are_cut_into_shares():
    assert Team(2).cuts(5) == [0, 2, 5]
    assert Team(4).cuts(2) == [0, 1, 2]


def test_fewer_parts_than_threads():
    done = []
    with Team(4) as team:
        team.share(lambda low, high: done.append((low, high)), [0, 7])
    assert done == [(0, 7)]


def test_an_error_in_another_thread_is_raised():
    def fail(low, high):
        if low:
            raise ValueError(f"part {low}")

    with Team(2) as team, pytest.raises(ValueError, match="part 1"):
        team.share(fail, [0, 1, 2])
