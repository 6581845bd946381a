"""Fitting from a file: the library's own numbers, a file that predicts, and an end that says what went wrong."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import multireplay as mr
from multireplay.cli.model import Model

EXACT = {
    "linear": ("heat", LinearRegression()),
    "logistic": ("fails", LogisticRegression(C=1e6)),
    "poisson": ("count", PoissonRegressor(alpha=0)),
}


@pytest.mark.parametrize("kind", list(EXACT))
def test_the_fit_is_the_exact_one(run, tmp_path, data, columns, kind):
    target, exact = EXACT[kind]
    out = tmp_path / "new" / "model.json"
    given = ("fit", data, "--target", target, "--model", kind, "--features", "x,z", "--alpha", 0, "--time", "when")
    result = run(*given, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    saved = json.loads(out.read_text())
    assert {**saved, "file": str(out), "report": None} == printed
    exact.fit(np.column_stack([columns["x"], columns["z"]]), columns[target])
    assert printed["coef"] == pytest.approx(np.ravel(exact.coef_), abs=2e-3)
    assert printed["intercept"] == pytest.approx(float(np.ravel(exact.intercept_)[0]), abs=1e-2)
    assert saved["features"] == ["x", "z"]
    assert saved["classes"] == (["no", "yes"] if kind == "logistic" else None)
    assert saved["fitted"]["rows"] == len(columns["x"])


@pytest.mark.parametrize("kind", list(EXACT))
def test_what_was_fitted_predicts_as_the_estimator_does(run, tmp_path, data, columns, kind):
    target, _ = EXACT[kind]
    estimator = {"linear": mr.MERRegressor, "logistic": mr.MERClassifier, "poisson": mr.MERPoissonRegressor}[kind]()
    rows = np.column_stack([columns["x"], columns["z"]])
    estimator.set_params(warn_autocorrelation=False).fit(rows, columns[target])
    assert run("fit", data, "--target", target, "--model", kind, "--features", "x,z", "--out", tmp_path / "m.json")
    found = Model.load(tmp_path / "m.json").predict(rows)
    if kind == "logistic":
        assert found["prediction"].tolist() == estimator.predict(rows).tolist()
        assert found["probability of yes"] == pytest.approx(estimator.predict_proba(rows)[:, 1])
    else:
        assert found["prediction"] == pytest.approx(estimator.predict(rows))


def test_what_a_person_sees(run, data, columns):
    result = run("fit", data, "--target", "heat", "--time", "when")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert any(line.split()[:1] == ["place=south"] for line in result.stdout.splitlines())
    assert "independent ones." in " ".join(result.stdout.split())
    assert "Multiscale" not in result.stdout
    lines = result.stdout.splitlines()
    assert any(line.split() == ["x", "2.99991", "6.94"] for line in lines) or any(
        line.split()[:1] == ["x"] and abs(float(line.split()[1]) - 3) < 0.01 for line in lines
    )
    text = " ".join(lines)
    for part in (
        "(intercept)",
        "Finished",
        "A fit to the first 3200 rows has on the last 800 rows R² = 0.99",
        "Rows repeat each other",
    ):
        assert part in text


def test_the_score_is_of_rows_that_were_not_learnt(run, tmp_path):
    """The relation turns round in the last fifth, so that a score with rows that were learnt could not be so bad."""
    x = np.random.default_rng(0).standard_normal(1000)
    y = np.where(np.arange(1000) < 800, x, -x)
    parquet.write_table(pa.table({"x": x, "y": y}), tmp_path / "turn.parquet")
    held = json.loads(run("fit", tmp_path / "turn.parquet", "--target", "y", "--json").stdout)["fitted"]["holdout"]
    assert (held["learnt"], held["rows"]) == (800, 200)
    assert held["score"] == pytest.approx(-3, abs=0.3)
    none = run("fit", tmp_path / "turn.parquet", "--target", "y", "--json", "--holdout", 0)
    assert json.loads(none.stdout)["fitted"]["holdout"] is None


def test_three_classes_and_numbers_as_classes(run, tmp_path, columns):
    size = np.digitize(columns["x"] + np.random.default_rng(1).standard_normal(len(columns["x"])), [-1.0, 1.0])
    parquet.write_table(pa.table({"x": columns["x"], "size": size}), tmp_path / "size.parquet")
    given = ("fit", tmp_path / "size.parquet", "--target", "size", "--model", "logistic")
    assert "size, logistic, 2" in run(*given).stdout
    found = json.loads(run(*given, "--json").stdout)
    assert found["classes"] == [0, 1, 2]
    assert [row[0] > 0 for row in found["coef"]][::2] == [False, True]


def test_columns_with_several_numbers_a_row(run, tmp_path):
    rng = np.random.default_rng(0)
    psi = rng.standard_normal((500, 3))
    np.savez(tmp_path / "run.npz", psi=psi, y=psi @ [1.0, 2.0, 3.0])
    assert run("fit", tmp_path / "run.npz", "--target", "y", "--out", tmp_path / "m.json").exit_code == 0
    model = Model.load(tmp_path / "m.json")
    assert model.features == ("psi[0]", "psi[1]", "psi[2]")
    assert model.coef[0] == pytest.approx([1, 2, 3], abs=1e-3)
    printed = run("predict", tmp_path / "m.json", tmp_path / "run.npz", "--json")
    assert json.loads(printed.stdout)["prediction"] == pytest.approx(psi @ [1.0, 2.0, 3.0], abs=1e-2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_that_diverges_ends_with_4_and_writes_no_model(run, tmp_path, data):
    given = ("fit", data, "--target", "heat", "--features", "x,z", "--step", 1e4, "--out", tmp_path / "model.json")
    result = run(*given)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith("Diverged in 1 of 1 epochs")
    assert not (tmp_path / "model.json").exists()
    printed = run(*given, "--json")
    assert printed.exit_code == 4
    assert json.loads(printed.stdout)["fitted"]["ok"] is False


@pytest.fixture
def apart(tmp_path):
    """Two classes that a line tells apart."""
    rng = np.random.default_rng(7)
    load, heat = rng.standard_normal((2, 400))
    np.savez(tmp_path / "apart.npz", load=load, heat=heat, fails=(load > heat).astype(int))
    return tmp_path / "apart.npz"


def test_a_run_that_has_not_converged_ends_with_5_and_says_what_to_do(run, tmp_path, apart):
    given = ("fit", apart, "--target", "fails", "--model", "logistic", "--out", tmp_path / "model.json")
    result = run(*given, "--alpha", 0)
    assert result.exit_code == 5
    assert "Not converged: " in result.stdout
    assert "Give a small --alpha" in result.stdout
    assert result.stderr == "This is not the fit of the record: it has not converged.\n"
    assert json.loads((tmp_path / "model.json").read_text())["fitted"]["converged"] is False
    again = run("predict", tmp_path / "model.json", apart, "--out", tmp_path / "out.csv")
    assert again.exit_code == 0
    assert "is of a fit that has not converged" in again.stderr
    printed = run(*given, "--alpha", 0, "--json")
    assert printed.exit_code == 5
    fitted = json.loads(printed.stdout)["fitted"]
    assert (fitted["ok"], fitted["converged"], fitted["distance"]) == (False, False, None)
    assert printed.stderr.startswith("Not converged: ")
    assert run(*given).exit_code == 0


def test_steps_that_stop_short_say_how_far_they_are(run, data):
    result = run("fit", data, "--target", "heat", "--features", "x,z", "--step", 1e-4, "--json")
    assert result.exit_code == 5
    fitted = json.loads(result.stdout)["fitted"]
    assert fitted["distance"] > 0.1
    assert not fitted["converged"]


def test_converged_fits_say_so(run, data):
    fitted = json.loads(run("fit", data, "--target", "heat", "--features", "x,z", "--json").stdout)["fitted"]
    assert (fitted["ok"], fitted["converged"], fitted["free"]) == (True, True, [])
    assert 0 <= fitted["distance"] <= 0.1


def test_columns_that_are_free_go_by_their_names(run, tmp_path):
    rng = np.random.default_rng(8)
    north, east = rng.integers(-4, 5, (2, 600)).astype(float)
    heat = north + rng.standard_normal(600)
    np.savez(tmp_path / "free.npz", north=north, east=east, both=north + east, one=np.ones(600), heat=heat)
    given = ("fit", tmp_path / "free.npz", "--target", "heat", "--alpha", 0, "--features", "north,east,both,one")
    result = run(*given, "--no-standardize", "--report", tmp_path / "page.html")
    assert result.exit_code == 0
    assert "'north', 'east', 'both' are combinations of one another" in result.stdout
    assert "'one', '(intercept)' are combinations of one another" in result.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    free = "&#39;one&#39;, &#39;(intercept)&#39; are combinations"
    assert page.count(free) == 1  # on the model's tab and on the run's
    fitted = json.loads(run(*given, "--json").stdout)["fitted"]
    assert fitted["free"] == [["north", "east", "both"], ["one"]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--target", "heet"], "has no column 'heet'; did you mean 'heat'?"),
        (["--target", "place"], "the target 'place' holds text; classes are for --model logistic"),
        (["--target", "heat", "--features", "x,heat"], "the target 'heat' is among the features"),
        (["--target", "heat", "--time", "x"], "not in time order"),
        (
            ["--target", "heat", "--model", "logistic", "--features", "x"],
            "the target 'heat' has 4000 different values in 4000 rows; numbers are for",
        ),
        (["--target", "x", "--model", "poisson"], "counts are at least 0"),
        (["--target", "heat", "--memory", "much"], "memory must be a size"),
    ],
)
def test_what_cannot_be_used_is_named(run, data, arguments, text):
    result = run("fit", data, *arguments)
    assert result.exit_code == 3, result.stderr
    assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_target_or_a_model_that_is_none_is_not_understood(run, data):
    assert run("fit", data).exit_code == 2
    assert run("fit", data, "--target", "heat", "--model", "cubic").exit_code == 2


@pytest.mark.parametrize("kind", list(EXACT))
def test_the_file_carries_what_the_estimator_says_of_its_coefficients(run, tmp_path, data, columns, kind):
    target, _ = EXACT[kind]
    estimator = {"linear": mr.MERRegressor, "logistic": mr.MERClassifier, "poisson": mr.MERPoissonRegressor}[kind]()
    rows = np.column_stack([columns["x"], columns["z"]])
    estimator.set_params(warn_autocorrelation=False).fit(rows, columns[target])
    given = ("fit", data, "--target", target, "--model", kind, "--features", "x,z", "--level", 0.9)
    found = json.loads(run(*given, "--json").stdout)["inference"]
    assert (found["level"], found["by"], len(found["tables"])) == (0.9, "BatchMeans()", 1)
    table = found["tables"][0]["coefficients"]
    assert [row["name"] for row in table] == ["x", "z", "(intercept)"]
    error = [*np.ravel(estimator.coef_se_), *np.ravel(estimator.intercept_se_)]
    assert [row["standard_error"] for row in table] == pytest.approx(error)
    assert np.allclose([[row["low"], row["high"]] for row in table], estimator.conf_int(0.9))
    assert [row["effective"] for row in table] == pytest.approx(estimator.uncertainties_[0].effective)
    text = run(*given).stdout
    assert "90 % from" in text
    assert all(name in text for name in ("standard error", "effective", " t ", " p "))


def rare_file(tmp_path):
    rng = np.random.default_rng(31)
    load, storm = rng.standard_normal(3000), (rng.random(3000) < 0.002) * 1.0
    wear = load - 2 * storm + rng.standard_normal(3000)
    parquet.write_table(pa.table({"load": load, "storm": storm, "wear": wear}), tmp_path / "rare.parquet")
    return tmp_path / "rare.parquet"


def test_what_is_doubtful_is_marked_and_said_in_a_sentence(run, tmp_path):
    result = run("fit", rare_file(tmp_path), "--target", "wear")
    assert result.exit_code == 0
    assert result.stderr == ""
    said = re.findall(
        r"has seen too little of storm to rely on its interval: about (\d+) independent visits\.", result.stdout
    )
    assert len(said) == 1
    marked = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["storm"])
    assert f"about {said[0]} visits" in marked
    printed = run("fit", rare_file(tmp_path), "--target", "wear", "--json")
    table = json.loads(printed.stdout)["inference"]["tables"][0]
    why = f"about {said[0]} independent visits"
    assert table["doubts"] == f"the record has seen too little of storm to rely on its interval: {why}"
    assert table["coefficients"][1]["mark"] == f"{why}: do not rely on this interval"
    assert table["coefficients"][0]["mark"] == ""


def test_numbers_that_json_has_no_name_for_are_null(run, tmp_path):
    """A column twice: without a penalty nothing is known of either, but of their sum it is."""
    rng = np.random.default_rng(32)
    x = rng.standard_normal(600)
    np.savez(tmp_path / "twice.npz", x=x, again=x, y=x + rng.standard_normal(600))
    out = tmp_path / "model.json"
    text = run("fit", tmp_path / "twice.npz", "--target", "y", "--alpha", 0, "--out", out).stdout
    assert text.count("not known") == 2
    table = json.loads(out.read_text(), parse_constant=pytest.fail)["inference"]["tables"][0]["coefficients"]
    assert [row["standard_error"] is None for row in table] == [True, True, False]
    np.savez(tmp_path / "new.npz", x=np.array([1.0, 1.0]), again=np.array([1.0, 0.0]))
    given = ("predict", out, tmp_path / "new.npz", "--interval", "--json")
    low = json.loads(run(*given).stdout)["low"]
    assert low[0] == pytest.approx(1.0, abs=0.3)
    assert low[1] is None  # 1 of the one and 0 of the other was never seen


def test_at_most_forty_rows(run, tmp_path):
    X = np.random.default_rng(33).standard_normal((1200, 110)) * np.arange(1, 111)
    named = {f"c{i}": X[:, i] for i in range(110)}
    parquet.write_table(pa.table({**named, "y": X[:, 7] + X[:, 90]}), tmp_path / "wide.parquet")
    lines = run("fit", tmp_path / "wide.parquet", "--target", "y", "--holdout", 0).stdout.splitlines()
    names = [line.split()[0] for line in lines if line.strip() and line.split()[0] in (*named, "(intercept)")]
    assert len(names) == 41
    assert {"c7", "c90", "(intercept)"} <= set(names)
    assert "70 smaller coefficients are not shown." in lines


def test_a_table_for_each_of_three_classes(run, tmp_path, columns):
    size = np.digitize(columns["x"], [-1.0, 1.0]).astype(str)
    parquet.write_table(pa.table({"z": columns["z"], "size": size}), tmp_path / "size.parquet")
    given = ("fit", tmp_path / "size.parquet", "--target", "size", "--model", "logistic")
    text = run(*given).stdout
    assert [f"size, logistic, {name}" in text for name in "012"] == [True] * 3
    assert len(json.loads(run(*given, "--json").stdout)["inference"]["tables"]) == 3


@pytest.fixture
def dated(tmp_path):
    """A record with dates, a gap of 30 days among them, and as it is from its end."""
    hours = np.datetime64("2024-01-01T00:00:00") + np.arange(600) * np.timedelta64(1, "h")
    hours[300:] += np.timedelta64(30, "D")
    x = dict(zip("abcdef", np.random.default_rng(0).standard_normal((6, 600)), strict=True))
    table = pa.table({"when": hours, **x, "y": 3 * x["a"] + x["b"]})
    parquet.write_table(table, tmp_path / "gap.parquet")
    parquet.write_table(table.take(np.arange(600)[::-1]), tmp_path / "back.parquet")
    return tmp_path


@pytest.mark.parametrize("how", [(), ("--workers", 1)])
@pytest.mark.parametrize("command", [("fit", "--target", "y", "--features"), ("diagnose", "--columns")])
def test_the_one_column_of_dates_is_the_time_whatever_else_is_asked_for(run, dated, command, how):
    back = run(command[0], dated / "back.parquet", *command[1:], "a,b,c,d,e", *how)
    assert (back.exit_code, "not in time order" in back.output) == (3, True), back.output
    gap = run(command[0], dated / "gap.parquet", *command[1:], "a,b,c,d,e", *how)
    assert "1 gap in 'when'" in " ".join(gap.output.split()), gap.output
    if command[0] == "fit":
        found = json.loads(run("fit", dated / "gap.parquet", *command[1:], "a", *how, "--json").stdout)
        assert (found["fitted"]["time"], found["fitted"]["chains"]) == ("when", 2)


def test_two_columns_of_dates_are_no_time_and_numbers_of_seconds_may_be_one(run, tmp_path):
    x, noise = np.random.default_rng(0).standard_normal((2, 200))
    times = 1_700_000_000 + 60 * np.arange(200)
    for name, more in (("one", {}), ("two", {"date": times[::-1]})):
        np.savez(tmp_path / f"{name}.npz", time=times, x=x, y=x + noise, **more)
        made = run("fit", tmp_path / f"{name}.npz", "--target", "y", "--features", "x", "--json")
        assert json.loads(made.stdout)["fitted"]["time"] == ("time" if name == "one" else None)
