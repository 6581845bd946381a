"""Epochs that take turns with the blocks of a record on disk: engines and step sizes that the compiled pass has not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from own_operators import own_link, pull, pull_rows
from scipy.sparse import csr_array

import multireplay as mr
from multireplay.buffer.record import StoredRecord
from multireplay.engine import kinds, together

ROWS, DIM = 3001, 4


PROBLEMS = {
    "jitted": mr.VariationalInequality(pull, dim=DIM),
    "python": mr.VariationalInequality(pull.py_func, dim=DIM),
    "batched": mr.VariationalInequality(pull_rows, dim=DIM, batched=True),
    "own link": mr.GLM(own_link),
    "table": mr.PolicyEvaluation(0.7, table=np.eye(DIM)),
    "sparse table": mr.PolicyEvaluation(0.7, table=csr_array(np.eye(DIM)[:, : DIM - 1])),
    "logistic": mr.GLM("logistic", constraint=mr.sets.Simplex()),
}
ORDERS = (mr.Serial(), mr.Skip(5), mr.Multiscale(), mr.Multiscale(epochs=4))
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


def assert_same(one, other, same=np.array_equal):
    assert len(one.epochs) == len(other.epochs)
    for here, there in zip(one.epochs, other.epochs, strict=True):
        assert (here.k, here.taken, here.diverged) == (there.k, there.taken, there.diverged)
        assert same(here.last, there.last)
        assert same(here.average, there.average)


RUNS = [
    *((name, order, (0.05, 0.01)) for name in PROBLEMS for order in ORDERS),
    *((name, order, 0.05) for name in PROBLEMS for order in SEVERAL),
]
RUNS.remove(("sparse table", mr.Multiscale(phases="all"), 0.05))  # has a test of its own


@pytest.mark.parametrize(("name", "order", "step"), RUNS, ids=repr)
def test_as_in_memory_to_the_last_bit(both, name, order, step):
    options = {"replay": order, "step": step, "average": 0.5}
    memory, disk = (in_order(PROBLEMS[name], buffer, **options) for buffer in both)
    assert_same(memory, disk, np.allclose if name == "batched" else np.array_equal)  # batched averages go by blocks


def test_of_sparse_tables_with_all_phases_short_chains_are_read_in_parts(both):
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.05}
    memory = mr.solve(PROBLEMS["sparse table"], both[0], **options)
    with pytest.warns(UserWarning, match="2 of the 11 epochs .* once more for them, in up to 4 parts side by side"):
        disk = mr.solve(PROBLEMS["sparse table"], both[1], **options)
    assert_same(memory, disk)


@pytest.mark.parametrize("name", PROBLEMS)
def test_crowded_epochs_share_one_more_reading(both, monkeypatch, name):
    monkeypatch.setattr(kinds, "MEMORY", 3000)
    monkeypatch.setattr(together, "ASIDE", 6000)
    options = {"replay": mr.Multiscale(phases="all"), "step": 0.05}
    memory = mr.solve(PROBLEMS[name], both[0], **options)
    with pytest.warns(UserWarning, match="the record is read once more for them") as warned:
        disk = mr.solve(PROBLEMS[name], both[1], **options)
    assert len(warned) == 1
    assert_same(memory, disk, np.allclose if name == "batched" else np.array_equal)


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
    ("order", "step"), [(mr.Multiscale(), (0.05, 0.01)), (mr.Multiscale(phases="all"), 0.05)], ids=repr
)
@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("jitted", ["samples"]),
        ("python", ["samples"]),
        ("batched", ["samples"]),
        ("table", ["states", "next_states", "rewards"]),
        ("sparse table", ["states", "next_states", "rewards"]),
    ],
)
def test_interrupted_it_goes_on_to_the_same_bits(both, monkeypatch, tmp_path, name, columns, order, step):
    buffer = mr.Buffer(**{column: both[0][column] for column in columns})
    buffer.save(tmp_path / "record")
    size = sum(buffer[column].nbytes for column in columns)
    stored = mr.Buffer.open(tmp_path / "record", memory=int(1.2 * size) + 2000)
    options = {"replay": order, "step": step, "checkpoint": tmp_path / "state"}
    straight = in_order(PROBLEMS[name], both[0], **{**options, "checkpoint": None})
    blocks, firsts = StoredRecord._blocks, []

    def interrupted(self, first, aside=0):
        firsts.append(first)
        for number, block in enumerate(blocks(self, first, aside)):
            if number == 3:
                raise KeyboardInterrupt
            yield block

    with monkeypatch.context() as patch:
        patch.setattr(StoredRecord, "_blocks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mr.solve(PROBLEMS[name], stored, **options)
        with pytest.raises(KeyboardInterrupt):
            mr.solve(PROBLEMS[name], stored, **options)
    assert firsts[0] == 0 < firsts[1]
    assert_same(
        straight, mr.solve(PROBLEMS[name], stored, **options), np.allclose if name == "batched" else np.array_equal
    )
    assert not options["checkpoint"].exists()


def test_a_checkpoint_does_not_keep_error_curves(both, tmp_path):
    with pytest.raises(mr.InputError, match="without track="):
        mr.solve(
            PROBLEMS["jitted"], both[1], replay=mr.Serial(), step=0.05, checkpoint=tmp_path / "state",
            track=mr.Track(np.ones(DIM)),
        )  # fmt: skip
