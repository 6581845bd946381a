"""Runs that are interrupted and go on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from disk_records import budget, record, stored
from interruption import interrupting

import multireplay as mr
from multireplay.engine.compiled import Lanes


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    buffer = record()
    return buffer, stored(tmp_path_factory.mktemp("stored"), buffer)


def test_a_checkpoint_of_another_run_is_refused(both, tmp_path):
    path = tmp_path / "state"
    np.savez(path.open("wb"), digest="other", row=3)
    with pytest.raises(mr.InputError, match="belongs to another run"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(), step=0.01, checkpoint=path)
    path.write_text("nonsense")
    with pytest.raises(mr.InputError, match="cannot be read"):
        mr.solve(mr.GLM(), both[1], replay=mr.Multiscale(), step=0.01, checkpoint=path)


def test_a_checkpoint_is_for_passes_in_order(both, tmp_path):
    with pytest.raises(mr.InputError, match="is for passes in order"):
        mr.solve(mr.GLM(), both[0], replay=mr.Dyadic(), step=0.01, checkpoint=tmp_path / "state")


@pytest.mark.parametrize(
    "options", ["replay=mr.Multiscale(phases=2), step=0.01", "replay=mr.Interleaved(64), step=0.01", ""]
)
def test_an_interrupted_run_goes_on_where_it_was(tmp_path, options):
    (tmp_path / "record").mkdir()
    stored(tmp_path / "record", record(20_000, 8))
    memory = budget(record(20_000, 8))
    state = tmp_path / "state"
    script = f"""
    import signal, sys
    import multireplay as mr
    from multireplay.buffer import record
    whole = record.StoredRecord._blocks
    def told(self, first, aside=0):
        for number, block in enumerate(whole(self, first, aside)):
            print("block", first, number)
            if "interrupt" in sys.argv and number == 2:
                signal.raise_signal(signal.SIGINT)
            yield block
    record.StoredRecord._blocks = told
    buffer = mr.Buffer.open({str(tmp_path / "record")!r}, memory={memory})
    result = mr.solve(mr.GLM("logistic"), buffer, checkpoint={str(state)!r}, {options})
    print("answer", result.x.tobytes().hex())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    first = subprocess.run([*command, "interrupt"], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in first.stderr
    assert state.exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = again.stdout.splitlines()
    assert int(lines[0].split()[1]) > 0  # it did not begin at row 0
    assert not state.exists()
    uninterrupted = subprocess.run(command, capture_output=True, text=True, check=True)
    assert lines[-1] == uninterrupted.stdout.splitlines()[-1]
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
        patch.setattr(Lanes, "advance", interrupting(Lanes.advance, 3))
        with pytest.raises(KeyboardInterrupt):
            mr.solve(mr.GLM(), large, checkpoint=tmp_path / "state", **options)
    again = mr.solve(mr.GLM(), small, checkpoint=tmp_path / "state", **options)
    for one, other in zip(straight.epochs, again.epochs, strict=True):
        assert one.taken == other.taken
        assert np.array_equal(one.average, other.average)
