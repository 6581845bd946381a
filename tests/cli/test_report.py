"""--report on every command: one page, which says how to repeat it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

pytest.importorskip("plotly")
pytest.importorskip("jinja2")


def page_of(run, path, *arguments):
    result = run(*arguments, "--report", path)
    assert result.exit_code == 0, result.stderr
    assert f"Report: {path}" in result.stderr
    text = path.read_text(encoding="utf-8")
    assert f"multireplay {arguments[0]}" in text
    return text


def test_diagnose(run, tmp_path, data):
    assert "data.csv" in page_of(run, tmp_path / "page.html", "diagnose", data, "--columns", "x,z")


def test_fit(run, tmp_path, data):
    text = page_of(run, tmp_path / "page.html", "fit", data, "--target", "heat", "--features", "x,z")
    assert "heat from data.csv" in text
    assert "R² = 0.99" in text
    assert "(intercept)" in text


def test_evaluate(run, tmp_path):
    pytest.importorskip("gymnasium")
    arguments = ("evaluate", "--env", "CartPole-v1", "--steps", 1000, "--check", 10)  # of four numbers two are drawn
    text = page_of(run, tmp_path / "page.html", *arguments)
    assert "Monte Carlo check" in text


PICTURES = {
    "heat": ("Predictions, row by row", "Fitted against actual", "Residuals over time", "Autocorrelation of the"),
    "count": ("Predictions, row by row", "Mean counts by group", "Residuals over time"),
    "fails": ("Probability of yes, row by row", "Rows by class", "Calibration", "Fitted probabilities by outcome"),
    "size": ("Rows by class", "Probability of the predicted class", "Calibration"),
}


@pytest.mark.parametrize("target", PICTURES)
@pytest.mark.parametrize("known", [True, False])
def test_predict(run, tmp_path, columns, target, known):
    size = np.array(["small", "middle", "large"])[np.digitize(columns["x"] + np.cos(columns["z"]), [-1.0, 1.0])]
    kind = {"heat": "linear", "count": "poisson"}.get(target, "logistic")
    both = {"when": np.datetime64("2024-01-01") + columns["when"], "x": columns["x"], "z": columns["z"]}
    csv.write_csv(pa.table({**both, target: {**columns, "size": size}[target]}), tmp_path / "d.csv")
    csv.write_csv(pa.table(both), tmp_path / "new.csv")
    model, page = tmp_path / "m.json", tmp_path / "page.html"
    run("fit", tmp_path / "d.csv", "--target", target, "--model", kind, "--holdout", 0, "--out", model)
    data = tmp_path / ("d.csv" if known else "new.csv")
    text = page_of(run, page, "predict", model, data, "--out", tmp_path / "p.csv", "--interval")
    assert page.stat().st_size < 2e6
    first, *rest = PICTURES[target]
    main = text[text.index("<main") :]
    assert main.index(f">{first}") < main.index("predictions of")  # it opens on a picture
    told = [title for title in rest if f">{title}" in main]
    assert told == rest if known else set(told) <= {"Rows by class", "Probability of the predicted class"}
    assert ("against the column" in main) == known
    assert "2024-01-0" in main  # over time, in dates


def test_predict_nothing(run, tmp_path, data):
    run("fit", data, "--target", "heat", "--features", "x,z", "--out", tmp_path / "m.json")
    (tmp_path / "new.csv").write_text("x,z\n,1\n2,\n")
    text = page_of(run, tmp_path / "page.html", "predict", tmp_path / "m.json", tmp_path / "new.csv")
    assert "0 predictions of heat" in text


def test_a_report_that_cannot_be_written_is_said_before_the_work(run, tmp_path, data):
    result = run("diagnose", data, "--report", tmp_path)
    assert result.exit_code == 2
    assert "is a folder" in " ".join(result.stderr.replace("│", " ").split())  # it may be broken into lines
