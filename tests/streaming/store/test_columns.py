"""The rows of a store as a buffer: those that came, of one moment, whatever the writer does, solved as any other."""

from __future__ import annotations

import numpy as np
import pytest
from stream_events import regression

import multireplay as mr
from multireplay.buffer.disk import StoredBuffer
from multireplay.streaming.store import store as of_store


@pytest.fixture
def rows():
    rng = np.random.default_rng(41)
    features = rng.standard_normal((3000, 3))
    return {"features": features, "targets": features @ [1.0, -1.0, 2.0] + rng.standard_normal(3000)}


def fed(stream, rows, sizes=(1, 1, 1, 7, 256, 30)):
    """Rows in blocks of several lengths."""
    at, total, number = 0, len(rows["targets"]), 0
    while at < total:
        count = sizes[number % len(sizes)]
        stream.observe_many({name: column[at : at + count] for name, column in rows.items()})
        at, number = at + count, number + 1
    return stream


@pytest.mark.parametrize("memory", ["512 MB", "100 kB"])
def test_rows_are_those_that_came(tmp_path, rows, memory, monkeypatch):
    monkeypatch.setattr(of_store, "LEAST", 20_000)
    stream = fed(mr.Stream(mr.GLM(), store=tmp_path / "run", keep="all", names=["a", "b", "c"]), rows)
    for buffer in (stream.buffer(memory), mr.Buffer.open(tmp_path / "run", memory=memory)):
        assert isinstance(buffer, StoredBuffer) == (memory == "100 kB")
        assert buffer.feature_names == ("a", "b", "c")
        loaded = buffer.load() if isinstance(buffer, StoredBuffer) else buffer
        for name, column in rows.items():
            assert np.array_equal(loaded[name], column)
    some = np.random.default_rng(0).permutation(3000)[:400]
    if memory == "100 kB":
        assert np.array_equal(buffer.take(some)["features"], rows["features"][some])
    assert mr.solve(mr.GLM(), stream.buffer(memory)).x == pytest.approx(stream.x, abs=1e-3)
    assert str(mr.diagnose(stream.buffer()))


def test_readers_have_the_rows_of_their_moment(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(of_store, "LEAST", 10_000)
    monkeypatch.setattr(of_store, "TIMES", 0)
    writer = mr.Stream(mr.GLM(), store=tmp_path / "run")
    writer.observe_many({name: column[:500] for name, column in rows.items()})
    reader = mr.Stream.open(tmp_path / "run", read_only=True)
    mapped = mr.Buffer.open(tmp_path / "run", memory="20 kB")
    writer.observe_many({name: column[500:600] for name, column in rows.items()})
    assert len(reader.buffer()) == 500
    fed(writer, {name: column[600:] for name, column in rows.items()})
    assert not (tmp_path / "run" / f"journal-{0:020}.bin").exists()
    assert np.array_equal(mapped.load()["features"], rows["features"][:500])  # its files are gone by now
    with pytest.raises(mr.errors.InputError, match="keeps no rows"):
        reader.buffer()


def test_steps_become_transitions_of_their_chains(tmp_path):
    rng = np.random.default_rng(42)
    features, rewards = rng.standard_normal((60, 2)), rng.standard_normal(60)
    groups = rng.integers(2, size=60)
    stream = mr.Stream(mr.PolicyEvaluation(0.5), store=tmp_path / "run", keep="all")
    pairs, last = [], {}
    for row in range(60):
        if row in (20, 40):
            stream.break_here(*([1] if row == 40 else []))
            last = {} if row == 20 else {one: at for one, at in last.items() if one != 1}
        stream.observe(features=features[row], rewards=rewards[row], group=int(groups[row]))
        if (before := last.get(groups[row])) is not None:
            pairs.append((before, row))
        last[groups[row]] = row
    buffer = stream.buffer()
    assert sorted(buffer["rewards"]) == sorted(rewards[[one for one, _ in pairs]])
    moves = buffer["features"] - 0.5 * buffer["next_features"]
    exact = np.linalg.solve(buffer["features"].T @ moves, buffer["features"].T @ buffer["rewards"])
    assert stream.x == pytest.approx(exact, abs=1e-9)


def test_damage_is_an_error(tmp_path, rows):
    fed(mr.Stream(mr.GLM(), store=tmp_path / "run"), rows)
    path = next((tmp_path / "run").glob("journal-*.bin"))
    whole = path.read_bytes()
    for at in np.random.default_rng(3).integers(len(whole) // 2, size=20):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(mr.errors.InputError, match="damaged"):
            mr.Buffer.open(tmp_path / "run")
    path.write_bytes(whole[:-1])  # the last record was being written
    assert 2000 < len(mr.Buffer.open(tmp_path / "run")) < 3000
    with pytest.raises(mr.errors.InputError, match="has no store"):
        mr.Stream(regression(10)[0]).buffer()
