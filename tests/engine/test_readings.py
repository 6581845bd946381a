"""Readings that serve several epochs: in order, with any engine from disk, and in parts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from own_operators import own_link, pull
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.buffer.record import StoredRecord
from multireplay.engine import chains, readings, stepper
from multireplay.engine.compiled import CompiledStepper

ROWS, DIM = 3001, 4


PROBLEMS = {
    "jitted": mr.VariationalInequality(pull, dim=DIM),
    "python": mr.VariationalInequality(pull.py_func, dim=DIM),
    "own link": mr.GLM(own_link),
    "table": mr.PolicyEvaluation(0.7, table=np.eye(DIM)),
    "sparse table": mr.PolicyEvaluation(0.7, table=csr_array(np.eye(DIM)[:, : DIM - 1])),
    "logistic": mr.GLM("logistic", constraint=mr.sets.Simplex()),
}
ORDERS = (mr.Serial(), mr.Skip(5), mr.Multiscale(), mr.Multiscale(epochs=4), mr.Interleaved(1))
SEVERAL = (mr.Multiscale(phases="all"), mr.Multiscale(phases=3), mr.Interleaved(70), mr.Interleaved(7))


def make_record():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((ROWS, DIM))
    states = rng.integers(0, DIM, ROWS + 1)
    return mr.Buffer(
        samples=samples, features=samples, targets=(samples[:, 0] > 0).astype(float),
        states=states[:-1], next_states=states[1:], rewards=rng.standard_normal(ROWS),
    )  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("turns") / "record"
    buffer = make_record()
    buffer.save(folder)
    stored = mr.Buffer.open(folder, memory=350_000)
    assert isinstance(stored, mr.StoredBuffer)
    return buffer, stored


def in_order(*arguments, **options):
    """A run that must not warn of random access."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return mr.solve(*arguments, **options)


def assert_same(one, other):
    assert len(one.epochs) == len(other.epochs)
    for here, there in zip(one.epochs, other.epochs, strict=True):
        assert (here.k, here.taken, here.diverged) == (there.k, there.taken, there.diverged)
        assert np.array_equal(here.last, there.last)
        assert np.array_equal(here.average, there.average)


