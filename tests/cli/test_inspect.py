"""What `inspect` says of a model, of a record, and of files that are neither."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import multireplay as mr


@pytest.fixture
def model(run, tmp_path, data):
    out = tmp_path / "model.json"
    features = ("--features", "x,z,place")
    assert run("fit", data, "--target", "heat", "--time", "when", *features, "--out", out).exit_code == 0
    return out


def test_a_model_says_what_it_is(run, model):
    text = run("inspect", model).stdout
    for words in (
        "A linear model of 'heat'.", "(time 'when')", "4,000 rows", "alpha=0.0001", "2 columns of numbers: x, z",
        "north, south", "R² on the last 800 rows", "place=south", "(intercept)", "standard error", "95 % from",
    ):  # fmt: skip
        assert words in text, words
    found = json.loads(run("inspect", model, "--json").stdout)
    file = json.loads(model.read_text())
    assert found["is"] == "model"
    assert (found["target"], found["time"], found["levels"]) == ("heat", "when", {"place": ["north", "south"]})
    assert [row["coefficient"] for row in found["coefficients"]] == pytest.approx([*file["coef"], file["intercept"]])
    for row, kept in zip(found["coefficients"], file["inference"]["tables"][0]["coefficients"], strict=True):
        assert row | {"coefficient": 0} == kept | {"coefficient": 0}


def test_classes_and_formulas(run, tmp_path, data):
    pytest.importorskip("formulaic")
    out = tmp_path / "model.json"
    given = ("--formula", "fails ~ x + C(place)", "--model", "logistic", "--out", out)
    assert run("fit", data, *given).exit_code == 0
    text = run("inspect", out).stdout
    assert "with 2 classes: no, yes" in text
    assert "Formula: fails ~ x + C(place)" in text
    assert json.loads(run("inspect", out, "--json").stdout)["coefficients"][0]["class"] == "yes"


def test_doubts_are_told(run, tmp_path):
    rng = np.random.default_rng(5)
    rare = (np.arange(2000) == 700).astype(float)
    x = rng.standard_normal(2000)
    csv.write_csv(pa.table({"x": x, "rare": rare, "y": x + rare + rng.standard_normal(2000)}), tmp_path / "d.csv")
    run("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.json")
    assert "has seen too little of rare" in run("inspect", tmp_path / "m.json").stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("features"),
        lambda m: m["inference"]["tables"].clear(),
        lambda m: m["inference"]["tables"][0]["coefficients"].pop(),
        lambda m: m["inference"]["tables"][0]["coefficients"][0].update(name="other"),
        lambda m: m["inference"]["tables"][0]["coefficients"][0].update(t="[red]much[/red]"),
        lambda m: m["inference"]["tables"][0]["coefficients"][0].update(mark=None),
        lambda m: m.update(inference=[1]),
        lambda m: m["recipe"].update(terms=[{"column": "x"}]),
    ],
)
def test_damaged_models_are_refused(run, model, change):
    found = json.loads(model.read_text())
    change(found)
    model.write_text(json.dumps(found))
    result = run("inspect", model)
    assert result.exit_code == 3, result.output
    assert "is damaged" in result.stderr


@pytest.mark.parametrize("fitted", [{}, {"rows": "many", "data": 3, "status": {}, "about_rows": [1], "holdout": [2]}])
def test_what_a_file_says_of_its_fit_is_not_relied_on(run, model, fitted):
    found = json.loads(model.read_text())
    model.write_text(json.dumps({**found, "fitted": fitted}))
    result = run("inspect", model)
    assert result.exit_code == 0, result.output
    assert "A linear model of 'heat'." in result.stdout


def test_files_that_are_neither(run, tmp_path):
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "model").write_text(' {"a": 1}')
    assert "is not a JSON file" in run("inspect", tmp_path / "text.json").stderr
    assert "is not a model" in run("inspect", tmp_path / "model").stderr
    for name in ("text.json", "model", "nothing.csv", "nothing.json"):
        assert run("inspect", tmp_path / name).exit_code == 3


def test_a_record_says_what_its_columns_hold(run, tmp_path):
    days = np.datetime64("2024-01-01") + np.arange(40)
    load = pa.array([None, *np.arange(39.0)])
    table = pa.table({"day": days, "load": load, "place": ["north", "south"] * 20, "lists": [[1.0, 2.0]] * 40})
    parquet.write_table(table, tmp_path / "d.parquet")
    text = run("inspect", tmp_path / "d.parquet").stdout
    for words in ("40 rows and 4 columns", "date", "north, south", "0 to 38", "2 numbers a row"):
        assert words in text, words
    found = {row["name"]: row for row in json.loads(run("inspect", tmp_path / "d.parquet", "--json").stdout)["columns"]}
    assert (found["load"]["missing"], found["place"]["levels"]) == (1, ["north", "south"])
    mr.Buffer(features=np.ones((9, 3)), targets=np.arange(9.0)).save(tmp_path / "record")
    assert "9 rows and 2 columns" in run("inspect", tmp_path / "record").stdout


def test_a_wide_model_is_cut_unless_all_is_asked_for(run, tmp_path):
    X = np.random.default_rng(3).standard_normal((600, 111))
    named = {f"sensor number {i}": X[:, i] for i in range(110)}
    parquet.write_table(pa.table({**named, "y": X[:, 7] - X[:, 90] + X[:, 110] / 2}), tmp_path / "wide.parquet")
    run("fit", tmp_path / "wide.parquet", "--target", "y", "--holdout", 0, "--out", tmp_path / "m.json")
    text = run("inspect", tmp_path / "m.json").stdout
    assert "sensor number 90" in text
    assert "70 smaller coefficients are not shown. --all shows them." in text
    assert len(text.splitlines()) < 70
    assert run("inspect", tmp_path / "m.json", "--all").stdout.count("sensor number") >= 220
