"""Rows that come twice, leave a gap, cannot be used, or are kept; streams with and without a store."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from killing import Killed, killed, same
from stream_events import feed, regression

import multireplay as mr
from multireplay.errors import InputError
from multireplay.streaming.store import store as of_store
from multireplay.streaming.store.journal import records, segments
from multireplay.streaming.store.verify import verify

RNG = np.random.default_rng(11)
A = RNG.standard_normal((60, 2))
Y = A @ [1.0, 2.0]


@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_known_by_their_position(tmp_path, kept):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run" if kept else None)
    assert stream.observe_many(features=A[:30], targets=Y[:30], position=0) == 30
    assert stream.observe_many(features=A[10:40], targets=Y[10:40], position=10) == 10
    assert stream.observe_many(features=A[:5], targets=Y[:5], position=0) == 0
    assert stream.observe(features=A[3], targets=Y[3], position=3) == 0
    assert stream.observe(features=A[40], targets=Y[40], position=40) == 1
    frame = pd.DataFrame(A[30:60], index=np.arange(100, 130))
    assert stream.observe_many(features=frame, targets=pd.Series(Y[30:60], index=frame.index), position=30) == 19
    with pytest.raises(InputError, match="the next row is that of position 60, and these begin at 61"):
        stream.observe_many(features=A, targets=Y, position=61)
    whole = mr.Stream(mr.GLM())
    whole.observe_many(features=A, targets=Y)
    assert whole.x.tobytes() == stream.x.tobytes()


def test_times_that_were_seen_are_not_late_when_they_come_again(tmp_path):
    stream = mr.Stream(mr.GLM(), clock="time", store=tmp_path / "run")
    when = np.arange(60.0)
    stream.observe_many(features=A[:30], targets=Y[:30], time=when[:30])
    assert stream.observe_many(features=A, targets=Y, time=when, position=0) == 30
    del stream
    assert mr.Stream.open(tmp_path / "run", read_only=True).position == 60


def test_bad_rows_are_refused_and_nothing_is_changed(tmp_path):
    stream = mr.Stream(mr.GLM(), clock="time", store=tmp_path / "run")
    when = np.arange(60.0)
    stream.observe_many(features=A[:30], targets=Y[:30], time=when[:30])
    state = stream.state()
    hole = A[30:35].copy()
    hole[2, 1] = np.nan
    for features, times in (
        (hole, when[30:35]),
        (A[30:35, :1], when[30:35]),
        (A[30:35], when[:5]),
        (A[30:35], [31, 33, 32, 34, 35]),
    ):
        with pytest.raises(InputError):
            stream.observe_many(features=features, targets=Y[30:35], time=times)
        assert same(stream.state(), state)
    assert same(mr.Stream.open(tmp_path / "run", read_only=True).state(), state)


def test_bad_rows_are_put_aside_by_choice(tmp_path):
    stream = mr.Stream(mr.GLM(), clock="time", store=tmp_path / "run", bad="quarantine")
    features, when = A.copy(), np.arange(60.0)
    features[7, 0] = np.inf
    when[20], when[41] = 3.0, np.nan
    assert stream.observe_many(features=features, targets=Y, time=when) == 60
    assert stream.observe(features=[1.0], targets=0.0, time=70.0) == 1
    assert (stream.position, stream.quarantined) == (61, 4)
    lines = [json.loads(line) for line in (tmp_path / "run" / "quarantine.ndjson").read_text().splitlines()]
    assert [line["position"] for line in lines] == [7, 20, 41, 60]
    assert lines[0]["row"]["features"] == [["inf", A[7, 1]]]
    assert "time falls" in lines[1]["why"]
    good = np.setdiff1d(np.arange(60), [7, 20, 41])
    clean = mr.Stream(mr.GLM(), clock="time")
    clean.observe_many(features=A[good], targets=Y[good], time=when[good])
    assert clean.x.tobytes() == stream.x.tobytes()
    shutil.copytree(tmp_path / "run", tmp_path / "copied")
    again = mr.Stream.open(tmp_path / "copied")
    assert (again.position, again.quarantined) == (61, 4)
    assert same(again.state(), stream.state())


def test_readers_know_how_many_rows_were_put_aside(tmp_path):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run", bad="quarantine")
    stream.observe_many(features=np.array([[1.0, np.nan], [1.0, 2.0]]), targets=[1.0, 2.0])
    assert mr.Stream.open(tmp_path / "run", read_only=True).quarantined == stream.quarantined == 1
    stream.close()
    assert verify(tmp_path / "run").wrong == []
    (tmp_path / "run" / "quarantine.ndjson").unlink()
    assert "quarantine.ndjson has 0 rows, and 1 rows were put aside" in verify(tmp_path / "run").wrong[0]


def test_rows_put_aside_are_on_the_disk_where_all_are_to_be(tmp_path, monkeypatch):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run", bad="quarantine", sync="always")
    own, synced = os.fsync, set()
    monkeypatch.setattr(os, "fsync", lambda file: (synced.add(os.readlink(f"/proc/self/fd/{file}")), own(file)))
    stream.observe(features=[np.nan, 1.0], targets=1.0)
    assert f"{tmp_path / 'run' / 'quarantine.ndjson'}" in synced


def test_a_row_put_aside_whose_record_is_lost_is_put_aside_once(tmp_path):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run", bad="quarantine")
    stream.observe_many(features=A, targets=Y)
    with killed(1, 0.3), pytest.raises(Killed):
        stream.observe(features=[np.nan, 1.0], targets=1.0)
    shutil.copytree(tmp_path / "run", tmp_path / "copied")
    with pytest.warns(UserWarning, match="was not whole"):
        again = mr.Stream.open(tmp_path / "copied")
    assert (again.position, again.quarantined) == (60, 0)
    assert (tmp_path / "copied" / "quarantine.ndjson").read_text() == ""
    again.observe(features=[np.nan, 1.0], targets=1.0)
    assert len((tmp_path / "copied" / "quarantine.ndjson").read_text().splitlines()) == 1


def test_a_number_whose_square_is_none_does_not_end_the_stream(tmp_path):
    """It is refused, or put aside; it was taken, and no answer was a number again."""
    stream = mr.Stream(mr.GLM())
    stream.observe_many(features=A, targets=Y)
    x = stream.x
    for features in (np.array([1e101, 1.0]), [1e200, 1.0], [[1.0, 2.0], [-1e300, 0.0]]):
        with pytest.raises(InputError, match=r"'features' holds a number beyond 1e\+100 at row"):
            stream.observe(features=features, targets=np.zeros(np.shape(features)[:-1]))
    with pytest.raises(InputError, match="'targets' holds a number beyond"):
        stream.observe(features=np.array([1.0, 1.0]), targets=1e200)
    assert np.array_equal(stream.x, x)
    assert stream.position == 60
    kept = mr.Stream(mr.GLM(), store=tmp_path / "run", bad="quarantine")
    kept.observe_many(features=np.vstack([A, [[1e200, 1.0]]]), targets=np.append(Y, 0.0))
    assert (kept.position, kept.quarantined) == (61, 1)
    assert np.array_equal(kept.x, x)


@pytest.mark.parametrize(("keep", "least", "most"), [(0, 0, 900), (700, 700, 1600), ("all", 3000, 3000)])
def test_how_much_of_the_journal_is_kept(tmp_path, monkeypatch, keep, least, most):
    monkeypatch.setattr(of_store, "LEAST", 10_000)
    monkeypatch.setattr(of_store, "TIMES", 0)
    problem, events = regression(3000, 12)
    stream = mr.Stream(problem, store=tmp_path / "run", keep=keep)
    feed(stream, events)
    stream.close()
    assert least <= len(stream.buffer()) <= most
    assert len(list((tmp_path / "run").glob("snapshot-*.json"))) == 2
    rows = np.concatenate([np.atleast_2d(event["features"]) for event in events])
    assert np.array_equal(stream.buffer()["features"], rows[-len(stream.buffer()) :])


def test_the_layout_is_the_documented_one(tmp_path):
    """A journal can be read with nothing but the page that describes it."""
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run")
    stream.observe_many(features=A, targets=Y)
    stream.break_here(3)
    data = next(iter(segments(tmp_path / "run").values())).read_bytes()
    magic, kind, number, position, length, *checks = struct.unpack("<4sIQQQII", data[:40])
    assert (magic, kind, number, position) == (b"mrj1", 1, 0, 0)
    assert checks == [zlib.crc32(data[40 : 40 + length]), zlib.crc32(data[:36])]
    schema = json.loads(data[40 : 40 + length])
    store = json.loads((tmp_path / "run" / "store.json").read_text())["content"]["store"]
    assert schema == {"columns": [["features", "<f8", [2]], ["targets", "<f8", []]], "names": None, "store": store}
    at = 40 + length
    length = struct.unpack("<Q", data[at + 24 : at + 32])[0]
    rows = np.frombuffer(data[at + 40 : at + 40 + length])
    assert np.array_equal(rows[:120].reshape(60, 2), A)
    assert np.array_equal(rows[120:], Y)
    assert [one.kind for one in records(next(iter(segments(tmp_path / "run").values())))] == [1, 2, 3]


def test_names_of_a_frame_are_kept(tmp_path):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run")
    stream.observe_many(features=pd.DataFrame(A, columns=["one", "two"]), targets=Y)
    assert mr.Stream.open(tmp_path / "run", read_only=True).result().names == ("one", "two")


def test_names_and_sets_are_compared_by_what_they_hold(tmp_path):
    """Also where they are long, so that they are printed alike."""
    ends = np.arange(2000.0)
    how = {"names": pd.Index(["one", "two"]), "forget": np.float64(50.0), "store": tmp_path / "run"}
    mr.Stream(mr.GLM(constraint=mr.sets.Box(-ends, ends)), **how).close()
    mr.Stream(mr.GLM(constraint=mr.sets.Box(-ends, ends)), **how).close()
    assert mr.Stream.open(tmp_path / "run", read_only=True).forget == 50.0
    with pytest.raises(InputError, match="another problem"):
        mr.Stream(mr.GLM(constraint=mr.sets.Box(-ends, np.where(ends == 1000, 1001, ends))), **how)


def test_a_problem_of_your_own_is_given_again(tmp_path):
    class Own(mr.GLM):
        pass

    mr.Stream(Own(), store=tmp_path / "run").close()
    with pytest.raises(InputError, match=r"a problem of your own.*give it again"):
        mr.Stream.open(tmp_path / "run")
    with pytest.raises(InputError, match="as its problem, not"):
        mr.Stream.open(tmp_path / "run", mr.PolicyEvaluation(0.5))
    assert mr.Stream.open(tmp_path / "run", Own(), read_only=True).position == 0


def test_settings_that_are_none(tmp_path):
    for how in ({"sync": "often"}, {"keep": -1}, {"keep": "some"}, {"bad": "ignore"}):
        with pytest.raises(InputError, match=f"{next(iter(how))} must be"):
            mr.Stream(mr.GLM(), store=tmp_path / "run", **how)
        with pytest.raises(InputError, match="give store=path too"):
            mr.Stream(mr.GLM(), **how)
    with pytest.raises(InputError, match="has no store"):
        mr.Stream(mr.GLM()).save()


class Machine(RuleBasedStateMachine):
    """Anything that may happen to a store, beside a list of what was given, which is all that counts."""

    @initialize(forget=st.sampled_from(["auto", None, 40.0]), keep=st.sampled_from([0, 50, "all"]))
    def begin(self, forget, keep):
        import tempfile

        self.place, self.waits = tempfile.TemporaryDirectory(), os.fsync
        os.fsync = lambda file: None  # the disk is not waited for
        self.problem, self.forget, self.copies = mr.PolicyEvaluation(0.5), forget, 0
        self.rng = np.random.default_rng(13)
        self.folder = f"{self.place.name}/0"
        self.stream = mr.Stream(self.problem, forget=forget, store=self.folder, keep=keep, sync="none")
        self.given = []

    def take(self, event):
        self.given.append(event)
        self.apply(self.stream, event)

    @staticmethod
    def apply(stream, event):
        if isinstance(event, dict):
            stream.observe_many(event)
        else:
            stream.break_here(event)

    def block(self, count):
        features, rewards = self.rng.standard_normal((count, 2)), self.rng.standard_normal(count)
        return {"features": features, "rewards": rewards, "group": self.rng.integers(2, size=count)}

    @rule(count=st.integers(1, 90))
    def observe(self, count):
        self.take(self.block(count))

    @rule(group=st.sampled_from([None, 0, 1]))
    def gap(self, group):
        self.take(group)

    @rule()
    def save(self):
        self.stream.save()

    @rule()
    def load(self):
        self.stream.close()
        self.stream = mr.Stream.open(self.folder)

    @rule(at=st.integers(1, 12), share=st.floats(0, 1), saving=st.booleans(), count=st.integers(1, 90))
    def kill(self, at, share, saving, count):
        event = self.block(count)
        with killed(at, share):
            try:
                self.apply(self.stream, event)
                if saving:
                    self.stream.save()
            except Killed:
                pass
        self.copies += 1
        before, self.folder = self.folder, f"{self.place.name}/{self.copies}"
        shutil.copytree(before, self.folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(of_store, "warn", lambda *what: None)
            self.stream = mr.Stream.open(self.folder)
        rows = sum(len(one["rewards"]) for one in self.given if isinstance(one, dict))
        assert self.stream.position in (rows, rows + count)
        self.given += [event] if self.stream.position > rows else []

    @invariant()
    def is_what_was_given(self):
        if not hasattr(self, "stream"):
            return
        literal = mr.Stream(self.problem, forget=self.forget)
        for event in self.given:
            self.apply(literal, event)
        assert same(self.stream.state(), literal.state())
        assert same(mr.Stream.open(self.folder, read_only=True).state(), literal.state())

    def teardown(self):
        if hasattr(self, "place"):
            os.fsync = self.waits
            self.place.cleanup()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=12, stateful_step_count=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
