"""Runs that are interrupted and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from disk_records import budget, record, stored
from interruption import interrupting

import multireplay as mr
from multireplay._write import beside
from multireplay.buffer.record import StoredRecord
from multireplay.engine import compiled
from multireplay.engine.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record()
    return buffer, stored(tmp_path_factory.mktemp("stored"), buffer)


def test_a_checkpoint_of_another_run_is_refused(both, tmp_path):
    path = tmp_path / "state"
    np.savez(path.open("wb"), fingerprint="other", row=3)
    with pytest.raises(mr.InputError, match="belongs to another run"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(), step=0.01, checkpoint=path)
    path.write_text("nonsense")
    with pytest.raises(mr.InputError, match="cannot be read"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(), step=0.01, checkpoint=path)


def test_a_checkpoint_is_for_passes_in_order(both, tmp_path):
    with pytest.raises(mr.InputError, match="is for passes in order"):
        mr.solve(mr.GLM(), both[0], replay=mr.Dyadic(), step=0.01, checkpoint=tmp_path / "state")


INTERRUPTED = [{"replay": mr.Multiscale(phases=2), "step": 0.01}, {"replay": mr.Interleaved(64), "step": 0.01},
               {"update": mr.Newton()}, {}]  # fmt: skip


@pytest.mark.parametrize("options", INTERRUPTED, ids=str)
def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch, options):
    (tmp_path / "record").mkdir()
    buffer = stored(tmp_path / "record", record(20_000, 8))
    state, whole, begun = tmp_path / "state", StoredRecord.parts, []

    def told(self, first, aside=0, last=None):
        begun.append(first)
        for number, block in enumerate(whole(self, first, aside, last)):
            if len(begun) == 1 and number == 2:
                signal.raise_signal(signal.SIGINT)
            yield block

    monkeypatch.setattr(StoredRecord, "parts", told)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background takes away
    with pytest.raises(KeyboardInterrupt):
        mr.solve(mr.GLM("logistic"), buffer, checkpoint=state, **options)
    signal.signal(signal.SIGINT, before)
    assert state.exists()
    interrupted = len(begun)
    again = mr.solve(mr.GLM("logistic"), buffer, checkpoint=state, **options)
    assert begun[interrupted] > 0  # it did not begin at row 0
    assert not state.exists()
    uninterrupted = mr.solve(mr.GLM("logistic"), buffer, checkpoint=state, **options)
    assert again.x.tobytes() == uninterrupted.x.tobytes()
    assert os.listdir(tmp_path) == ["record"]


@pytest.mark.parametrize("order", [mr.Interleaved(8), mr.Multiscale(phases=2)], ids=repr)
def test_an_interrupted_run_goes_on_with_smaller_blocks(tmp_path, monkeypatch, order):
    """Interrupted after the steps on a block and before this is noted."""
    buffer = record(20_000, 8)
    mr.Buffer(features=buffer["features"], targets=buffer["targets"]).save(tmp_path / "record")
    small, large = (mr.Buffer.open(tmp_path / "record", memory=memory) for memory in (1_750_000, 2_400_000))
    options = {"replay": order, "step": 0.01}
    straight = mr.solve(mr.GLM(), large, **options)
    with monkeypatch.context() as patch:
        patch.setattr(compiled.Lanes, "advance", interrupting(compiled.Lanes.advance, 3))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(mr.GLM(), large, checkpoint=tmp_path / "state", **options)
    again = mr.solve(mr.GLM(), small, checkpoint=tmp_path / "state", **options)
    for one, other in zip(straight.epochs, again.epochs, strict=True):
        assert one.taken == other.taken
        assert np.array_equal(one.average, other.average)


def test_a_run_on_other_data_or_with_other_arguments_is_refused(tmp_path, monkeypatch):
    """Of the same shapes: the data, a table, a function, a long start. Interrupted on one, resumed on the other."""
    path = tmp_path / "state"
    one, other = record(20_000, 8), record(20_000, 8, seed=1)
    stop = {"replay": mr.Multiscale(), "step": 0.01, "checkpoint": path}

    def interrupted(problem, buffer, **options):
        path.unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "note", saving_and_stopping)
            with pytest.raises(KeyboardInterrupt):
                mr.solve(problem, buffer, **options)
        assert path.exists()

    interrupted(mr.GLM(), one, **stop)
    for problem, buffer, options in (
        (mr.GLM(), other, stop),
        (mr.GLM(ridge=0.1), one, stop),
        (mr.GLM("logistic"), one, stop),
        (mr.GLM(), one, {**stop, "x0": np.full(8, 1e-9)}),
        (mr.GLM(), one, {**stop, "step": 0.02}),
        (mr.GLM(), one, {**stop, "average": "none"}),
    ):
        with pytest.raises(mr.InputError, match="belongs to another run"):
            mr.solve(problem, buffer, **options)
    assert mr.solve(mr.GLM(), one, **stop).status.ok


def saving_and_stopping(self, row, state):
    """Save what there is and stop, as Ctrl-C right after the first block would."""
    self._noted = row, {name: np.array(array) for name, array in state.items()}
    self.save()
    raise KeyboardInterrupt


def test_what_is_wrong_with_the_place_is_said_before_the_work(both, tmp_path):
    options = {"replay": mr.Multiscale(), "step": 0.01}
    with pytest.raises(mr.InputError, match="there is no folder"):
        mr.solve(mr.GLM(), both[0], checkpoint=tmp_path / "nowhere" / "state", **options)
    with pytest.raises(mr.InputError, match="is a folder"):
        mr.solve(mr.GLM(), both[0], checkpoint=tmp_path, **options)
    with pytest.raises(mr.InputError, match="give holdout=None, or leave checkpoint="):
        mr.solve(mr.GLM(), both[0], holdout=0.2, checkpoint=tmp_path / "state")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_torn_file_is_refused(both, tmp_path, share):
    path = tmp_path / "state"
    np.savez(path.open("wb"), fingerprint="x" * 64, row=3, xs=np.arange(5000.0))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(mr.InputError, match="cannot be read"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(), step=0.01, checkpoint=path)


def test_several_processes_save_under_one_name(tmp_path):
    first, second = (Checkpoint(tmp_path / "state", name) for name in ("one", "two"))
    for kept in (first, second):
        kept.note(1, {"x": np.arange(3.0)})
    first.save()
    second.save()
    assert os.listdir(tmp_path) == ["state"]
    state = {"x": np.zeros(3)}
    assert second.restore(state) == 1
    with pytest.raises(mr.InputError, match="belongs to another run"):
        first.restore(state)


def test_what_a_killed_process_left_is_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    under_way = beside(tmp_path / "state", "partial").name
    (tmp_path / under_way.replace(f".{os.getpid()}-", f".{gone.pid}-")).write_text("half")
    (tmp_path / under_way).write_text("under way")
    Checkpoint(tmp_path / "state", "one")
    assert os.listdir(tmp_path) == [under_way]


KILLED = {
    "replay=mr.Multiscale(), step=0.01": {"replay": mr.Multiscale(), "step": 0.01},
    "replay=mr.Interleaved(64), step=0.01": {"replay": mr.Interleaved(64), "step": 0.01},
    "replay=mr.Serial(), step=0.01": {"replay": mr.Serial(), "step": 0.01},
    "update=mr.Newton(3)": {"update": mr.Newton(3)},
    "update=mr.Exact()": {"update": mr.Exact()},
}
TWICE = ("replay=mr.Multiscale(), step=0.01", "update=mr.Newton(3)")


@pytest.mark.parametrize("options", KILLED)
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path, options):
    """Killed at random moments, with a file saved after every block: what is there is whole, the end the same."""
    (tmp_path / "record").mkdir()
    buffer = stored(tmp_path / "record", record(40_000, 8))
    script = f"""
    import time
    import multireplay as mr
    from multireplay.engine import checkpoint
    checkpoint.EVERY = checkpoint.OFTEN = -1.0
    note = checkpoint.Checkpoint.note
    def slowly(self, row, state):
        note(self, row, state)
        print("at", row, flush=True)
        time.sleep(0.01)
    checkpoint.Checkpoint.note = slowly
    buffer = mr.Buffer.open({str(tmp_path / "record")!r}, memory={budget(record(40_000, 8))})
    mr.solve(mr.GLM(), buffer, checkpoint={str(tmp_path / "state")!r}, {options})
    """
    rng = np.random.default_rng(len(options))
    for _ in range(2 if options in TWICE else 1):
        command = [sys.executable, "-c", textwrap.dedent(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for _ in range(int(rng.integers(1, 6))):
                running.stdout.readline()
            time.sleep(float(rng.random()) * 0.02)
            running.kill()
    again, straight = (
        mr.solve(mr.GLM(), buffer, checkpoint=tmp_path / "state", **KILLED[options]).x.tobytes() for _ in range(2)
    )
    assert again == straight
    assert os.listdir(tmp_path) == ["record"]
