"""--report on every command: one page, which says how to repeat it."""

from __future__ import annotations

import pytest

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


def test_predict(run, tmp_path, data):
    run("fit", data, "--target", "heat", "--features", "x,z", "--out", tmp_path / "m.json")
    arguments = ("predict", tmp_path / "m.json", data, "--out", tmp_path / "p.csv")
    assert "R²" in page_of(run, tmp_path / "page.html", *arguments)


def test_a_report_that_cannot_be_written_is_said_before_the_work(run, tmp_path, data):
    result = run("diagnose", data, "--report", tmp_path)
    assert result.exit_code == 2
    assert "is a folder" in " ".join(result.stderr.replace("│", " ").split())  # it may be broken into lines
