"""The samplers in real TorchRL buffers, against a list of rows with the time each was written."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import bit_reversed

import multireplay as mr

torch = pytest.importorskip("torch")
TensorDict = pytest.importorskip("tensordict").TensorDict
data = pytest.importorskip("torchrl.data")
LazyMemmapStorage, LazyTensorStorage = data.LazyMemmapStorage, data.LazyTensorStorage
ReplayBuffer, TensorDictReplayBuffer = data.ReplayBuffer, data.TensorDictReplayBuffer

STORAGES = {"memmap": LazyMemmapStorage, "tensor": LazyTensorStorage}


def multiscale_positions(k, rows):
    return [(t * rows) // 2**k for t in range(1, 2**k + 1)]


def dyadic_positions(rows):
    bits = math.ceil(math.log2(rows)) if rows > 1 else 0
    order = [rows if r == 0 else (r * rows) >> bits for r in bit_reversed(bits)]
    return list(dict.fromkeys(position for position in order if position > 0))


class Model:
    """A ring of (time, value), and the list of slots still to come in the running epoch."""

    def __init__(self, capacity, dyadic):
        self.slots = [None] * capacity
        self.dyadic = dyadic
        self.time = 0
        self.k = 0
        self.todo = []
        self.ran_out = False

    def write(self, value):
        self.slots[self.time % len(self.slots)] = (self.time, value)
        self.time += 1

    def rows(self):
        return sum(slot is not None for slot in self.slots)

    def begin(self):
        order = sorted((slot[0], i) for i, slot in enumerate(self.slots) if slot is not None)
        rows = len(order)
        self.scales = 1 if self.dyadic else int(math.log2(rows))
        self.k += 1
        self.gap = rows / 2**self.k
        positions = dyadic_positions(rows) if self.dyadic else multiscale_positions(self.k, rows)
        self.todo = [order[p - 1][1] for p in positions]

    def sample(self, n):
        new = not self.todo
        if new:
            self.begin()
        given, self.todo = self.todo[:n], self.todo[n:]
        k, last = self.k, not self.todo and self.k == self.scales
        self.ran_out = last
        if last:
            self.k = 0
        return [self.slots[i][1] for i in given], k, [new] + [False] * (len(given) - 1)


def make(capacity, dyadic, storage=LazyMemmapStorage, **arguments):
    sampler = mr.torchrl.DyadicSampler() if dyadic else mr.torchrl.MultiscaleSampler()
    return TensorDictReplayBuffer(storage=storage(capacity), sampler=sampler, **arguments)


def rows(values):
    return TensorDict({"x": torch.as_tensor(values)}, [len(values)])


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(1, 9)),
        st.tuples(st.just("add"), st.just(1)),
        st.tuples(st.just("sample"), st.integers(1, 6)),
        st.tuples(st.just("sample"), st.integers(1, 6)),
        st.tuples(st.just("move"), st.sampled_from(["dumps", "state_dict", "pickle"])),
        st.tuples(st.just("revert"), st.integers(1, 5)),
    ),
    max_size=14,
)


@pytest.mark.filterwarnings("ignore:last_cursor is None", "ignore:Loading the storage on an uninitialized")
@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(2, 13),
    dyadic=st.booleans(),
    storage=st.sampled_from(list(STORAGES)),
    operations=OPERATIONS,
)
def test_any_sequence_of_writes_samples_and_reloads(capacity, dyadic, storage, operations):
    kind = STORAGES[storage]
    buffer, model = make(capacity, dyadic, kind), Model(capacity, dyadic)

    def write(n):
        values = list(range(model.time, model.time + n))
        buffer.extend(rows(values))
        for value in values:
            model.write(value)

    def check_sample(n):
        wanted, k, new = model.sample(n)
        batch, info = buffer.sample(n, return_info=True)
        assert batch["x"].tolist() == wanted
        assert batch["epoch"].tolist() == info["epoch"].tolist() == [k] * len(wanted)
        assert batch["new_epoch"].tolist() == info["new_epoch"].tolist() == new
        assert ("gap" in info) == (not dyadic)
        if not dyadic:
            assert batch["gap"].tolist() == info["gap"].tolist() == [model.gap] * len(wanted)
        assert buffer.sampler.ran_out == model.ran_out

    write(min(2, capacity))
    with tempfile.TemporaryDirectory() as folder:
        for i, (operation, value) in enumerate(operations):
            if operation == "extend":
                write(min(value, capacity))
            elif operation == "add":
                buffer.add(TensorDict({"x": torch.tensor(model.time)}, []))
                model.write(model.time)
            elif operation == "sample":
                check_sample(value)
            elif operation == "move":  # to another buffer, as after a restart
                fresh = make(capacity, dyadic, kind)
                if value == "dumps":
                    buffer.dumps(Path(folder) / str(i))
                    fresh.loads(Path(folder) / str(i))
                    assert fresh.storage._last_cursor_index is None  # what the sampler must do without
                elif value == "state_dict":
                    fresh.load_state_dict(buffer.state_dict())
                else:
                    sampler = pickle.loads(pickle.dumps(buffer.sampler))
                    fresh.load_state_dict({**buffer.state_dict(), "_sampler": sampler.state_dict()})
                buffer = fresh
            else:  # back to a saved state, in a buffer that has gone on since
                buffer.dumps(Path(folder) / str(i))
                saved = copy.deepcopy(model)
                write(min(value, capacity))
                check_sample(value)
                buffer.loads(Path(folder) / str(i))
                model = saved
        for _ in range(3):
            check_sample(4)


def test_an_iteration_is_one_pass_and_the_next_one_another():
    buffer = make(16, dyadic=False, batch_size=4)
    buffer.extend(rows(range(10)))
    for _ in range(2):
        epochs = [batch["epoch"].tolist() for batch in buffer]
        assert epochs == [[1] * 2, [2] * 4, [3] * 4, [3] * 4]
    buffer.extend(rows(range(10, 16)))
    assert [len(batch) for batch in buffer] == [2, 4, 4, 4, 4, 4, 4, 4]


def test_new_rows_join_in_the_next_epoch():
    buffer = make(64, dyadic=False)
    buffer.extend(rows(range(8)))
    assert buffer.sample(1)["x"].tolist() == [3]
    buffer.extend(rows(range(8, 32)))
    assert buffer.sample(8)["x"].tolist() == [7]  # the rest of epoch 1, over eight rows
    batch = buffer.sample(8)
    assert batch["x"].tolist() == [7, 15, 23, 31]
    assert batch["gap"].tolist() == [8.0] * 4


def test_prefetching_keeps_the_order(tmp_path):
    plain, ahead = (make(64, dyadic=False, batch_size=4, prefetch=prefetch) for prefetch in (None, 1))
    for buffer in (plain, ahead):
        buffer.extend(rows(range(40)))
    wanted = [batch["x"].tolist() for batch in plain]
    assert [batch["x"].tolist() for batch in ahead] == wanted
    assert ahead.sample()["x"].tolist() == wanted[0]
    ahead.dumps(tmp_path / "ahead")  # with a batch waiting
    resumed = make(64, dyadic=False, batch_size=4, prefetch=1)
    resumed.loads(tmp_path / "ahead")
    assert [resumed.sample()["x"].tolist() for _ in wanted[1:]] == wanted[1:]


@pytest.mark.parametrize("dyadic", [False, True])
def test_rows_of_one_time_come_together(dyadic):
    sampler = mr.torchrl.DyadicSampler() if dyadic else mr.torchrl.MultiscaleSampler()
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(24, ndim=2), sampler=sampler, batch_size=5)
    for start in (0, 5, 10):  # three environments, five times, as collectors give them; eight times fit
        buffer.extend(TensorDict({"x": 10 * torch.arange(start, start + 5) + torch.arange(3)[:, None]}, [3, 5]))
    kept = range(7, 15)
    found = torch.cat([batch["x"] for batch in buffer]).tolist()
    if dyadic:
        times = [kept[p - 1] for p in dyadic_positions(8)]
    else:
        times = [kept[p - 1] for k in (1, 2, 3) for p in multiscale_positions(k, 8)]
    assert found == [10 * time + row for time in times for row in range(3)]


def test_phases_go_through_the_offsets_of_a_gap_one_after_the_other():
    sampler = mr.torchrl.MultiscaleSampler(epochs=2, phases="all")
    buffer = ReplayBuffer(storage=LazyTensorStorage(8), sampler=sampler, batch_size=8)
    buffer.extend(torch.arange(1, 9))
    assert [batch.tolist() for batch in buffer] == [[4, 8, 3, 7, 2, 6, 1, 5], [2, 4, 6, 8, 1, 3, 5, 7]]


def test_other_storages():
    in_a_list = ReplayBuffer(storage=data.ListStorage(4), sampler=mr.torchrl.DyadicSampler(), batch_size=4)
    in_a_list.extend([torch.tensor(i) for i in range(3)])
    in_a_list.extend([torch.tensor(i) for i in range(3, 6)])
    assert in_a_list.sample().tolist() == [5, 3, 2, 4]
    dataset = ReplayBuffer(
        storage=data.TensorStorage(torch.arange(4)), sampler=mr.torchrl.MultiscaleSampler(epochs=1), batch_size=4
    )
    assert dataset.sample().tolist() == [1, 3]


def test_a_buffer_that_only_reads_a_storage_another_one_fills():
    storage = LazyTensorStorage(8)
    writer = ReplayBuffer(storage=storage)
    reader = ReplayBuffer(storage=storage, sampler=mr.torchrl.MultiscaleSampler(epochs=1), batch_size=2)
    writer.extend(torch.arange(8))
    assert reader.sample().tolist() == [3, 7]
    writer.extend(torch.arange(8, 11))
    assert reader.sample().tolist() == [6, 10]


def test_an_emptied_buffer_starts_over():
    buffer = make(4, dyadic=False)
    buffer.extend(rows(range(4)))
    buffer.extend(rows(range(4, 6)))
    buffer.sample(1)
    buffer.empty()
    assert not buffer.can_sample(1)
    with pytest.raises(RuntimeError, match="empty storage"):
        buffer.sample(1)
    buffer.extend(rows(range(10, 14)))
    batch = buffer.sample(9)
    assert batch["x"].tolist() == [11, 13]
    assert batch["new_epoch"].tolist() == [True, False]


def test_what_cannot_be_done_is_said(tmp_path):
    one_row = make(4, dyadic=False)
    one_row.extend(rows([0]))
    assert not one_row.can_sample(1)
    with pytest.raises(mr.InputError, match="at least 2 samples"):
        one_row.sample(1)
    with pytest.raises(mr.InputError, match="batch_size"):
        make_full().sample(0)
    best = TensorDictReplayBuffer(
        storage=LazyTensorStorage(2),
        sampler=mr.torchrl.DyadicSampler(),
        writer=data.TensorDictMaxValueWriter(rank_key="x"),
    )
    with pytest.raises(mr.InputError, match="round-robin writer"):
        best.extend(rows([3.0, 1.0, 2.0, 5.0]))

    saved = make_full()
    saved.dumps(tmp_path / "saved")
    other = TensorDictReplayBuffer(storage=LazyMemmapStorage(4), sampler=mr.torchrl.MultiscaleSampler(epochs=1))
    with pytest.raises(mr.InputError, match="same arguments"):
        other.loads(tmp_path / "saved")
    plain = TensorDictReplayBuffer(storage=LazyMemmapStorage(4))
    plain.extend(rows(range(4)))
    plain.dumps(tmp_path / "plain")
    with pytest.raises(mr.InputError, match="another sampler"):
        make(4, dyadic=False).loads(tmp_path / "plain")


def make_full():
    buffer = make(4, dyadic=False)
    buffer.extend(rows(range(4)))
    return buffer


def test_a_learner_finds_the_mean_of_a_dependent_record():
    """Algorithm 1 with batches of one, written by hand on the buffer, gives what `mr.solve` gives."""
    values = torch.arange(64, dtype=torch.float64).sin()
    buffer = ReplayBuffer(storage=LazyTensorStorage(64), sampler=mr.torchrl.MultiscaleSampler(), batch_size=1)
    buffer.extend(values)
    answers = {}
    while not buffer.sampler.ran_out:
        sample, info = buffer.sample(return_info=True)
        if info["new_epoch"].item():
            x = 0.0
        x -= 0.1 * (x - sample.item())
        answers[info["epoch"].item()] = x
    problem = mr.VariationalInequality(lambda x, sample: x - sample, dim=1)
    result = mr.solve(problem, mr.Buffer(samples=values.numpy()[:, None]), replay=mr.Multiscale(), step=0.1)
    assert list(answers.values()) == pytest.approx([epoch.last[0] for epoch in result.epochs], rel=1e-12)


def test_torch_is_imported_only_when_asked_for():
    code = "import sys, multireplay; assert not {'torch', 'torchrl', 'tensordict'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_torchrl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl", None)
    monkeypatch.delitem(sys.modules, "multireplay.torchrl")
    with pytest.raises(ImportError, match=r"torchrl .*pip install 'multireplay\[torch\]'"):
        importlib.import_module("multireplay.torchrl")
    assert not hasattr(mr, "no_such_room")
