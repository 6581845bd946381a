"""The benchmark of learning out of core, small: memory is checked, times are not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "out_of_core.py"


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("out_of_core", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("samples") / "record"
    module.make_samples(folder, rows=250_000, dim=100)  # 200 MB
    return folder


@pytest.mark.parametrize("how", ["interleaved", "multiscale", "newton"])
def test_memory_stays_within_the_budget(samples, how):
    command = [sys.executable, str(SCRIPT), "--only", how, "--folder", str(samples), "--memory", "64 MB"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["above"] < 64e6 + 70e6  # the budget; and the compiled loops, the coarse epoch and what libraries take
    assert found["memory"] < 500e6
    assert "left" in done.stderr  # a bar with the time left
