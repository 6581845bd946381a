"""What is damaged, torn, full, protected, taken or too new: an error that names it, or a documented recovery."""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
import warnings
import zlib

import numpy as np
import pytest
from killing import same
from small_disk import small_disk
from stream_events import feed, give, regression

import multireplay as mr
from multireplay.errors import InputError
from multireplay.streaming.store import journal, kept
from multireplay.streaming.store import store as of_store

PROBLEM, EVENTS = regression(300, 8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store whose writer was killed: two snapshots and some rows after them."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    stream = mr.Stream(PROBLEM, store=tmp_path / "run")
    for number, event in enumerate(EVENTS[:10]):
        give(stream, event)
        if number in (2, 5):
            stream.save()
    stream._store.journal.close()
    stream._store._lock.release()
    return tmp_path / "run"


@pytest.fixture(scope="module")
def states():
    """The state of a run that was never interrupted, by its position."""
    found, stream = {}, mr.Stream(PROBLEM)
    found[0] = copy.deepcopy(stream.state())
    for event in EVENTS:
        give(stream, event)
        found[stream.position] = copy.deepcopy(stream.state())
    return found


def opened(folder, **how):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return mr.Stream.open(folder, **how), [str(one.message) for one in told]


def test_a_flip_of_any_byte_is_an_error_or_a_recovery(folder, states, monkeypatch):
    """Never a wrong answer: a stream that opens is at a position, and has the bits of a run that got so far.

    Some bytes of every file; benchmarks/stream_store.py flips all of them.
    """
    monkeypatch.setattr(kept, "TRIES", 1)
    rng = np.random.default_rng(9)
    outcomes = {"error": 0, "recovered": 0}
    last = max(folder.glob("journal-*.bin"))
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        some = rng.choice(len(whole), min(250 if path == last else 30, len(whole)), replace=False)
        for at in () if path.name == "lock" else some:
            data = bytearray(whole)
            data[at] ^= 1 << int(rng.integers(8))
            path.write_bytes(data)
            try:
                stream, _ = opened(folder, read_only=True)
                assert same(stream.state(), states[stream.position]), (path.name, at)
                outcomes["recovered"] += 1
            except InputError as error:
                outcomes["error"] += str(folder) in str(error)
        path.write_bytes(whole)
    assert min(outcomes.values()) > 50, outcomes


def test_every_length_of_a_torn_journal(folder, states):
    path = max(folder.glob("journal-*.bin"))
    data = path.read_bytes()
    for length in range(0, len(data), 23):
        path.write_bytes(data[:length])
        reader, _ = opened(folder, read_only=True)
        assert same(reader.state(), states[reader.position])
    stream, told = opened(folder)
    assert "was not whole" in told[0]
    assert f"position {stream.position}" in told[0]
    feed(stream, EVENTS)
    assert same(stream.state(), states[stream.position])


def test_damage_before_other_records_is_an_error_unless_repaired(folder, states):
    path = max(folder.glob("journal-*.bin"))
    data = bytearray(path.read_bytes())
    data[60] ^= 255  # in the first record, which others follow
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"is damaged in the record at byte.*repair=True"):
        mr.Stream.open(folder)
    stream, told = opened(folder, repair=True)
    assert "feed again from position" in told[0]
    feed(stream, EVENTS)
    assert same(stream.state(), states[stream.position])
    stream.close()
    assert opened(folder)[1] == []


