"""The online algorithm, step by step against a list that really deletes."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from own_operators import pull
from reference import glm_operator, online_mer, td_operator

import multireplay as mr
from multireplay.buffer.forgetting import ForgettingStore
from multireplay.problems.glm import RegressionSamples


def stream(rows, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, dim))
    return A, A @ np.arange(1.0, dim + 1) + 0.3 * rng.standard_normal(rows)


def total_steps(capacity, epochs=None):
    last = epochs or capacity.bit_length() - 1
    return 2 ** (last + 1) - 2


@settings(deadline=None, max_examples=60)
@given(capacity=st.integers(2, 70), seed=st.integers(0, 5), backend=st.sampled_from(["python", "compiled"]))
def test_every_step_is_that_of_the_literal_algorithm(capacity, seed, backend):
    rows = capacity + total_steps(capacity)
    A, y = stream(rows, seed=seed)
    run = mr.Online(mr.GLM(), capacity, step=0.1, backend=backend)
    literal = online_mer(zip(A, y, strict=True), capacity, glm_operator("identity"), 0.1, run.last_scale, np.zeros(2))
    for t in range(capacity):
        run.observe(features=A[t], targets=y[t])
    for t, (k, step, x) in enumerate(literal, start=capacity):
        if step < 2**k:
            run.observe(features=A[t], targets=y[t])
            assert run.status.message == f"Epoch {k} of {run.last_scale}: step {step} of {2**k}."
            assert np.allclose(run.iterate, x, rtol=1e-12)
        else:
            run.observe(features=A[t], targets=y[t])
            assert np.allclose(run.epochs[-1].last, x, rtol=1e-12)
    assert run.done


@settings(deadline=None, max_examples=40)
@given(data=st.data(), capacity=st.integers(2, 60))
def test_blocks_and_single_samples_are_the_same(data, capacity):
    rows = capacity + total_steps(capacity)
    A, y = stream(rows)
    one, many = (mr.Online(mr.GLM(), capacity, step=0.1) for _ in range(2))
    for a, target in zip(A, y, strict=True):
        one.observe(features=a, targets=target)
    start = 0
    while start < rows:
        size = data.draw(st.integers(1, rows))
        used = min(size, rows - start)
        assert many.observe(features=A[start : start + size], targets=y[start : start + size]) == used
        start += used
    for first, second in zip(one.epochs, many.epochs, strict=True):  # a block rounds differently in the last bits
        assert np.allclose(first.last, second.last, rtol=1e-13, atol=1e-13)
        assert np.allclose(first.average, second.average, rtol=1e-13, atol=1e-13)


def test_policy_evaluation_with_terminal_steps_and_a_set():
    rng = np.random.default_rng(1)
    capacity = 19
    rows = capacity + total_steps(capacity)
    F = rng.standard_normal((rows + 1, 3))
    rewards, ends = rng.standard_normal(rows), rng.random(rows) < 0.3
    run = mr.Online(mr.PolicyEvaluation(0.8), capacity, step=0.2, constraint=mr.sets.Box(-0.4, 0.4))
    run.observe(features=F[:-1], next_features=F[1:], rewards=rewards, terminated=ends)
    literal = online_mer(
        zip(F[:-1], F[1:], rewards, ends, strict=True), capacity, td_operator(0.8), 0.2, run.last_scale, np.zeros(3),
        lambda x: np.clip(x, -0.4, 0.4),
    )  # fmt: skip
    lasts = {k: x for k, t, x in literal if t == 2**k}
    for epoch in run.epochs:
        assert np.allclose(epoch.last, lasts[epoch.k], rtol=1e-12)


def test_repeat_last_goes_on_with_the_last_scale():
    capacity, repeats = 16, 5
    rows = capacity + total_steps(capacity) + 16 * repeats
    A, y = stream(rows)
    run = mr.Online(mr.GLM(), capacity, step=0.1, repeat_last=True)
    assert run.observe(features=A, targets=y) == rows
    assert [epoch.k for epoch in run.epochs] == [1, 2, 3, 4] + [4] * repeats
    assert not run.done
    memory, feed = list(zip(A, y, strict=True))[:capacity], iter(zip(A[capacity:], y[capacity:], strict=True))
    for epoch in run.epochs:
        x = np.zeros(2)
        for t in range(1, 2**epoch.k + 1):
            a, target = memory.pop(t * capacity // 2**epoch.k - 1)
            x = x - 0.1 * a * (a @ x - target)
            memory.append(next(feed))
        assert np.allclose(epoch.last, x, rtol=1e-12)


def test_repeating_a_coarse_scale_keeps_the_memory_bounded():
    run = mr.Online(mr.GLM(), 32, step=0.05, epochs=2, repeat_last=True)
    A, y = stream(3000)
    run.observe(features=A, targets=y)
    assert len(run.epochs) == 2 + 100  # the newest repeats
    assert run._store.samples.features.shape == (64, 2)


def test_complete_says_so_and_uses_no_more():
    A, y = stream(100)
    run = mr.Online(mr.GLM(), 8, step=0.1)
    with pytest.warns(UserWarning, match="78 samples were not used: Complete: 3 epochs"):
        assert run.observe(features=A, targets=y) == 22
    before = run.x
    with pytest.warns(UserWarning, match="not used"):
        assert run.observe(features=A[0], targets=y[0]) == 0
    assert np.array_equal(run.x, before)


def test_x_is_none_then_the_iterate_then_the_last_epoch():
    A, y = stream(30)
    run = mr.Online(mr.GLM(), 8, step=0.1)
    assert run.x is None
    assert run.iterate is None
    run.observe(features=A[:7], targets=y[:7])
    assert run.x is None
    assert str(run.status) == "Filling the buffer: 7 of 8 samples."
    run.observe(features=A[7:9], targets=y[7:9])
    assert run.x is not None
    run.observe(features=A[9:12], targets=y[9:12])
    assert np.array_equal(run.x, run.epochs[0].average)


def test_automatic_step_is_that_of_the_first_buffer():
    A, y = stream(60)
    run = mr.Online(mr.GLM(), 16)
    for t in range(0, 45, 5):
        run.observe(features=A[t : t + 5], targets=y[t : t + 5])
    assert run.epochs[0].step == pytest.approx(0.5 / (A[:16] ** 2).sum(axis=1).max())


def sceptical(x, sample):
    if sample[0] > 100:
        raise ValueError("too large")
    return x - sample


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"features": [1.0, 2.0]}, "targets is missing"),
        ({"features": [1.0, 2.0], "target": 1.0}, "reads features, targets, weights, not target"),
        ({"features": [1.0, np.nan], "targets": 1.0}, "column 'features' holds nan at row 0"),
        ({"features": [[1.0, 2.0]], "targets": 1.0}, "one sample or a block"),
        ({"features": [1.0, 2.0, 3.0], "targets": 1.0}, r"features was float64 of shape \(2,\) a sample so far"),
        ({"features": np.ones((2, 2)), "targets": [1.0]}, "same number of rows"),
    ],
)
def test_bad_samples_change_nothing(sample, message):
    A, y = stream(20)
    run = mr.Online(mr.GLM(), 8, step=0.1)
    run.observe(features=A[:11], targets=y[:11])
    before = pickle.dumps(run)
    with pytest.raises(mr.InputError, match=message):
        run.observe(**sample)
    assert pickle.dumps(run) == before


def test_an_operator_that_raises_loses_nothing():
    A, _ = stream(78)
    problem = mr.VariationalInequality(sceptical, dim=2)
    straight, run = mr.Online(problem, 16, step=0.1), mr.Online(problem, 16, step=0.1)
    straight.observe(samples=A[:46])
    poisoned = A[:46].copy()
    poisoned[20] = 1000.0  # appended in epoch 2, read later
    run.observe(samples=A[:20])
    message = r"failed at epoch \d, step \d+, sample 21 of the stream .*too large.*the first \d+ samples were taken in"
    with pytest.raises(mr.OperatorError, match=message) as caught:
        run.observe(samples=poisoned[20:])
    used = 20 + int(str(caught.value).split("the first ")[1].split()[0])
    for _ in range(2):  # nothing is lost, and nothing gets worse by trying again
        before = pickle.dumps(run)
        with pytest.raises(mr.OperatorError, match="sample 21 of the stream"):
            run.observe(samples=poisoned[used:])
        assert pickle.dumps(run) == before


def test_divergence_is_said_and_the_next_epoch_restarts():
    A, y = stream(400)
    run = mr.Online(mr.GLM(), 64, step=500.0)
    with pytest.warns(mr.DivergenceWarning, match=r"Diverged in 1 epochs, first at step \d of epoch 2") as caught:
        run.observe(features=A[:190], targets=y[:190])
    assert all(str(warning.message).startswith("Diverged in") for warning in caught)
    assert run.status.code == "diverged"
    assert len(run.epochs) == 6
    assert np.isfinite(run.x).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 1}, "capacity must be a whole number of at least 2"),
        ({"capacity": 8, "epochs": 4}, "at most 3 epochs"),
        ({"capacity": 8, "step": -1}, "step must be a positive number"),
        ({"capacity": 8, "average": 2}, "average must be"),
        ({"capacity": 8, "step": [0.1, 0.2]}, "step must be a positive number"),
        ({"capacity": 8, "backend": "gpu"}, "backend must be"),
        ({"capacity": 8, "constraint": "ball"}, "constraint must be a set"),
        ({"capacity": 2**62}, "too large"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(mr.InputError, match=message):
        mr.Online(mr.GLM(), **options)


class Fussy(mr.sets.Set):
    """A set whose projection fails when it is told to."""

    broken = False

    def project(self, x):
        if self.broken:
            raise KeyboardInterrupt


def test_an_interrupt_changes_nothing():
    A, y = stream(78)
    straight = mr.Online(mr.GLM(), 16, step=0.1, backend="python")
    straight.observe(features=A[:46], targets=y[:46])
    fussy = Fussy()
    run = mr.Online(mr.GLM(), 16, step=0.1, constraint=fussy)
    run.observe(features=A[:25], targets=y[:25])
    fussy.broken = True
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run.observe(features=A[25], targets=y[25])
    fussy.broken = False
    run.observe(features=A[25:46], targets=y[25:46])
    assert [epoch.last.tolist() for epoch in run.epochs] == [epoch.last.tolist() for epoch in straight.epochs]


class Odd(mr.steps.Schedule):
    """Good in epoch 1, of the wrong length after it."""

    def values(self, k, first, count):
        return np.full(count if k == 1 else 1 + count, 0.1)


def test_a_schedule_that_goes_wrong_later_is_said_every_time_and_changes_nothing():
    A, y = stream(40)
    run = mr.Online(mr.GLM(), 16, step=Odd())
    run.observe(features=A[:18], targets=y[:18])
    before = pickle.dumps(run)
    for _ in range(2):
        with pytest.raises(mr.InputError, match=r"the step schedule gave an array of shape \(2,\) instead of \(1,\)"):
            run.observe(features=A[18], targets=y[18])
        assert pickle.dumps(run) == before


def test_an_automatic_step_that_cannot_be_is_said_at_once():
    with pytest.raises(mr.InputError, match="needs a Lipschitz constant"):
        mr.Online(mr.VariationalInequality(pull, dim=2), 16)


def test_answers_are_copies():
    A, y = stream(78)
    x0 = np.zeros(2)
    run = mr.Online(mr.GLM(), 16, step=0.1, x0=x0)
    x0[:] = 50.0
    run.observe(features=A[:30], targets=y[:30])
    before = run.x.copy()
    run.x[:] = 99.0
    assert np.array_equal(run.x, before)
    assert np.abs(before).max() < 5


def test_many_short_epochs_keep_the_newest_and_stay_short():
    A, y = stream(5000)
    run = mr.Online(mr.GLM(), 64, step=0.05, epochs=1, repeat_last=True)
    run.observe(features=A, targets=y)
    assert len(run.epochs) == 101
    assert len(run._store.deleted) <= (16 * 64 * 2) ** 0.5 + 2
    memory, feed = list(zip(A, y, strict=True))[:64], iter(zip(A[64:], y[64:], strict=True))
    for _ in range((5000 - 64) // 2):
        x = np.zeros(2)
        for t in (1, 2):
            a, target = memory.pop(t * 32 - 1)
            x = x - 0.05 * a * (a @ x - target)
            memory.append(next(feed))
    assert np.allclose(run.epochs[-1].last, x, rtol=1e-12)


class StoreMachine(RuleBasedStateMachine):
    """The store against a Python list, for any sequence of epochs."""

    capacity = 12

    def __init__(self):
        super().__init__()
        self.clock = 0
        self.list = []
        row = RegressionSamples(np.zeros((1, 1)), np.zeros(1), 0)
        self.store = ForgettingStore(row, self.capacity)
        self.append(self.capacity)

    def append(self, count):
        values = np.arange(self.clock, self.clock + count, dtype=float)
        self.store.append(RegressionSamples(values[:, None], values, 0), 0, count)
        self.list += values.tolist()
        self.clock += count

    @rule(k=st.integers(1, 3))
    def epoch(self, k):
        positions = np.array([t * self.capacity // 2**k for t in range(1, 2**k + 1)])
        self.store.begin_epoch(positions)
        for t, position in enumerate(positions):
            expected = self.list.pop(position - 1)
            self.append(1)
            assert self.store.samples.targets[self.store.targets[t]] == expected
        self.store.end_epoch()

    @precondition(lambda self: self.clock > self.capacity)
    @invariant()
    def holds_what_the_list_holds(self):
        kept = np.delete(np.arange(self.store.written), self.store.deleted)
        assert self.store.samples.targets[kept].tolist() == self.list
        assert self.store.length == self.capacity


TestStore = StoreMachine.TestCase


def test_data_frames_must_keep_to_one_order_of_columns(tmp_path):
    """Once the numbers of one feature were taken for those of another, without a word."""
    rng = np.random.default_rng(17)
    A = rng.standard_normal((60, 2))
    frame, targets = pd.DataFrame(A, columns=["temp", "hum"]), A @ [1.0, -1.0]
    run, same = (mr.Online(mr.GLM(), capacity=32, step=0.1) for _ in range(2))
    for part in (slice(0, 20), slice(20, 40)):
        run.observe(features=frame[part], targets=targets[part])
        same.observe(features=A[part], targets=targets[part])
    before = run.iterate
    run.save(tmp_path / "run")
    for each in (run, mr.Online.load(tmp_path / "run")):
        with pytest.raises(mr.InputError, match="column 'features' has 'hum' where an earlier block has 'temp'"):
            each.observe(features=frame[["hum", "temp"]][40:50], targets=targets[40:50])
        assert np.array_equal(each.iterate, before)
        each.observe(features=frame[40:50], targets=targets[40:50])
    same.observe(features=A[40:50], targets=targets[40:50])  # without names there is nothing to compare
    run.observe(features=A[50:], targets=targets[50:])
    same.observe(features=A[50:], targets=targets[50:])
    assert np.array_equal(run.iterate, same.iterate)
