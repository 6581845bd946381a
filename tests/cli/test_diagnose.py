from __future__ import annotations

import json

import numpy as np
import pytest

import multireplay as mr


def test_numbers_are_those_of_the_library(run, data, columns):
    result = run("diagnose", data, "--columns", "x,z", "--time", "when", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    wanted = mr.diagnose({"x": columns["x"], "z": columns["z"]})
    assert found["tau"] == pytest.approx(wanted.tau, rel=1e-9)
    assert found["sentence"] == wanted.sentence
    assert [column["name"] for column in found["columns"]] == ["x", "z"]


def test_all_numeric_columns_by_default_and_a_note_on_the_others(run, data):
    result = run("diagnose", data, "--time", "when")
    assert result.exit_code == 0
    assert "The slowest column (x)" in result.stdout.replace("\n", " ")
    assert "| when" not in result.stdout
    said = "Time is 'when', from 0 to 3999.\nLeft out, because they are not numbers: place, fails.\n"
    assert result.stderr == said


def test_slow_components_and_cycles_are_shown(run, tmp_path):
    rng = np.random.default_rng(511)
    cycle = np.sin(2 * np.pi * np.arange(4000) / 24) + 0.5 * rng.standard_normal(4000)
    drift = np.linspace(-1, 1, 4000) + 2 * rng.standard_normal(4000)
    path = tmp_path / "data.csv"
    np.savetxt(path, np.column_stack([cycle, drift]), delimiter=",", header="load,price", comments="")
    shown = " ".join(run("diagnose", path).stdout.split())
    assert "cycle of 24" in shown
    assert "The slowest column (price) has a slow component: the sum over short lags says" in shown
    found = json.loads(run("diagnose", path, "--columns", "load", "--json").stdout)
    assert found["columns"][0]["period"] == pytest.approx(24, rel=1e-3)
    assert found["columns"][0]["batch"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--columns", "x,zz"], "no column 'zz' in"),
        (["--columns", "x,x"], "column 'x' is named twice"),
        (["--columns", ","], "no column is named"),
        (["--columns", "place"], "holds 'north' at row 0"),
        (["--time", "x"], "not in time order"),
        (["--time", "place"], "such as 'north', which is no date or number"),
    ],
)
def test_what_cannot_be_used_is_named(run, data, arguments, text):
    result = run("diagnose", data, *arguments)
    assert result.exit_code == 3
    assert text in result.stderr
