"""Chains of one epoch that take turns with the blocks of a record on disk."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from disk_records import record, stored
from hypothesis import given, settings
from hypothesis import strategies as st
from multireplay.engine.batched_phases import BatchedPhases
from multireplay.engine.compiled_phases import CompiledPhases
from multireplay.engine.phases import Phases
from own_operators import pull

import multireplay as mr
from multireplay.averaging import as_averaging
from multireplay.engine import Job, make_stepper
from multireplay.problems.base import UNBOUNDED
from multireplay.problems.batched import as_batched
from multireplay.steps import Constant
from multireplay.updates import stochastic

ROWS = 3001


ENGINES = {
    "python": (mr.VariationalInequality(pull.py_func, dim=2), Phases),
    "compiled": (mr.VariationalInequality(pull, dim=2), CompiledPhases),
    "batched": (
        as_batched(mr.VariationalInequality(pull.py_func, dim=2, batched=True), np.zeros((1, 2))), BatchedPhases
    ),
}  # fmt: skip


@given(
    rows=st.integers(2, 120),
    k=st.integers(0, 6),
    phases=st.integers(2, 40),
    cuts=st.lists(st.integers(1, 119), max_size=6),
    kind=st.sampled_from(sorted(ENGINES)),
)
@settings(max_examples=60, deadline=None)
def test_every_chain_takes_its_own_steps_in_order(rows, k, phases, cuts, kind):
    """Whatever the blocks are. By hand: a chain at a time, from the definition of its positions."""
    k = min(k, rows.bit_length() - 2)
    if k < 1 or rows >> k < 2:
        return
    planned = mr.Multiscale(phases=phases).plan(rows)[k - 1]
    samples = np.random.default_rng(rows).standard_normal((rows, 2))
    problem, chains = ENGINES[kind]
    packed = problem.samples({"samples": samples})
    stepper = make_stepper(problem, mr.sets.WholeSpace(), 2, "auto", packed)
    job = Job(problem, SimpleNamespace(length=rows), stepper, Constant(0.1), as_averaging("full"), np.ones(2), np.inf)
    found = chains(planned, job)
    first = 0
    for last in [*sorted({cut for cut in cuts if cut < rows}), rows]:
        found.feed(problem.samples({"samples": samples[first:last]}), first + 1, last)
        first = last
    gap, lasts, averages = rows // 2**k, [], []
    for chain in range(planned.chains):
        x, xs = np.ones(2), []
        for t in range(1, 2**k + 1):
            x = x - 0.1 * (x - samples[t * rows // 2**k - chain * gap // planned.chains - 1])
            xs.append(x)
        lasts.append(x)
        averages.append(np.mean(xs, axis=0))
    epoch = found.finish()
    assert epoch.taken == planned.steps
    assert np.allclose(epoch.last, np.mean(lasts, axis=0), rtol=1e-12, atol=1e-14)
    assert np.allclose(epoch.average, np.mean(averages, axis=0), rtol=1e-12, atol=1e-14)


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
    monkeypatch.setattr(stochastic, "step_bar", lambda total: nullcontext(told.append))
    with pytest.warns(mr.DivergenceWarning):
        found = mr.solve(problem, buffer, replay=mr.Interleaved(3), step=0.5, x0=[1.0], progress=True)
    assert found.epochs[0].diverged
    assert min(told) >= 0
    order = mr.Interleaved(3).plan(600)[0].positions.reshape(3, 200)
    chain = order[:, 0].tolist().index(2)
    assert chain == 1
    assert found.epochs[0].taken == chain * 200 + steps


def test_error_curves_of_several_chains_are_of_their_mean(both):
    problem, track = mr.VariationalInequality(pull, dim=2), mr.Track(np.zeros(2))
    options = {"replay": mr.Multiscale(phases=3), "step": 0.05, "track": track}
    memory, disk = (mr.solve(problem, buffer, **options) for buffer in both)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.array_equal(one.curve.iterations, other.curve.iterations)
        assert np.array_equal(one.curve.last, other.curve.last)
        assert np.array_equal(one.curve.average, other.curve.average)
