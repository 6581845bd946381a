"""Exact resume: whatever a writer was doing when it was killed, the stream goes on as if it had never been."""

from __future__ import annotations

import copy
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from killing import Killed, killed, same
from stream_events import feed, give, regression, steps

import multireplay as mr
from multireplay.streaming.store import store as of_store
from multireplay.streaming.store.verify import verify

WORLDS = {"linear": regression(200), "logistic": regression(200, 1, "logistic"), "steps": steps(120)}


@pytest.fixture
def small(monkeypatch):
    """Snapshots as often as can be, and a disk that is not waited for."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(of_store, "LEAST", 2000)
    monkeypatch.setattr(of_store, "TIMES", 0)


def uninterrupted_run(problem, events):
    stream = mr.Stream(problem)
    for event in events:
        give(stream, event)
    return stream


def reopened(folder):
    """The stream in a copy of the folder, as it is at this moment."""
    copy = folder.with_name(f"{folder.name} copied")
    shutil.copytree(folder, copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_store, "warn", lambda *what: None)
        return mr.Stream.open(copy)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("close", [True, False])
def test_a_stream_goes_on_where_it_was(tmp_path, world, close, small):
    problem, events = WORLDS[world]
    expected = uninterrupted_run(problem, events).state()
    rng = np.random.default_rng(3)
    for stop in [*sorted(rng.integers(len(events), size=6).tolist()), len(events)]:
        stream = mr.Stream(problem, store=tmp_path / "run")
        feed(stream, events, stop)
        if close:
            stream.close()
        del stream
    assert same(reopened(tmp_path / "run").state(), expected)


@pytest.mark.parametrize("world", WORLDS)
def test_a_kill_at_every_call_that_writes(tmp_path, world, small):
    problem, events = WORLDS[world]
    events = events[: 40 if world == "steps" else 25]
    states = states_of(problem, events)
    rng = np.random.default_rng(4)
    at, calls = 0, 0
    while at < 2000:
        at += 1 + int(rng.integers(8 if world == "linear" else 12))
        folder = tmp_path / f"{at}"
        stream = None
        with killed(at, float(rng.choice([0.0, 0.3, 0.99, 1.0]))) as seen:
            try:
                stream = mr.Stream(problem, store=folder)
                feed(stream, events)
                stream.close()
                break
            except Killed:
                calls += 1
        del stream
        gc.collect()
        if (folder / "store.json").exists():
            stream = reopened(folder)
            state = stream.state()
            assert any(same(state, known) for position, known in states if position == stream.position)
        else:
            stream = mr.Stream(problem, store=folder)
        feed(stream, events)
        assert same(stream.state(), states[-1][1])
        stream.close()
    assert calls > 5
    assert {"pwritev", "fsync", "replace"} <= set(seen)


def states_of(problem, events):
    """The position and the state of a run that was never interrupted, before the first event and after every one."""
    stream = mr.Stream(problem)
    found = [(0, copy.deepcopy(stream.state()))]
    for event in events:
        give(stream, event)
        found.append((stream.position, copy.deepcopy(stream.state())))
    return found


def test_many_kills_of_one_run(tmp_path, small):
    problem, events = WORLDS["linear"]
    expected = uninterrupted_run(problem, events).state()
    rng = np.random.default_rng(5)
    kills, stream = 0, None
    warnings.simplefilter("ignore")
    while stream is None or stream.position < 200:
        with killed(int(rng.integers(1, 25)), float(rng.random())):
            try:
                stream = mr.Stream(problem, store=tmp_path / "run")
                feed(stream, events)
            except Killed:
                kills += 1
                stream = None
        gc.collect()
    assert kills > 5
    assert same(stream.state(), expected)


FEEDER = """
import os, random, signal, sys, time
sys.path.insert(0, {tests!r})
import multireplay as mr
import warnings
from stream_events import feed, regression
from multireplay.streaming.store import store
store.LEAST, store.TIMES = 20_000, 0
warnings.simplefilter("ignore")
problem, events = regression(4000, 6)
mr.Stream(problem).observe_many(features=[[1.0, 2.0, 0.0]] * 600, targets=[1.0] * 600)
random.seed(7)
for kill in range({kills}):
    child = os.fork()
    if child == 0:
        feed(mr.Stream(problem, store={folder!r}, sync=random.choice(["always", "interval", "none"])), events)
        os._exit(0)
    time.sleep(random.uniform(0.0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_real_kills(tmp_path):
    tests = str(Path(__file__).parents[2])
    script = textwrap.dedent(FEEDER).format(tests=tests, folder=str(tmp_path / "run"), kills=20)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    problem, events = regression(4000, 6)
    stream = reopened(tmp_path / "run") if (tmp_path / "run" / "store.json").exists() else mr.Stream(problem)
    feed(stream, events)
    assert same(stream.state(), uninterrupted_run(problem, events).state())


def test_readers_see_what_was_written(tmp_path, small):
    problem, events = WORLDS["linear"]
    writer = mr.Stream(problem, store=tmp_path / "run")
    for event in events:
        give(writer, event)
        reader = mr.Stream.open(tmp_path / "run", read_only=True)
        assert same(reader.state(), writer.state())
    with pytest.raises(mr.errors.InputError, match="takes no rows"):
        give(reader, events[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_a_stream_that_goes_on(tmp_path, number, monkeypatch):
    """A signal within a block is heard when the block is taken in, and the error says how many rows were."""
    problem, events = WORLDS["linear"]
    before = signal.signal(number, lambda *what: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        stream = mr.Stream(problem, store=tmp_path / "run")
        feed(stream, events, 20)
        put = stream._put

        def interrupted(*arguments):
            signal.raise_signal(number)
            return put(*arguments)

        monkeypatch.setattr(stream, "_put", interrupted)
        rows = np.ones((5, 3))
        with pytest.raises(KeyboardInterrupt) as stop:
            stream.observe_many(features=rows, targets=rows[:, 0], position=(start := stream.position))
        assert stream.position == start + 5
        assert f"{start + 5} rows were taken" in stop.value.__notes__[0]
        monkeypatch.undo()
        assert stream.observe_many(features=rows, targets=rows[:, 0], position=start) == 0
    finally:
        signal.signal(number, before)
    state = stream.state()
    del stream
    assert same(reopened(tmp_path / "run").state(), state)


def test_ctrl_c_before_a_row_is_journaled(tmp_path, monkeypatch):
    """A row that was taken in when Ctrl-C came is journaled with the next one."""
    problem, events = WORLDS["linear"]
    stream = mr.Stream(problem, store=tmp_path / "run")
    feed(stream, events)
    own, start = stream._store.catch_up, stream.position
    monkeypatch.setattr(stream._store, "catch_up", lambda stream: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stream.observe(features=np.array([0.1, 0.2, 0.3]), targets=0.1)
    monkeypatch.setattr(stream._store, "catch_up", own)
    assert stream.position == start + 1
    stream.observe(features=np.array([0.2, 0.2, 0.3]), targets=0.1)
    state = stream.state()
    del stream, own
    monkeypatch.undo()
    assert same(reopened(tmp_path / "run").state(), state)


WRITER = """
import sys
sys.path.insert(0, {tests!r})
import multireplay as mr
from stream_events import feed, regression
from multireplay.streaming.store import store
store.LEAST, store.TIMES = 2_000, 0
problem, events = regression(900, 6)
stream, part = mr.Stream(problem, store={folder!r}, sync="none"), len(events) // 12
for stop in range(part, len(events) + part, part):
    feed(stream, events, stop)
    sys.stdin.readline()
"""
"""A line comes with every position that a reader has seen, so that the writer is not done before it is read."""


def test_readers_beside_a_writer(tmp_path):
    """Snapshots and parts of the journal come and go while they are read; what is read was there at some moment."""
    problem, events = regression(900, 6)
    states = dict(states_of(problem, events))
    script = WRITER.format(tests=str(Path(__file__).parents[2]), folder=str(tmp_path / "run"))
    seen = set()
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, text=True) as writer:
        while writer.poll() is None:
            if (tmp_path / "run" / "store.json").exists():
                reader = mr.Stream.open(tmp_path / "run", read_only=True)
                assert same(reader.state(), states[reader.position])
                if reader.position not in seen:
                    seen.add(reader.position)
                    writer.stdin.write("\n")
                    with suppress(BrokenPipeError):
                        writer.stdin.flush()
                assert verify(tmp_path / "run").wrong == []
    assert writer.returncode == 0
    assert len(seen) >= 12
    assert mr.Stream.open(tmp_path / "run", read_only=True).position == 900


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_that_is_called_as_soon_as_it_is_back_leaves_the_other_to_be_put_back(number, monkeypatch):
    own, ours = signal.signal, {}
    for one in (signal.SIGINT, signal.SIGTERM):
        ours[one] = lambda *what: None
    before = {one: own(one, handler) for one, handler in ours.items()}

    def interrupted(one, handler):
        found = own(one, handler)
        if one == number and handler is ours[one]:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return found

    try:
        monkeypatch.setattr(signal, "signal", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mr.Stream(mr.GLM()).observe_many(features=[[1.0]], targets=[1.0])
        assert {one: signal.getsignal(one) for one in ours} == ours
    finally:
        for one, handler in before.items():
            own(one, handler)


def test_ctrl_c_while_a_source_is_waited_for_says_how_many_rows_were_taken(tmp_path):
    def rows():
        for number in range(7):
            yield {"features": [1.0 + number], "targets": 2.0}
        raise KeyboardInterrupt

    stream = mr.Stream(mr.GLM(), store=tmp_path / "run")
    with pytest.raises(KeyboardInterrupt) as stop:
        list(stream.follow(rows()))
    assert "7 rows were taken in all" in stop.value.__notes__[0]


def test_ctrl_c_within_close_waits_until_it_is_closed(tmp_path, monkeypatch):
    stream = mr.Stream(mr.GLM(), store=tmp_path / "run")
    stream.observe(features=[1.0], targets=2.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    own = stream._read_only
    monkeypatch.setattr(stream, "_read_only", lambda: (own(), signal.raise_signal(signal.SIGINT)))
    try:
        with pytest.raises(KeyboardInterrupt):
            stream.close()
    finally:
        signal.signal(signal.SIGINT, before)
    with mr.Stream.open(tmp_path / "run") as again:
        assert again.position == 1
