"""Files that are complete or not there: full disks, Ctrl-C, processes that were killed, links and devices."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from small_disk import small_disk

from multireplay import _write
from multireplay._write import beside, completed, leftovers, save_text


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_what_fails_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "kept.txt"
    save_text(path, "old")

    def fail():
        with completed(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_full_disk_leaves_the_old_file_and_is_said_of_it(tmp_path):
    path = tmp_path / "kept.txt"
    save_text(path, "old")
    with small_disk(10_000), pytest.raises(OSError, match=r"kept\.txt") as caught:
        save_text(path, "x" * 20_000)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, done = tmp_path / "a.txt", []
    fsync, replace = os.fsync, os.replace

    def synced(file):
        done.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        fsync(file)

    monkeypatch.setattr(_write.os, "fsync", synced)
    monkeypatch.setattr(_write.os, "replace", lambda old, new: (done.append("named"), replace(old, new)))
    save_text(path, "whole")
    assert done == ["file", "named", "folder"]


def test_what_killed_processes_left_goes_and_what_others_write_stays(tmp_path):
    path = tmp_path / "a.txt"
    gone = subprocess.Popen(["true"])
    gone.wait()
    mine = beside(path, "partial")
    names = {
        "killed": mine.name.replace(f".{os.getpid()}-", f".{gone.pid}-"),
        "killed, and its number given to this process": mine.name.replace(_write._TOKEN, "0" * 8),
    }
    for name in (mine.name, *names.values(), f".a.txt.{os.getppid()}-00000000-00000000.partial", ".a.txt.partial"):
        (tmp_path / name).write_text("half")
    assert {left.name for left in leftovers(path, "partial")} == set(names.values())
    save_text(path, "whole")
    assert not {left.name for left in tmp_path.iterdir()} & set(names.values())
    assert len(os.listdir(tmp_path)) == 4


def test_links_modes_devices_and_long_names(tmp_path):
    real = tmp_path / "there" / "real.txt"
    save_text(real, "old")  # the folder is made
    real.chmod(0o600)
    (tmp_path / "link.txt").symlink_to(real)
    save_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    reading, writing = os.pipe()
    save_text(f"/dev/fd/{writing}", "through")
    assert os.read(reading, 100) == b"through"
    save_text(Path(os.devnull), "nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    long = tmp_path / f"{'ä' * 120}.txt"
    save_text(long, "long")
    assert long.read_text() == "long"
