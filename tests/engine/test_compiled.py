"""Chains side by side against chains one after the other, and all scales in one pass against each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interruption import interrupting

import multireplay as mr
from multireplay.averaging import as_averaging
from multireplay.buffer import record as record_module
from multireplay.engine.chains import Team
from multireplay.engine.compiled import CompiledStepper, Lanes, Scales
from multireplay.engine.epoch import Stepping
from multireplay.engine.kernels import loops

PROBLEMS = {
    "linear": mr.GLM(),
    "logistic": mr.GLM("logistic"),
    "policy evaluation": mr.PolicyEvaluation(0.9),
    "in a ball": mr.GLM("logistic", constraint=mr.sets.Ball(0.3)),
    "in a box": mr.PolicyEvaluation(0.5, constraint=mr.sets.Box(-0.2, 0.2)),
}
KINDS = [
    (name, dtype)
    for name in PROBLEMS
    for dtype in (np.float64, np.float32)
    if dtype == np.float64 or "in a" not in name
]
"""Rows in float32 only on the whole space: they are read alike on a set, whose loops take longest to compile."""
ORDERS = (mr.Interleaved(2), mr.Interleaved(70), mr.Interleaved(), mr.Multiscale(phases=3), mr.Multiscale(phases="all"))


def record(rows, dim, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows + 1, dim)).astype(dtype)
    targets = (rng.random(rows) < 1 / (1 + np.exp(-A[1:, 0]))).astype(float)
    return mr.Buffer(features=A[:-1], next_features=A[1:], rewards=A[1:, 0].astype(float), targets=targets)


def one_after_the_other(monkeypatch, *arguments, **options):
    with monkeypatch.context() as patch:
        patch.setattr(CompiledStepper, "way", lambda self, planned, job: "alone")
        return mr.solve(*arguments, **options)


@pytest.mark.parametrize("order", ORDERS, ids=repr)
@pytest.mark.parametrize(("name", "dtype"), KINDS)
def test_as_one_after_the_other(monkeypatch, name, order, dtype):
    problem, buffer = PROBLEMS[name], record(1003, 5, dtype)
    options = {"replay": order, "step": 0.02, "average": 0.5}
    found = mr.solve(problem, buffer, **options)
    for side, alone in zip(
        found.epochs, one_after_the_other(monkeypatch, problem, buffer, **options).epochs, strict=True
    ):
        assert side.taken == alone.taken
        assert np.allclose(side.last, alone.last, rtol=1e-11, atol=1e-13)
        assert np.allclose(side.average, alone.average, rtol=1e-11, atol=1e-13)


@given(rows=st.integers(70, 700), gap=st.integers(64, 400), dim=st.integers(1, 20), cuts=st.lists(st.integers(1, 700)))
@settings(max_examples=30, deadline=None)
def test_neither_threads_nor_blocks_change_a_bit(rows, gap, dim, cuts):
    problem, buffer = mr.GLM("logistic"), record(rows, dim)
    order = mr.Interleaved(min(gap, rows))
    alone, two = (mr.solve(problem, buffer, replay=order, step=0.05, threads=threads) for threads in (1, 2))
    assert (alone.x == two.x).all()
    epoch = order.plan(rows)[0]
    columns = problem.columns(buffer)
    stepper = CompiledStepper(mr.sets.WholeSpace(), dim)
    how = Stepping(
        problem=problem, stepper=stepper, schedule=mr.steps.Constant(0.05), averaging=as_averaging(7 / 8),
        x0=np.zeros(dim), limit=1e100,
    )  # fmt: skip
    chains = stepper.member("lanes", [how.epoch(epoch)])
    first = 0
    for last in sorted({*(cut for cut in cuts if cut < rows), rows}):
        part = {name: column[first:last] for name, column in columns.items()}  # as a record on disk is read
        chains.advance(record_module.Window(problem.samples(part), first + 1, last), first + 1, Team(1))
        first = last
    assert chains.taken == epoch.steps
    assert (chains.epochs()[0].average == alone.x).all()


@pytest.mark.parametrize("order", [mr.Interleaved(64), mr.Multiscale(phases=3), mr.Multiscale(phases="all")], ids=repr)
@pytest.mark.parametrize("at", [1, 4, 15])
def test_interrupted_within_a_window_it_goes_on_to_the_same_bits(monkeypatch, tmp_path, order, at):
    """Ctrl-C is noticed as soon as a compiled loop returns: some groups are then a window ahead of the others."""
    monkeypatch.setattr(record_module, "WINDOW", 2**15)
    monkeypatch.setattr(
        record_module.MemoryRecord,
        "windows",
        lambda self, first, cached, aside=0: (
            record_module.Window(self.samples, 1, min(self.length, start + 500))
            for start in range(first, self.length, 500)
        ),
    )
    problem, buffer = mr.GLM(), record(5000, 40)
    options = {"replay": order, "step": 0.005}
    straight = mr.solve(problem, buffer, **options)
    options["checkpoint"] = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(loops, "advance_lanes", interrupting(loops.advance_lanes, at))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(problem, buffer, threads=2, **options)
    again = mr.solve(problem, buffer, threads=1, **options)
    for one, other in zip(straight.epochs, again.epochs, strict=True):
        assert one.taken == other.taken
        assert np.array_equal(one.average, other.average)
        assert np.array_equal(one.last, other.last)


def test_memory_of_many_chains_of_few_coordinates():
    stepper = CompiledStepper(mr.sets.WholeSpace(), 1)
    how = Stepping(
        problem=mr.GLM(), stepper=stepper, schedule=mr.steps.Constant(0.1), averaging=as_averaging("full"),
        x0=np.zeros(1), limit=1e8,
    )  # fmt: skip
    chains = Lanes(stepper, how.epoch(mr.Interleaved(2**18).plan(2**19)[0]))
    assert chains.nbytes < 2 * 2**18 * 8


def test_a_chain_that_diverges_is_noticed():
    buffer = record(500, 3)
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Interleaved(4), step=50.0)
    assert result.status.code == "diverged"
    assert np.isfinite(result.x).all()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two"])
def test_bad_threads(threads):
    with pytest.raises(mr.InputError, match="threads must be a whole number of at least 1"):
        mr.solve(mr.GLM(), record(100, 2), replay=mr.Interleaved(4), threads=threads)


SCALED = [mr.GLM(), mr.GLM("softplus"), mr.PolicyEvaluation(0.6)]


@pytest.mark.parametrize("rows", [2, 3, 64, 100, 101])
@pytest.mark.parametrize("problem", SCALED, ids=repr)
@pytest.mark.parametrize("feasible", [mr.sets.WholeSpace(), mr.sets.Ball(0.2)])
def test_one_pass_is_bit_for_bit_the_epochs_one_after_the_other(monkeypatch, rows, problem, feasible):
    options = {"replay": mr.Multiscale(), "step": 0.05, "average": 0.3, "constraint": feasible}
    streamed = mr.solve(problem, record(101, 3)[:rows], **options)
    monkeypatch.setattr(CompiledStepper, "way", lambda self, planned, job: "alone")
    apart = mr.solve(problem, record(101, 3)[:rows], **options)
    assert len(streamed.epochs) == len(apart.epochs) == rows.bit_length() - 1
    for one, other in zip(streamed.epochs, apart.epochs, strict=True):
        assert np.array_equal(one.last, other.last)
        assert np.array_equal(one.average, other.average)
        assert (one.k, one.gap, one.taken) == (other.k, other.gap, other.taken)


def test_one_pass_is_used_whenever_it_applies(monkeypatch):
    used, data = [], record(101, 3)
    original = Scales.epochs
    monkeypatch.setattr(Scales, "epochs", lambda self: used.append(1) or original(self))
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