@pytest.mark.parametrize("order", ORDERS, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_in_order_as_in_memory_to_the_last_bit(both, name, order):
    options = {"replay": order, "step": (0.05, 0.01), "average": 0.5}
    assert_same(*(in_order(PROBLEMS[name], buffer, **options) for buffer in both))


@pytest.mark.parametrize("order", SEVERAL, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_several_chains_as_in_memory_to_the_last_bit(both, name, order):
    """Compiled ones of built-in problems side by side, others one after the other, of which is warned."""
    options = {"replay": order, "step": 0.05, "average": 0.5}
    memory = mr.solve(PROBLEMS[name], both[0], **options)
    if name == "logistic":
        assert_same(memory, in_order(PROBLEMS[name], both[1], **options))
        return
    with pytest.warns(
        UserWarning, match=r"does not read the record in order.*Interleaved\(\) for the built-in problems"
    ):
        disk = mr.solve(PROBLEMS[name], both[1], **options)
    assert_same(memory, disk)


def test_crowded_epochs_share_one_more_reading(both, monkeypatch):
    monkeypatch.setattr(stepper, "MEMORY", 3000)
    monkeypatch.setattr(chains, "ASIDE", 6000)
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.05}
    memory = mr.solve(PROBLEMS["logistic"], both[0], **options)
    with pytest.warns(UserWarning, match="the record is read once more for them") as warned:
        disk = mr.solve(PROBLEMS["logistic"], both[1], **options)
    assert len(warned) == 1
    assert_same(memory, disk)


@pytest.mark.parametrize("name", ["jitted", "python", "sparse table"])
def test_crowded_epochs_of_any_engine_are_read_in_parts(both, monkeypatch, name):
    monkeypatch.setattr(stepper, "MEMORY", 3000)
    monkeypatch.setattr(chains, "ASIDE", 6000)
    used, original = [], readings.run_in_parts
    monkeypatch.setattr(readings, "run_in_parts", lambda *arguments: used.append(1) or original(*arguments))
    options = {"replay": mr.Multiscale(epochs=4, phases="all"), "step": 0.05}
    memory = mr.solve(PROBLEMS[name], both[0], **options)
    with pytest.warns(UserWarning, match="too many for one pass in order|does not read the record in order"):
        disk = mr.solve(PROBLEMS[name], both[1], **options)
    assert len(used) == 2
    assert_same(memory, disk)


def test_step_sizes_that_change_and_error_curves(both):
    options = {"replay": mr.Multiscale(), "step": mr.steps.Decaying(mu=1.0, t0=10.0), "track": mr.Track(np.ones(DIM))}
    memory, disk = (in_order(mr.GLM(), buffer, **options) for buffer in both)
    assert_same(memory, disk)
    for one, other in zip(memory.epochs, disk.epochs, strict=True):
        assert np.array_equal(one.curve.iterations, other.curve.iterations)
        assert np.array_equal(one.curve.last, other.curve.last)


def test_every_block_is_read_once(both, monkeypatch):
    taken = []
    monkeypatch.setattr(StoredRecord, "take", lambda self, rows: taken.append(rows))
    in_order(PROBLEMS["jitted"], both[1], replay=mr.Serial(), step=0.05)
    assert not taken  # nothing but blocks in order


def test_a_failure_names_the_sample(both):
    def fails(x, sample):
        if sample[0] == both[0]["samples"][1234, 0]:
            raise ValueError("by design")
        return x - sample

    problem = mr.VariationalInequality(fails, dim=DIM)
    with pytest.raises(
        mr.OperatorError, match=r"epoch 1, step 1235, sample 1235 \(counting from 1\): ValueError: by des"
    ):
        mr.solve(problem, both[1], replay=mr.Serial(), step=0.05)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("jitted", ["samples"]),
        ("python", ["samples"]),
        ("table", ["states", "next_states", "rewards"]),
        ("sparse table", ["states", "next_states", "rewards"]),
    ],
)
@pytest.mark.parametrize("order", [mr.Multiscale(), mr.Serial()], ids=repr)
def test_interrupted_it_goes_on_to_the_same_bits(both, monkeypatch, tmp_path, name, columns, order):
    buffer = mr.Buffer(**{column: both[0][column] for column in columns})
    buffer.save(tmp_path / "record")
    size = sum(buffer[column].nbytes for column in columns)
    stored = mr.Buffer.open(tmp_path / "record", memory=int(1.2 * size) + 2000)
    options = {"replay": order, "step": (0.05, 0.01), "checkpoint": tmp_path / "state"}
    straight = in_order(PROBLEMS[name], both[0], **{**options, "checkpoint": None})
    blocks, firsts = StoredRecord.parts, []

    def interrupted(self, first, aside=0, last=None):
        firsts.append(first)
        for number, block in enumerate(blocks(self, first, aside, last)):
            if number == 3:
                raise KeyboardInterrupt
            yield block

    with monkeypatch.context() as patch:
        patch.setattr(StoredRecord, "parts", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mr.solve(PROBLEMS[name], stored, **options)
        with pytest.raises(KeyboardInterrupt):
            mr.solve(PROBLEMS[name], stored, **options)
    assert firsts[0] == 0 < firsts[1]
    assert_same(straight, mr.solve(PROBLEMS[name], stored, **options))
    assert not options["checkpoint"].exists()


def test_a_checkpoint_does_not_keep_error_curves(both, tmp_path):
    with pytest.raises(mr.InputError, match="without track="):
        mr.solve(
            PROBLEMS["jitted"], both[1], replay=mr.Serial(), step=0.05, checkpoint=tmp_path / "state",
            track=mr.Track(np.ones(DIM)),
        )  # fmt: skip


def regression(rows, dim=4):
    rng = np.random.default_rng(rows)
    A = rng.standard_normal((rows + 1, dim))
    return mr.Buffer(features=A[:-1], next_features=A[1:], rewards=A[1:, 0], targets=A[:-1].sum(axis=1))


@pytest.mark.parametrize("rows", [64, 777, 1000])
@pytest.mark.parametrize("problem", [mr.GLM(), mr.PolicyEvaluation(0.5, constraint=mr.sets.Ball(0.3))], ids=repr)
def test_as_epoch_after_epoch(monkeypatch, rows, problem):
    monkeypatch.setattr(stepper, "MEMORY", 2000)
    options = {"replay": mr.Multiscale(phases="all"), "step": (0.05, 0.01), "average": 0.5}
    found = mr.solve(problem, regression(rows), **options)
    with monkeypatch.context() as patch:
        patch.setattr(readings, "_in_parts", lambda plan, ways, length: [])
        alone = mr.solve(problem, regression(rows), **options)
    for one, other in zip(found.epochs, alone.epochs, strict=True):
        assert (one.k, one.taken, one.diverged) == (other.k, other.taken, False)
        assert np.allclose(one.last, other.last, rtol=1e-12, atol=1e-14)
        assert np.allclose(one.average, other.average, rtol=1e-12, atol=1e-14)


def test_an_epoch_that_diverges_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(stepper.Stepper, "are_few", lambda self, planned, room: False)
    A = np.zeros((8, 1))
    A[[5, 7]] = 1e40  # last steps of chains of two steps, neighbours in a chain of four
    buffer = mr.Buffer(features=A, targets=np.ones(8))
    with pytest.warns(mr.DivergenceWarning):
        result = mr.solve(mr.GLM(), buffer, replay=mr.Multiscale(epochs=2, phases="all"), step=0.1, average="none")
    assert [epoch.diverged for epoch in result.epochs] == [False, True]
    assert [epoch.taken for epoch in result.epochs] == [8, 3]


@pytest.mark.parametrize("where", [0, 1], ids=["memory", "disk"])
@pytest.mark.parametrize(
    ("name", "order"),
    [("jitted", mr.Interleaved(7)), ("jitted", mr.Multiscale(phases=3)), ("logistic", mr.Multiscale(phases="all"))],
    ids=repr,
)
def test_what_a_checkpoint_cannot_keep_is_refused(both, monkeypatch, tmp_path, name, order, where):
    monkeypatch.setattr(stepper, "MEMORY", 3000)
    usual = r"mr\.Newton\(\), mr\.Exact\(\), or mr\.Plain\(\) with mr\.Mult"
    says = "too many for one pass in order" if name == "logistic" else usual
    with pytest.raises(mr.InputError, match=rf"checkpoint=\.\.\. is for passes in order: .*{says}"):
        mr.solve(PROBLEMS[name], both[where], replay=order, step=0.05, checkpoint=tmp_path / "state")


def test_step_sizes_that_change_and_others_that_do_not_compete(both):
    """In one run, although a pass over all scales has no loop for the former."""
    steps = 0.02, mr.steps.Decaying(mu=1.0, t0=100.0)
    found = mr.solve(mr.GLM(), both[0], replay=mr.Multiscale(), step=steps)
    alone = [mr.solve(mr.GLM(), both[0], replay=mr.Multiscale(), step=step) for step in steps]
    expected = [epoch for result in alone for epoch in result.epochs]
    for one, other in zip(found.epochs, expected, strict=True):
        assert np.array_equal(one.last, other.last)
        assert np.array_equal(one.average, other.average)


def test_an_itinerary_is_decided_once(both, monkeypatch):
    asked, original = [], CompiledStepper.way
    monkeypatch.setattr(CompiledStepper, "way", lambda *arguments: asked.append(1) or original(*arguments))
    for where in both:
        asked.clear()
        mr.solve(mr.GLM(), where, replay=mr.Multiscale(phases="all"), step=(0.05, 0.01))
        assert len(asked) == 2 * 11
