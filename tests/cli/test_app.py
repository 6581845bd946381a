"""How commands end: one line on standard error, and an exit code that says what happened."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import multireplay as mr
from multireplay.cli.options import plain
from multireplay.errors import InputError


def test_help_lists_the_commands_and_the_exit_codes(run):
    result = run("--help")
    assert result.exit_code == 0
    for word in (
        "fit",
        "predict",
        "evaluate",
        "demo",
        "diagnose",
        "reproduce",
        "compare",
        "130",
        "the run diverged",
        "not converged",
    ):
        assert word in result.output


def test_the_version(run):
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"multireplay {mr.__version__}\n")


@pytest.mark.parametrize("arguments", [["demo", "--trajectories", "0"], ["no-such-command"], ["diagnose"]])
def test_what_is_not_understood_ends_with_2(run, arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("column 'a' is\n empty"), 3, "column 'a' is empty"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (ZeroDivisionError("oh [red]no"), 1, "Unexpected ZeroDivisionError: oh [red]no"),
        (ImportError("needs gymnasium"), 1, "needs gymnasium"),
        (FileNotFoundError(2, "No such file or directory", "there"), 1, "there: No such file or directory"),
    ],
)
def test_errors_are_one_line(run, monkeypatch, tmp_path, error, code, text):
    def fail(path, memory, dialect):
        raise error

    monkeypatch.setattr("multireplay.cli.data_file.find_source", fail)
    result = run("diagnose", tmp_path / "data.csv")
    assert result.exit_code == code
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(text)
    for given in (("--debug", "diagnose", tmp_path / "data.csv"), ("diagnose", tmp_path / "data.csv", "--debug")):
        debugged = run(*given)
        assert debugged.exit_code == code  # more is said, but the end is the same
        assert ("Traceback" in debugged.stderr) == isinstance(error, Exception)
        assert debugged.stderr.splitlines()[-1] == line


def test_ctrl_c_leaves_what_is_finished(tmp_path):
    """A real process, interrupted in the middle."""
    command = [sys.executable, "-m", "multireplay", "reproduce", "fig2a", "--size", "small", "--jobs", "1"]
    command += ["--instances", "400", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.rglob("report-*.npz")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert out == ""
    assert "Finished instances are kept" in err
    assert "Traceback" not in err
    assert list(tmp_path.rglob("report-*.npz"))


def test_json_has_no_name_for_what_is_not_finite():
    assert plain({"x": np.array([1.0, np.inf]), "n": np.int64(2)}) == {"x": [1.0, None], "n": 2}