def test_a_damaged_snapshot_gives_way_to_the_older_one(folder, states):
    path = max(folder.glob("snapshot-*.npy"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    stream, told = opened(folder)
    assert "a checksum is wrong" in told[0]
    assert same(stream.state(), states[stream.position])
    feed(stream, EVENTS)
    stream.close()
    again, told = opened(folder)
    assert not told
    assert same(again.state(), states[again.position])


def test_no_snapshot_and_no_beginning(folder, monkeypatch):
    for path in folder.glob("snapshot-*"):
        path.unlink()
    min(folder.glob("journal-*")).unlink()
    with pytest.raises(InputError, match="no whole snapshot"):
        mr.Stream.open(folder)


def feed_three_times(stream, event):
    for _ in range(3):
        give(stream, event)


def test_a_full_disk_leaves_the_stream_as_it_was(tmp_path, states):
    stream = mr.Stream(PROBLEM, store=tmp_path / "run")
    feed(stream, EVENTS, 8)
    position, size = stream.position, stream._store.journal.at.end
    with small_disk(size + 100):
        for event in (EVENTS[8], EVENTS[9]):
            with pytest.raises(OSError, match="File too large") as failed:
                feed_three_times(stream, event)
            assert "rows were, and the stream is as it was" in failed.value.__notes__[0]
            assert str(tmp_path) in failed.value.filename
    assert stream.position >= position
    assert stream._store.journal.path.stat().st_size == stream._store.journal.at.end
    state = copy.deepcopy(stream.state())
    assert same(opened(tmp_path / "run", read_only=True)[0].state(), state)


def test_saving_and_closing_without_room_is_a_warning(tmp_path):
    """Also where the arrays of a snapshot have room and its page has none: nothing is left of it."""
    stream = mr.Stream(PROBLEM, store=tmp_path / "run")
    feed(stream, EVENTS)
    said = "has all 300 rows, and the stream goes on from there"
    for most in (4000, 200):
        with small_disk(most), pytest.warns(UserWarning, match=said):
            stream.save()
    with small_disk(4000), pytest.warns(UserWarning, match=r"no snapshot could be written to .* \(File too large\)"):
        stream.close()
    assert not list((tmp_path / "run").glob("*snapshot*"))
    again = mr.Stream.open(tmp_path / "run")
    assert same(again.state(), stream.state())
    again.close()
    assert len(list((tmp_path / "run").glob("snapshot*"))) == 2


def test_no_room_for_a_snapshot_is_no_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(of_store, "LEAST", 100)
    stream = mr.Stream(PROBLEM, store=tmp_path / "run")

    def full(*what):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(of_store, "save", full)
    with pytest.warns(UserWarning, match="No space left"):
        feed(stream, EVENTS)
    assert same(opened(tmp_path / "run", read_only=True)[0].state(), stream.state())


def test_a_disk_that_fails_is_not_asked_again(tmp_path, monkeypatch):
    stream = mr.Stream(PROBLEM, store=tmp_path / "run", sync="always")
    feed(stream, EVENTS, 3)

    def fails(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    position = stream.position
    with pytest.raises(OSError, match="Input/output"):
        give(stream, EVENTS[3])
    monkeypatch.undo()
    with pytest.raises(OSError, match="open the store again"):
        give(stream, EVENTS[3])
    assert stream.position == position


def test_protected_folders(tmp_path, monkeypatch):
    mr.Stream(PROBLEM, store=tmp_path / "run").close()

    def protected(*what, **more):
        raise OSError(errno.EROFS, "Read-only file system")

    own = os.open
    monkeypatch.setattr(os, "open", lambda path, how, *more: protected() if how & os.O_CREAT else own(path, how, *more))
    with pytest.raises(InputError, match=r"cannot be written: Read-only file system.*read_only=True"):
        mr.Stream.open(tmp_path / "run")
    assert mr.Stream.open(tmp_path / "run", read_only=True).position == 0


def test_one_writer(tmp_path):
    first = mr.Stream(PROBLEM, store=tmp_path / "run")
    for again in (lambda: mr.Stream.open(tmp_path / "run"), lambda: mr.Stream(PROBLEM, store=tmp_path / "run")):
        with pytest.raises(InputError, match=f"is being written by process {os.getpid()} since 20"):
            again()
    first.close()
    mr.Stream.open(tmp_path / "run").close()


def test_a_forked_process_does_not_write(tmp_path, monkeypatch):
    stream = mr.Stream(PROBLEM, store=tmp_path / "run")
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(InputError, match="this one is a copy"):
        give(stream, EVENTS[0])


def test_a_newer_version(tmp_path):
    mr.Stream(PROBLEM, store=tmp_path / "run").close()
    path = tmp_path / "run" / "store.json"
    text = json.loads(path.read_text())
    del text["crc32"]
    text["version"] = 2
    text["crc32"] = zlib.crc32(json.dumps(text, sort_keys=True, separators=(",", ":")).encode())
    path.write_text(json.dumps(text))
    for how in ({}, {"read_only": True}):
        with pytest.raises(InputError, match="is of version 2, and this multireplay knows 1"):
            mr.Stream.open(tmp_path / "run", **how)


def test_what_is_no_store(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.csv").write_text("x")
    with pytest.raises(InputError, match="there is no store"):
        mr.Stream.open(tmp_path / "nothing")
    with pytest.raises(InputError, match="is not the store of a stream"):
        mr.Stream.open(tmp_path / "other")
    with pytest.raises(InputError, match=r"it holds 'data\.csv'"):
        mr.Stream(PROBLEM, store=tmp_path / "other")
    with pytest.raises(InputError, match="is a file"):
        mr.Stream(PROBLEM, store=tmp_path / "file")


@pytest.mark.parametrize(
    ("problem", "how", "message"),
    [
        (mr.GLM("logistic"), {}, "another problem"),
        (mr.GLM(constraint=mr.sets.Box(np.zeros(3), np.ones(3))), {}, "another problem"),
        (PROBLEM, {"window": 5}, "other arguments"),
    ],
)
def test_another_problem_is_refused(tmp_path, problem, how, message):
    mr.Stream(PROBLEM, store=tmp_path / "run").close()
    with pytest.raises(InputError, match=message):
        mr.Stream(problem, store=tmp_path / "run", **how)


def test_a_part_of_the_journal_that_is_gone(folder, states):
    """Also the last one, which is there before its snapshot is, and the first one."""
    for gone, position in ((max(folder.glob("journal-*.bin")), None), (folder / "journal-none", 0)):
        for path in [] if position is None else [*folder.glob("journal-*.bin"), *folder.glob("snapshot-*")]:
            path.unlink()
        gone.unlink(missing_ok=True)
        for how in ({}, {"read_only": True}):
            with pytest.raises(InputError, match="lacks the part of its journal" if position is None else "no whole"):
                mr.Stream.open(folder, **how)
        if position is None:
            stream, told = opened(folder, repair=True)
            assert "feed again from position" in told[0]
            assert same(stream.state(), states[stream.position])
            feed(stream, EVENTS)
            assert same(stream.state(), states[stream.position])
            stream.close()


def test_what_is_behind_damage_is_put_aside(folder, states):
    """It may be read by hand; of two repairs both are there."""
    for number in (1, 2):
        path = max(path for path in folder.glob("journal-*.bin") if path.stat().st_size)
        data = bytearray(path.read_bytes())
        data[60] ^= 255
        path.write_bytes(data)
        for snapshot in folder.glob("snapshot-*"):
            if int(snapshot.stem.partition("-")[2]) > int(path.stem.partition("-")[2]):
                snapshot.unlink()
        stream, _ = opened(folder, repair=True)
        aside = sorted(folder.glob("damaged-*journal-*"), key=lambda file: file.stat().st_mtime_ns)
        assert len(aside) >= number
        assert any(file.read_bytes() == data for file in aside)
        feed(stream, EVENTS)
        assert same(stream.state(), states[stream.position])
        stream._store.journal.close()
        stream._store._lock.release()


def test_files_of_another_store(folder, tmp_path, states):
    """They are whole, and are not what belongs there."""
    with mr.Stream(PROBLEM, store=tmp_path / "other") as other:
        feed(other, EVENTS)
    newest, journal = max((tmp_path / "other").glob("snapshot-*.json")), min((tmp_path / "other").glob("journal-*.bin"))
    for path in (newest, newest.with_suffix(".npy")):
        shutil.copy(path, folder)
    stream, told = opened(folder, read_only=True)
    assert "is of another store" in told[0]
    assert same(stream.state(), states[stream.position])
    for path in folder.glob("snapshot-*"):
        path.unlink()
    shutil.copy(journal, folder)
    with pytest.raises(InputError, match="its rows are those of another store"):
        mr.Stream.open(folder)


def test_a_kill_before_there_is_a_store(tmp_path):
    """What was written until then is no reason to refuse the folder."""
    problem = mr.GLM(constraint=mr.sets.Box(np.zeros(3), np.ones(3)))
    stream = mr.Stream(problem, store=tmp_path / "run")
    stream._store._lock.release()
    left = [path for path in (tmp_path / "run").iterdir() if path.name != "store.json"]
    assert {path.name for path in left} >= {"lock", "store.npy", f"journal-{0:020}.bin"}
    (tmp_path / "run" / "store.json").unlink()
    with mr.Stream(problem, store=tmp_path / "run") as stream:
        feed(stream, EVENTS)
    (tmp_path / "run" / "store.json").unlink()
    with pytest.raises(InputError, match="is not the store of a stream"):  # it has rows
        mr.Stream(problem, store=tmp_path / "run")


def test_what_a_writer_adds_while_it_is_read_is_no_damage(folder, monkeypatch):
    """A reader that comes upon the beginning of a record finds whole ones behind it when it looks again."""
    path = max(folder.glob("journal-*.bin"))
    data = path.read_bytes()
    last = [record.start for record in journal.records(path)][-3]
    path.write_bytes(data[: last + 20])
    own = journal._header

    def slow(head):
        if len(head) < journal.SIZE:
            path.write_bytes(data)
        return own(head)

    monkeypatch.setattr(journal, "_header", slow)
    with pytest.raises(journal.Torn):
        list(journal.records(path))
    monkeypatch.undo()
    assert len(list(journal.records(path))) > 3
