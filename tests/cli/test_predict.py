"""Predictions from a model file, and files that are no models."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import multireplay as mr
from multireplay.cli.model import Model, ModelKind
from multireplay.errors import InputError

TWO = Model(ModelKind.logistic, "fails", ("z", "x"), np.array([[0.5, -1.0]]), np.array([0.1]), ("no", "yes"))
THREE = Model(ModelKind.logistic, "size", ("x",), np.array([[1.0], [0.0], [-1.0]]), np.zeros(3), (1, 2, 3))
LINEAR = Model(ModelKind.linear, "heat", ("x", "z"), np.array([[3.0, -1.0]]), np.array([7.0]))
POISSON = Model(ModelKind.poisson, "count", ("x",), np.array([[0.1]]), np.array([0.2]))


def table_of(path):
    return parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_predictions_by_hand(run, tmp_path, data, columns, suffix):
    x, z = columns["x"], columns["z"]
    for model in (TWO, THREE, LINEAR, POISSON):
        model.save(tmp_path / "model.json")
        out = tmp_path / f"predictions{suffix}"
        result = run("predict", tmp_path / "model.json", data, "--out", out, "--force")
        assert result.exit_code == 0, result.stderr
        found = {
            name: column.to_numpy() for name, column in zip(table_of(out).column_names, table_of(out), strict=True)
        }
        if model is LINEAR:
            assert found["prediction"] == pytest.approx(3 * x - z + 7)
        elif model is POISSON:
            assert found["prediction"] == pytest.approx(np.exp(0.1 * x + 0.2))
        elif model is TWO:
            chance = 1 / (1 + np.exp(-(0.5 * z - x + 0.1)))
            assert found["probability of yes"] == pytest.approx(chance)
            assert found["prediction"].tolist() == np.where(chance > 0.5, "yes", "no").tolist()
        else:
            each = 1 / (1 + np.exp(-np.outer(x, [1.0, 0.0, -1.0])))
            assert found["prediction"].tolist() == np.where(x > 0, 1, 3).tolist()
            assert found["probability of 2"] == pytest.approx(0.5 / each.sum(axis=1))


def test_without_a_file_they_are_printed(run, tmp_path, data, columns):
    LINEAR.save(tmp_path / "model.json")
    printed = run("predict", tmp_path / "model.json", data)
    assert "R² against the column 'heat'" in printed.stderr
    found = csv.read_csv(io.BytesIO(printed.stdout_bytes)).column("prediction").to_numpy()
    assert found == pytest.approx(3 * columns["x"] - columns["z"] + 7)
    as_json = json.loads(run("predict", tmp_path / "model.json", data, "--json").stdout)
    assert as_json["rows"] == len(found)
    assert as_json["prediction"] == pytest.approx(found)


def test_columns_that_come_along_never_take_the_place_of_ours(run, tmp_path, columns):
    names = [f"row {row}" for row in range(len(columns["x"]))]
    taken = {"prediction": names, "prediction in the file": names, "probability of yes": names, "low": names}
    table = pa.table({**taken, "x": columns["x"], "z": columns["z"], "fails": columns["fails"]})
    csv.write_csv(table, tmp_path / "d.csv")
    run("fit", tmp_path / "d.csv", "--target", "fails", "--model", "logistic", "--out", tmp_path / "m.json")
    out = tmp_path / "p.csv"
    done = run("predict", tmp_path / "m.json", tmp_path / "d.csv", "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "is 'prediction in the file in the file' beside the predictions" in " ".join(done.stderr.split())
    found = table_of(out)
    assert set(found.column("prediction").to_pylist()) == {"yes", "no"}
    assert found.column("probability of yes").to_pylist()[0] < 1
    kept = "prediction in the file in the file", "prediction in the file", "probability of yes in the file", "low"
    assert [found.column(name).to_pylist() for name in kept] == [names] * 4
    listed = json.loads(run("predict", tmp_path / "m.json", tmp_path / "d.csv", "--json").stdout)
    assert [listed["beside"][name] for name in kept] == [names] * 4
    assert listed["prediction"] == found.column("prediction").to_pylist()


@pytest.mark.parametrize("model", [TWO, THREE, LINEAR, POISSON])
def test_a_model_survives_its_file(tmp_path, model):
    model.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert again.to_dict() | {"recipe": None} == model.to_dict()
    assert again.classes == model.classes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "has version 3"),
        ({"format": "other"}, "is not a model"),
        ({"coef": [1.0]}, "do not go with"),
        ({"classes": None}, "is damaged"),
        ({"coef": "much"}, "is damaged"),
        ({"model": "quadratic"}, "is damaged"),
        ({"coef": [float("nan"), 1.0]}, "coefficients are not all numbers"),
        ({"coef": [None, 1.0]}, "coefficients are not all numbers"),
        ({"coef": None}, "coefficients are not all numbers"),
        ({"intercept": float("inf")}, "intercepts are not all numbers"),
        ({"intercept": None}, "intercepts are not all numbers"),
        ({"coef": 10**400}, "is damaged"),
        ({"fitted": None}, "is damaged: TypeError 'fitted' is NoneType"),
        ({"inference": [1]}, "is damaged: TypeError 'inference' is list"),
        ({"target": None}, "is damaged: TypeError 'target' is NoneType"),
        ({"features": "zx"}, "is damaged: TypeError 'features' is str"),
        ({"features": ["x", "x"]}, "texts that all differ"),
        ({"features": [None, "x"]}, "texts that all differ"),
        ({"classes": ["no", None]}, "None cannot be a class"),
        ({"classes": ["no", ["yes"]]}, "cannot be a class"),
        ({"classes": ["no", "no"]}, "two of its classes are the same"),
    ],
)
def test_files_that_are_no_models(run, tmp_path, data, change, message):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**TWO.to_dict(), **change}))
    with pytest.raises(InputError, match=message):
        Model.load(path)
    result = run("predict", path, data)
    assert result.exit_code == 3
    assert message in result.stderr


def test_a_model_that_is_nested_too_deeply(run, tmp_path, data):
    path = tmp_path / "model.json"
    deep = "[" * 100_000 + "]" * 100_000
    path.write_text(json.dumps({**TWO.to_dict(), "coef": 0}).replace('"coef": 0', f'"coef": {deep}'))
    result = run("predict", path, data)
    assert result.exit_code == 3
    assert "nested too deeply" in result.stderr


def test_what_is_missing_is_named(run, tmp_path, data):
    TWO.save(tmp_path / "model.json")
    csv.write_csv(csv.read_csv(data).drop_columns(["z", "x"]), tmp_path / "less.csv")
    result = run("predict", tmp_path / "model.json", tmp_path / "less.csv")
    assert result.exit_code == 3
    assert "has no column 'z', 'x'" in result.stderr
    assert run("predict", tmp_path / "no.json", data).exit_code == 3
    (tmp_path / "text.json").write_text("{")
    assert "is not a JSON file" in run("predict", tmp_path / "text.json", data).stderr
    result = run("predict", tmp_path / "model.json", data, "--out", tmp_path / "p.xlsx")
    assert result.exit_code == 3
    assert "ends in .csv or .parquet" in result.stderr


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ctrl_c_leaves_no_half_of_a_file(run, tmp_path, data, monkeypatch, suffix):
    predict, made = Model.predict, []

    def interrupted(self, rows):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(predict(self, rows))
        return made[-1]

    monkeypatch.setattr(Model, "predict", interrupted)
    monkeypatch.setattr("multireplay.cli.data_file.BLOCK", 1000)
    LINEAR.save(tmp_path / "model.json")
    out = tmp_path / f"predictions{suffix}"
    result = run("predict", tmp_path / "model.json", data, "--out", out)
    assert result.exit_code == 130
    assert result.stderr == f"Interrupted. {out} was not written.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "model.json"]


@pytest.mark.parametrize("kind", ["linear", "poisson", "logistic", "three"])
def test_intervals_are_those_of_the_estimator(run, tmp_path, data, columns, kind):
    target = {"linear": "heat", "poisson": "count", "logistic": "fails", "three": "size"}[kind]
    rows = np.column_stack([columns["x"], columns["z"]])
    truth = columns.get(target, np.digitize(columns["x"] + np.cos(columns["z"]), [-1.0, 1.0]))
    csv.write_csv(pa.table({"x": rows[:, 0], "z": rows[:, 1], target: truth}), tmp_path / "data.csv")
    chosen = {"linear": mr.MERRegressor, "poisson": mr.MERPoissonRegressor}.get(kind, mr.MERClassifier)
    estimator = chosen(warn_autocorrelation=False).fit(rows, truth)
    model = kind if kind != "three" else "logistic"
    out = tmp_path / "model.json"
    fitted = run("fit", tmp_path / "data.csv", "--target", target, "--model", model, "--out", out, "--holdout", 0)
    assert fitted.exit_code == 0, fitted.stderr
    result = run("predict", out, tmp_path / "data.csv", "--interval", "--level", 0.8, "--json")
    found = json.loads(result.stdout)
    _, low, high = estimator.predict_interval(rows, 0.8)
    if kind in ("linear", "poisson"):
        assert np.allclose([found["low"], found["high"]], [low, high])
    else:
        for place, name in enumerate(estimator.classes_):
            assert np.allclose(found[f"low of {name}"], low[:, place])
            assert np.allclose(found[f"high of {name}"], high[:, place])


def test_a_file_of_an_earlier_version_predicts_and_says_why_it_has_no_intervals(run, tmp_path, data):
    kept = LINEAR.to_dict()
    del kept["inference"]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(kept))
    assert run("predict", path, data, "--json").exit_code == 0
    result = run("predict", path, data, "--interval")
    assert result.exit_code == 3
    assert "has no intervals: it was written by an earlier version" in result.stderr


def test_files_without_what_intervals_are_made_of_say_why(run, tmp_path, data):
    path = tmp_path / "model.json"
    run("fit", data, "--target", "heat", "--features", "x,z", "--out", path)
    kept = json.loads(path.read_text())
    table = kept["inference"]["tables"][0]
    for change, message in (
        ({"batches": None}, "for up to 1000 features, and this has 2"),
        ({"why_not": "the run diverged"}, "has no intervals: the run diverged"),
        ({"batches": [[1.0, 2.0]]}, "is damaged: its batches"),
        ({"batches": "many"}, "is damaged"),
    ):
        path.write_text(json.dumps({**kept, "inference": {**kept["inference"], "tables": [{**table, **change}]}}))
        result = run("predict", path, data, "--interval")
        assert result.exit_code == 3, result.stderr
        assert message in result.stderr
