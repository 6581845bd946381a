from __future__ import annotations

import contextlib
import gc
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from written import stored

from multireplay.buffer.disk.stream import read_ahead


def counted(seen, stop=10):
    try:
        for number in range(stop):
            seen.append(number)
            yield number
    finally:
        seen.append("closed")


def test_one_item_ahead_and_no_more():
    seen = []
    items = read_ahead(counted(seen))
    assert seen == []  # nothing is read before it is asked for
    assert next(items) == 0
    time.sleep(0.05)
    assert seen == [0, 1]
    assert list(items) == list(range(1, 10))
    assert seen[-1] == "closed"


def test_the_thread_ends_when_the_caller_stops():
    before = threading.active_count()
    for stop in (lambda items: items.close(), lambda items: items.throw(KeyboardInterrupt)):
        seen = []
        items = read_ahead(counted(seen))
        next(items)
        assert threading.active_count() == before + 1
        with contextlib.suppress(KeyboardInterrupt):
            stop(items)
        assert threading.active_count() == before
        assert seen[-1] == "closed"


def test_the_thread_ends_when_the_caller_forgets():
    before = threading.active_count()
    items = read_ahead(counted([]))
    next(items)
    del items
    gc.collect()
    assert threading.active_count() == before


def test_an_error_comes_where_its_item_would_have():
    def failing():
        yield 1
        yield 2
        raise OSError("gone")

    items = read_ahead(failing())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(OSError, match="gone"):
        next(items)
    assert not list(items)


def test_an_interrupt_ends_a_stream_at_once(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(100_000))
    code = (
        "import sys, time, multireplay as mr\n"
        "buffer = mr.Buffer.open(sys.argv[1], memory='1 MB')\n"
        "print('ready', flush=True)\n"
        "for first, block in buffer.blocks():\n"
        "    time.sleep(30)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in errors
    assert process.returncode in (-signal.SIGINT, 1, 130)


def test_blocks_that_are_dropped_give_their_memory_back(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 4)))
    places = {block["a"].ctypes.data for _, block in stored(tmp_path, rows=8).blocks()}
    assert len(places) <= 3
