"""Steps in lanes on arrays of every library, against the compiled engine and a literal loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from arrays_of import EVERY, device_array, torch_array
from every_set import DIM, SETS
from in_lanes import ALL, PROBLEMS, assert_same, buffer_of, make_data

import multireplay as mr
from multireplay.buffer import foreign as arrays
from multireplay.engine import batched
from multireplay.replay import PlannedEpoch, Replay


@EVERY
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_and_set_in_every_library(name, library):
    if name == "probit" and library is device_array:
        with pytest.raises(mr.OperatorError, match="the probit link needs erfc, which array_api_strict on"):
            mr.solve(mr.GLM("probit"), buffer_of(library), replay=ALL, step=0.05, backend="batched")
        return
    one_row, over_batches = PROBLEMS[name]
    here, there = (buffer_of(where, weighted=name == "weighted") for where in (np.array, library))
    crossed = list(zip(SETS.values(), itertools.cycle(["none", "weighted", 0.4, "full"]), strict=False))
    if library is device_array:  # which is slow: every set with some of the problems
        crossed = crossed[list(PROBLEMS).index(name) % 4 :: 4]
    for feasible, average in crossed:
        options = {"replay": ALL, "step": 0.05, "average": average, "constraint": feasible, "track": np.ones(DIM)}
        expected = mr.solve(one_row, here, **options)
        found = mr.solve(over_batches, there, **options, backend="batched")
        assert_same(found, expected)
        for one, other in zip(found.epochs, expected.epochs, strict=True):
            assert one.curve.end_average == pytest.approx(other.curve.end_average, rel=1e-11)


SCHEMES = [mr.Serial(), mr.Dyadic(), mr.Multiscale(), mr.Multiscale(phases=3), mr.Uniform(1), mr.Reverse(5, 1),
           mr.Multiscale(epochs=3, phases="all", sweep=True)]  # fmt: skip


@pytest.mark.parametrize("library", [np.array, torch_array])
@pytest.mark.parametrize("name", ["logistic", "policy evaluation", "own operator"])
def test_every_scheme(name, library):
    compiled, over_batches = PROBLEMS[name]
    here, there = buffer_of(), buffer_of(library)
    x0 = np.linspace(-0.2, 0.3, DIM)
    track = mr.Track(np.ones(DIM), at=[1, 5, 16])
    for scheme in SCHEMES:
        for step in (0.05, mr.steps.Decaying(mu=1.0, t0=30)):
            options = {"replay": scheme, "step": step, "x0": x0, "track": track}
            expected = mr.solve(compiled, here, **options, backend="compiled")
            found = mr.solve(over_batches, there, **options, backend="batched")
            assert_same(found, expected)
            for one, other in zip(found.epochs, expected.epochs, strict=True):
                if one.taken == one.length:  # one chain
                    assert np.allclose(one.curve.last, other.curve.last, rtol=1e-11)


def literal_lanes(samples, operator, step, k, phases):
    """The chains of epoch k by hand: the mean of their last iterates and of their averages."""
    gap = len(samples) // 2**k
    count = gap if phases == "all" else min(phases, gap)
    lasts, averages = [], []
    for j in range(count):
        x, iterates = np.zeros(DIM), []
        for t in range(1, 2**k + 1):
            x = x - step * operator(x, samples[t * len(samples) // 2**k - j * gap // count - 1])
            iterates.append(x)
        lasts.append(x)
        averages.append(np.mean(iterates, axis=0))
    return np.mean(lasts, axis=0), np.mean(averages, axis=0)


@EVERY
@pytest.mark.parametrize("phases", [4, "all"])
def test_against_literal_chains(phases, library):
    rows = make_data(53)["samples"]
    problem = mr.VariationalInequality(lambda X, batch: X * abs(X) + X - batch, dim=DIM, batched=True)
    replay = mr.Multiscale(phases=phases)
    result = mr.solve(problem, mr.Buffer(samples=library(rows)), replay=replay, step=0.1, average="full")
    for epoch in result.epochs:
        last, average = literal_lanes(rows, lambda x, s: x * np.abs(x) + x - s, 0.1, epoch.k, phases)
        assert np.allclose(epoch.last, last, rtol=1e-12, atol=1e-14)
        assert np.allclose(epoch.average, average, rtol=1e-12, atol=1e-14)


class Offsets(Replay):
    """All offsets of one gap, lane j reading t·gap − order[j]."""

    def __init__(self, gap, order):
        self.gap, self.order = gap, order

    def _epochs(self, length):
        steps = length // self.gap
        positions = np.concatenate([np.arange(1, steps + 1) * self.gap - j for j in self.order])
        return (
            PlannedEpoch(
                1, self.gap, steps, lambda first, count: positions[first : first + count], chains=len(self.order)
            ),
        )


def test_lanes_side_by_side_are_read_as_slices_and_others_one_by_one():
    found = list(batched.groups(mr.Interleaved(5).plan(40)[0], 2))
    assert [(type(group), group.count) for group in found] == [(batched.SideBySide, n) for n in (2, 2, 1)]
    assert np.concatenate([group.positions(3) for group in found]).tolist() == [19, 20, 17, 18, 16]
    mixed = list(batched.groups(Offsets(5, [0, 3, 1]).plan(40)[0], 2))
    assert [(type(group), group.count) for group in mixed] == [(batched.Scattered, n) for n in (2, 1)]
    assert np.concatenate([group.positions(0) for group in mixed]).tolist() == [5, 2, 4]


@pytest.mark.parametrize("length", [16, 37, 1000, 1023])
def test_the_rows_of_a_step_are_those_of_the_plan(length):
    for replay in (mr.Multiscale(phases="all"), mr.Multiscale(phases=3), mr.Interleaved(7), Offsets(5, [1, 4])):
        for epoch in replay.plan(length):
            if epoch.chains > 1:
                planned = np.sort(epoch.positions.reshape(epoch.chains, epoch.length).T, axis=1)
                found = list(batched.groups(epoch, 6))
                for t in range(epoch.length):
                    assert np.array_equal(np.sort(np.concatenate([group.positions(t) for group in found])), planned[t])


@EVERY
@pytest.mark.parametrize("replay", [mr.Interleaved(5), Offsets(5, [4, 0, 2]), ALL], ids=["side", "scattered", "all"])
def test_groups_of_any_size_give_the_same(replay, library, monkeypatch):
    expected = mr.solve(mr.GLM("logistic"), buffer_of(), replay=replay, step=0.1)
    monkeypatch.setattr(arrays, "FEWEST", 1)
    for size in (1, 3 * DIM * 8, 10**6):
        monkeypatch.setattr(arrays, "CACHED", size)
        monkeypatch.setattr(arrays, "LARGE", size)
        monkeypatch.setattr(batched, "SCATTERED", 20)
        assert_same(
            mr.solve(mr.GLM("logistic"), buffer_of(library), replay=replay, step=0.1, backend="batched"), expected
        )


@pytest.mark.parametrize("library", [np.array, torch_array])
def test_single_precision_runs_in_single_precision(library):
    seen = []

    def operator(X, batch):
        seen.append(X.dtype)
        return X - batch

    given = buffer_of(library, dtype=np.float32)
    problem = mr.VariationalInequality(operator, dim=DIM, batched=True)
    result = mr.solve(problem, given, replay=ALL, step=0.1)
    assert set(seen) == {given["samples"].dtype}
    assert result.x.dtype == np.float64
    for name in ("logistic", "policy evaluation"):
        expected = mr.solve(PROBLEMS[name][0], buffer_of(), replay=ALL, step=0.1)
        assert_same(mr.solve(PROBLEMS[name][1], given, replay=ALL, step=0.1, backend="batched"), expected, 1e-5)


def test_auto_takes_the_engine_that_fits(monkeypatch):
    used = []
    for name, kind in (("walk", batched.BatchedStepper),):
        real = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *args, real=real: used.append(args[1].samples[0]) or real(*args))
    options = {"replay": ALL, "step": 0.05}
    mr.solve(mr.GLM(), buffer_of(), **options)
    mr.solve(mr.GLM(), buffer_of(torch_array), **options)  # in the processor's memory: the compiled loop, no copy
    assert not used
    expected = mr.solve(mr.GLM(), buffer_of(), **options)
    assert_same(mr.solve(mr.GLM(), buffer_of(device_array), **options), expected)
    assert used
    used.clear()
    problem = PROBLEMS["own operator"][1]
    mr.solve(problem, buffer_of(), **options)
    assert isinstance(used[-1], np.ndarray)
    mr.solve(problem, buffer_of(torch_array), **options)
    assert type(used[-1]).__module__ == "torch"
    used.clear()
    assert_same(mr.solve(problem, buffer_of(), **options, backend="python"), mr.solve(problem, buffer_of(), **options))


@EVERY
@pytest.mark.parametrize("name", ["identity", "policy evaluation", "own operator"])
def test_divergence(name, library):
    x0, step = np.ones(DIM), 4.0 if name == "own operator" else 0.7
    for replay in (mr.Dyadic(), mr.Serial()):
        runs = []
        for problem, where, backend in (
            (PROBLEMS[name][0], np.array, "python"),
            (PROBLEMS[name][1], library, "batched"),
        ):
            with pytest.warns(mr.DivergenceWarning, match="Diverged in 1 of 1 epochs, first at step"):
                runs.append(
                    mr.solve(problem, buffer_of(where, rows=700), replay=replay, step=step, x0=x0, backend=backend)
                )
        assert runs[0].epochs[0].taken == runs[1].epochs[0].taken > 15  # one lane: the very same step
        assert np.isfinite(runs[1].x).all()
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(PROBLEMS[name][1], buffer_of(library, rows=700), replay=ALL, step=step, backend="batched")
    lost = [epoch.k for epoch in result.epochs if epoch.diverged]
    assert lost == list(range(lost[0], 10))
    for epoch in result.epochs:
        assert epoch.diverged == (epoch.taken < epoch.length * max(1, 700 >> epoch.k))
        assert epoch.taken % max(1, 700 >> epoch.k) == 0
    assert not result.status.ok


@EVERY
def test_a_lane_that_diverges_is_found_between_two_looks(library, monkeypatch):
    """The step before which it stops does not depend on how often one looks."""
    taken = set()
    for watched in (1, 7, 64, 1000):
        monkeypatch.setattr(batched, "WATCHED", watched)
        with pytest.warns(mr.DivergenceWarning):
            result = mr.solve(mr.GLM(), buffer_of(library, rows=200), replay=ALL, step=20.0, backend="batched")
        taken.add(tuple(epoch.taken for epoch in result.epochs))
    assert len(taken) == 1
