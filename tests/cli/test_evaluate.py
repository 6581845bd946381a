from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import multireplay as mr

pytest.importorskip("gymnasium")

LAKE = ("evaluate", "--env", "FrozenLake-v1", "--gamma", 0.9, "--seed", 3)


def test_numbers_are_those_of_the_library(run, tmp_path):
    result = run(*LAKE, "--steps", 3000, "--check", 20, "--record", tmp_path / "lake.npz", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    wanted = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", 0.9, 3000, 3, check=20)
    assert found["coef"] == pytest.approx(wanted.x)
    assert found["check"][0]["monte_carlo"] == pytest.approx(wanted.check.start.monte_carlo)
    kept = mr.rl.Trajectory.load(tmp_path / "lake.npz")
    assert np.array_equal(kept.rewards, wanted.trajectory.rewards)


@pytest.mark.parametrize(("code", "wanted"), [("finished", 0), ("not converged", 5), ("diverged", 4)])
def test_it_ends_as_the_run_did(run, monkeypatch, code, wanted):
    found = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", 0.9, 3000, 3, check=0)
    other = replace(found, result=replace(found.result, status=mr.Status(code, "As it may be.")))
    monkeypatch.setattr(mr.rl, "evaluate", lambda *given, **options: other)
    result = run(*LAKE, "--steps", 3000, "--json")
    assert result.exit_code == wanted
    printed = json.loads(result.stdout)
    assert printed["converged"] is (code != "diverged")  # which is measured, whatever the sentence says
    assert (printed["distance"] is None) == (code == "diverged")


def test_a_policy_and_features_of_ones_own(run, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def right(state):\n    return 2\n\ndef wrong(state):\n    return 9\n")
    monkeypatch.chdir(tmp_path)
    given = ("--steps", 500, "--check", 0, "--policy")
    result = run(*LAKE, *given, "mine:right", "--plot", "value.png")
    assert result.exit_code == 0, result.stderr
    assert "Value on FrozenLake-v1" in result.stdout
    assert (tmp_path / "value.png").stat().st_size > 5000
    for policy, text in [("mine:wrong", "returned 9"), ("mine:left", "no left in mine"), ("best", "no policy 'best'")]:
        result = run(*LAKE, *given, policy)
        assert result.exit_code == 3
        assert text in result.stderr


def test_four_numbers_an_observation_have_a_picture_and_a_page(run, tmp_path):
    given = ("--steps", 2000, "--check", 5, "--features", "polynomial(degree=2)", "--gamma", 0.9)
    files = ("--plot", tmp_path / "value.png", "--report", tmp_path / "value.html")
    result = run("evaluate", "--env", "CartPole-v1", *given, *files)
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "value.png").stat().st_size > 5000
    assert "Value at the start: " in result.stdout
    page = (tmp_path / "value.html").read_text(encoding="utf-8")
    assert 'id="value"' in page
    assert "Monte Carlo check" in page
    assert "Value at the start: " in page


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--env", "NoLake-v1"], "NoLake"),
        (["--env", "FrozenLake-v1", "--features", "cubes"], "no features 'cubes'"),
        (["--env", "FrozenLake-v1", "--gamma", "1.5"], "gamma"),
    ],
)
def test_what_cannot_be_used_is_named(run, arguments, text):
    result = run("evaluate", *arguments)
    assert result.exit_code == 3
    assert text in result.stderr


def test_ctrl_c_learns_from_the_steps_so_far(tmp_path):
    """A real process, interrupted while it collects."""
    (tmp_path / "slow.py").write_text(
        "import pathlib\ncount = 0\n\ndef act(state, rng):\n    global count\n    count += 1\n"
        "    if count == 400:\n        pathlib.Path('begun').touch()\n    return int(rng.integers(4))\n"
    )
    command = [sys.executable, "-m", "multireplay", *map(str, LAKE), "--steps", str(10**8), "--policy", "slow.py:act"]
    command += ["--record", "kept.npz", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "begun").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Interrupted. This is from the" in err
    found = json.loads(out)
    assert found["interrupted"] is True
    assert 400 <= found["steps"] < 10**8
    assert {"value", "low", "high", "doubt"} <= found["start_value"].keys()
    assert len(mr.rl.Trajectory.load(tmp_path / "kept.npz").rewards) == found["steps"]


def test_intervals_of_a_level_are_in_the_text_the_json_and_on_the_page(run, tmp_path):
    given = (*LAKE, "--steps", 3000, "--check", 0, "--level", 0.8)
    page = tmp_path / "page.html"
    result = run(*given, "--report", page)
    assert ", 80 % from " in result.stdout
    assert "'state 5'" in result.stdout
    text = page.read_text(encoding="utf-8")
    for words in ("80 % from", "80 %, not to be relied on", "state 14", "events of a rare outcome), state 3 (about"):
        assert words in text
    assert not any(words in text for words in ("95 %", "x[5]"))
    found = json.loads(run(*given, "--json").stdout)
    wanted = mr.rl.evaluate("FrozenLake-v1", "random", "one-hot", 0.9, 3000, 3, check=0)
    with pytest.warns(mr.UncertaintyWarning):
        rows = wanted.summary(0.8).rows
    table = found["inference"]
    assert (table["level"], table["by"], table["why_not"]) == (0.8, "BatchMeans()", None)
    assert [row["name"] for row in table["coefficients"]] == [row["name"] for row in rows]
    finite = [i for i, row in enumerate(rows) if np.isfinite(row["low"])]
    assert [table["coefficients"][i]["low"] for i in finite] == pytest.approx([rows[i]["low"] for i in finite])
    assert table["doubts"] == wanted.result.uncertainty.doubt_note()
    assert found["start_value"]["level"] == 0.8
    assert found["start_value"]["doubt"] == "about 6 events of a rare outcome: do not rely on this interval"
    pole = ("evaluate", "--env", "CartPole-v1", "--features", "polynomial(1)", "--steps", 200, "--check", 0)
    few = json.loads(run(*pole, "--json").stdout)["start_value"]
    assert "do not rely on this interval" in few["doubt"]
