from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from scipy.signal import lfilter

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
        (["--columns", "x,zz"], "has no column 'zz'"),
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


HOURS = np.arange("2024-03-01", "2024-07-01", dtype="datetime64[h]").astype("datetime64[s]")


def written(path, **columns):
    csv.write_csv(pa.table(columns), path)
    return path


def test_the_one_column_of_dates_is_the_time_and_gaps_are_shown_as_dates(run, tmp_path):
    rng = np.random.default_rng(512)
    hours = np.delete(HOURS, slice(1000, 1007))
    path = written(tmp_path / "gap.csv", when=hours, load=np.sin(np.pi * np.arange(len(HOURS)) / 12)[: len(hours)]
                   + rng.standard_normal(len(hours)))  # fmt: skip
    result = run("diagnose", path)
    assert result.exit_code == 0, result.stderr
    assert "Time is 'when', from 2024-03-01 to 2024-06-30 23:00." in result.stderr
    assert "1 gap in 'when' (the usual step is 1 h, the longest gap 8 h), first from 2024-04-11 15:00" in result.stderr
    found = json.loads(run("diagnose", path, "--json").stdout)
    assert (found["chains"], [column["name"] for column in found["columns"]]) == (2, ["load"])
    assert found["about"][0].startswith("Time is 'when'")


def test_times_that_go_back_are_named_with_row_and_date(run, tmp_path):
    hours = HOURS[:100].copy()
    hours[[40, 41]] = hours[[41, 40]]
    result = run("diagnose", written(tmp_path / "back.csv", when=hours, x=np.arange(100.0)))
    assert result.exit_code == 3
    said = "when is 2024-03-02 16:00 at row 41 (counting from 0), after 2024-03-02 17:00 at row 40"
    assert said in " ".join(result.stderr.split())


def test_groups_are_chains_of_their_own(run, tmp_path):
    rng = np.random.default_rng(513)
    series = lfilter([1.0], [1.0, -0.9], rng.standard_normal((2, 10_000)))
    path = written(
        tmp_path / "panel.csv", when=np.repeat(np.arange(10_000), 2), id=["a", "b"] * 10_000, x=series.T.ravel()
    )
    joined = json.loads(run("diagnose", path, "--columns", "x", "--json").stdout)
    apart = json.loads(run("diagnose", path, "--columns", "x", "--group", "id", "--time", "when", "--json").stdout)
    assert apart["chains"] == 2
    assert apart["tau"] == pytest.approx(19, rel=0.2)
    assert apart["tau"] == pytest.approx(mr.diagnose(series.ravel(), groups=np.repeat([0, 1], 10_000)).tau)
    assert abs(joined["tau"] - 19) > 5 or joined["sentence"] != apart["sentence"]
    no_group = run("diagnose", path, "--columns", "x", "--time", "when")
    assert no_group.exit_code == 3 or "there twice" in no_group.stderr


def test_text_is_left_out_and_named_and_text_among_numbers_is_an_error(run, tmp_path):
    x, day = np.random.default_rng(514).standard_normal(60), ["Mon", "Tue", "Wed"] * 20
    result = run("diagnose", written(tmp_path / "a.csv", x=x, day=day))
    assert result.exit_code == 0
    assert result.stderr == "Left out, because they are not numbers: day.\n"
    cells = [f"{value:.3f}" for value in x]
    cells[17] = "broken"
    mixed = run("diagnose", written(tmp_path / "b.csv", x=x, y=cells))
    assert mixed.exit_code == 3
    assert "'broken' at row 17" in mixed.stderr


def test_rows_with_nothing_in_them_are_an_error_or_dropped(run, tmp_path):
    x = np.random.default_rng(515).standard_normal(300)
    path = tmp_path / "holes.csv"
    path.write_text("x;y\n" + "".join(f"{value:.4f};{'weg' if row == 100 else row % 7}\n".replace(".", ",")
                                      for row, value in enumerate(x)))  # fmt: skip
    refused = run("diagnose", path, "--na", "weg")
    assert refused.exit_code == 3
    assert "1 of 300 rows cannot be used, the first at row 100" in refused.stderr
    result = run("diagnose", path, "--na", "weg", "--missing", "drop", "--separator", ";", "--decimal", ",", "--json")
    found = json.loads(result.stdout)
    assert (found["rows"], found["chains"]) == (299, 2)
    assert found["about"] == ["Dropped 1 rows: 1 with nothing in 'y'. A chain ends at each."]


def test_a_column_that_numbers_the_rows_is_left_out(run, tmp_path):
    x = np.random.default_rng(516).standard_normal(60)
    path = tmp_path / "index.csv"
    path.write_text(",x\n" + "".join(f"{row},{value}\n" for row, value in enumerate(x)))
    result = run("diagnose", path)
    assert "Left out: '' numbers the rows." in result.stderr
    assert "The slowest column (x)" in result.stdout or "slowest column (x)" in result.stdout
