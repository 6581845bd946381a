"""The lock of a store is its writer's alone: free when that has ended, or has failed to open it, whoever else lives."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest

import multireplay as mr
from multireplay.errors import InputError


@pytest.fixture
def folder(tmp_path):
    with mr.Stream(mr.GLM(), store=tmp_path / "run") as stream:
        stream.observe_many(features=[[1.0], [2.0]], targets=[2.0, 4.0])
    return tmp_path / "run"


@contextmanager
def forked(do):
    """A child that does something, and lives until this is done; what it wrote to the pipe comes first."""
    told, tell = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            os.write(tell, do().encode() or b"done")
            os.read(wait, 1)
        finally:
            os._exit(0)
    os.close(tell)
    os.close(wait)
    try:
        yield os.read(told, 1000).decode()
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(told)


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_a_forked_child_does_not_keep_the_lock(folder, how):
    stream = mr.Stream.open(folder)
    with forked(str):
        if how == "closed":
            stream.close()
        del stream
        mr.Stream.open(folder).close()


def test_the_lock_of_a_killed_writer_is_free_though_its_child_lives(folder):
    held = []

    def writer():
        held.append(mr.Stream.open(folder))
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        return f"{child}"

    with forked(writer) as child, pytest.raises(InputError, match="is being written by process"):
        mr.Stream.open(folder)
    mr.Stream.open(folder).close()
    os.kill(int(child), 0)  # it is still there
    os.kill(int(child), signal.SIGKILL)


def test_a_child_that_closes_its_copy_leaves_the_lock_to_the_parent(folder):
    stream = mr.Stream.open(folder)

    def closes():
        try:
            stream.save()
        except InputError as error:
            stream.close()
            return str(error)
        return "saved"

    with forked(closes) as said:
        assert "of which this one is a copy" in said
        with pytest.raises(InputError, match=f"is being written by process {os.getpid()}"):
            mr.Stream.open(folder)
        stream.observe(features=[3.0], targets=6.0)
    stream.close()
    assert mr.Stream.open(folder, read_only=True).position == 3


def test_an_error_that_is_looked_at_does_not_keep_the_lock(folder):
    """In a console the last error stays, with all that its functions had."""
    path = min(folder.glob("snapshot-*.json"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    min(folder.glob("journal-*")).unlink()
    for again in (lambda: mr.Stream.open(folder), lambda: mr.Stream(mr.GLM("logistic"), store=folder)):
        with pytest.raises(InputError) as kept:
            again()
        path.write_bytes(whole)
        mr.Stream.open(folder).close()
        assert kept.value.__traceback__ is not None


def test_whoever_looks_for_a_writer_does_not_refuse_one(folder):
    """To look is to have the lock, for a moment."""
    looks = os.open(folder / "lock", os.O_RDONLY)
    fcntl.flock(looks, fcntl.LOCK_SH)
    looked = threading.Timer(0.01, os.close, [looks])
    looked.start()
    mr.Stream.open(folder).close()
    looked.join()
