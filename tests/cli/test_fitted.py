"""What `fit` shows: a page in the units of the file with every class, and a terminal that stays readable."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from multireplay.cli import fitted
from multireplay.report import Choice, Plot, Text
from multireplay.report.blocks import TableBlock
from multireplay.show.text import render

CLASSES, WIDTH, ROWS = 15, 110, 400


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """15 classes from 110 columns with long names."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((ROWS, WIDTH)) * 10.0 ** rng.integers(-2, 3, WIDTH)
    label = (X / X.std(axis=0) @ rng.standard_normal((WIDTH, CLASSES)) + 5 * rng.gumbel(size=(ROWS, CLASSES))).argmax(1)
    named = {f"sensor number {i} of the plant": X[:, i] for i in range(WIDTH)}
    path = tmp_path_factory.mktemp("wide") / "wide.parquet"
    parquet.write_table(pa.table({**named, "state": [f"state {i}" for i in label]}), path)
    return path


@pytest.fixture
def sections(monkeypatch):
    """The tabs of the page that was written last, by title."""
    kept, write = {}, fitted.write

    def keep(path, title, tabs, subtitle=""):
        kept.clear()
        kept.update({tab.title: tab for tab in tabs})
        return write(path, title, tabs, subtitle)

    monkeypatch.setattr(fitted, "write", keep)
    return kept


@pytest.fixture
def scaled(tmp_path, columns):
    """Features of very different sizes and far from 0."""
    path = tmp_path / "scaled.csv"
    table = {"small": columns["x"] / 1000 + 5, "large": 500 * columns["z"] + 1e4, "heat": columns["heat"]}
    table["noisy"] = columns["heat"] + 30 * np.random.default_rng(4).standard_normal(len(columns["heat"]))
    table["size"] = np.digitize(columns["x"], [-1.0, 1.0]).astype(str)
    csv.write_csv(pa.table(table), path)
    return path


def tables(section):
    return [block for block in section.blocks if isinstance(block, TableBlock)]


def test_no_tab_shows_standardized_coefficients(run, tmp_path, scaled, sections):
    given = ("--features", "small,large", "--passes", 1, "--step", 0.01)  # whose answer is not the exact fit
    done = run("fit", scaled, "--target", "heat", *given, "--out", tmp_path / "m.json", "--report", tmp_path / "r.html")
    model = json.loads((tmp_path / "m.json").read_text())
    wanted = dict(zip([*model["features"], "(intercept)"], [*model["coef"], model["intercept"]], strict=True))
    shown = tables(sections["Fit"])[0].rows
    assert {row["name"]: row["coefficient"] for row in shown} == pytest.approx(wanted), done.output
    for tab in sections.values():
        for table in tables(tab):
            if {"coordinate", "value"} <= set(table.names):
                assert {row["coordinate"]: row["value"] for row in table.rows} == pytest.approx(wanted)
                assert "units of your columns" in table.caption
    for title in ("Convergence", "Comparison", "Repeat"):
        said = " ".join(block.text for block in sections[title].blocks if isinstance(block, Text))
        assert "mean 0 and standard deviation 1" in said
    assert "Model" not in sections


def test_a_page_opens_on_the_coefficients_with_intervals(run, tmp_path, scaled, sections):
    run("fit", scaled, "--target", "noisy", "--features", "small,large", "--report", tmp_path / "r.html")
    first = sections["Fit"].blocks[0]
    assert isinstance(first, Plot)
    assert list(first.figure.layout.yaxis.ticktext) == ["small", "large", "(intercept)"]
    assert "95 % under dependence" in {trace.name for trace in first.figure.data}
    replay = sections["Replay"]
    assert not replay.plots
    said = " ".join(block.text for block in replay.blocks if isinstance(block, Text))
    assert "Nothing was replayed" in said
    assert "Why:" in said


def test_every_class_has_its_coefficients(run, tmp_path, scaled, sections):
    out, page = tmp_path / "m.json", tmp_path / "r.html"
    given = ("--model", "logistic", "--features", "small,large", "--out", out, "--report", page)
    run("fit", scaled, "--target", "size", *given)
    model, choice = json.loads(out.read_text()), sections["Fit"].blocks[0]
    assert isinstance(choice, Choice)
    assert list(choice.groups) == ["0", "1", "2"]
    for (plot, table, *_), coef, end in zip(choice.groups.values(), model["coef"], model["intercept"], strict=True):
        assert isinstance(plot, Plot)
        assert [row["coefficient"] for row in table.rows] == pytest.approx([*coef, end])
    assert all(f'<option value="{i}">{i}</option>' in page.read_text(encoding="utf-8") for i in range(3))


def test_fifteen_classes_and_110_columns(run, tmp_path, wide, monkeypatch):
    """Also where all of them have a note, as with few rows."""
    page = tmp_path / "r.html"
    given = ("--model", "logistic", "--holdout", 0, "--alpha", 0.1, "--out", tmp_path / "m.json", "--report", page)
    text = run("fit", wide, "--target", "state", *given).stdout
    assert page.stat().st_size < 2_000_000
    whole = page.read_text(encoding="utf-8")
    assert all(f">state {i}</option>" in whole for i in range(CLASSES))
    lines = text.splitlines()
    assert len(lines) < 100
    assert all(any(line.startswith(f" state {i} ") for line in lines) for i in range(CLASSES))
    assert "107 smaller coefficients of every class are not shown." in text


def test_a_narrow_terminal_cuts_no_name(run, tmp_path, wide, monkeypatch):
    kept = []
    monkeypatch.setattr(fitted, "terminal", lambda: kept.append(made := Recorder()) or made)
    given = ("--model", "logistic", "--holdout", 0, "--alpha", 0.1, "--features", "sensor number 5 of the plant")
    run("fit", wide, "--target", "state", *given)
    narrow = render(kept[0].printed[0], width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    assert "…" not in narrow
    assert "sensor number 5" in narrow


def test_a_long_reason_cuts_no_name(run, tmp_path):
    """Where one stretch tells nearly all there was no room for the names of the coefficients, nor for the reason."""
    rng = np.random.default_rng(7)
    frame = {"temperature outside": 20 + rng.standard_normal(3000), "wind": rng.standard_normal(3000)}
    frame["storm"] = (np.arange(3000) == 1500) * 1.0
    frame["load"] = frame["wind"] + rng.standard_normal(3000)
    csv.write_csv(pa.table(frame), tmp_path / "storm.csv")
    text = run("fit", tmp_path / "storm.csv", "--target", "load", "--holdout", 0).stdout
    lines = [line for line in text.splitlines() if line.startswith((" temperature outside ", " wind ", " storm "))]
    assert len(lines) == 3
    assert re.search("(one or two stretches|about 1 visit) *$", lines[2])
    assert "has seen too little of storm to rely on its interval: " in " ".join(text.split())


def test_predictions_know_what_only_the_penalty_settles(run, tmp_path):
    """Columns that say the same: their sum is known, and rows where they do not say the same are not."""
    rng = np.random.default_rng(8)
    hum = rng.standard_normal(2000)
    load = hum + rng.standard_normal(2000)
    csv.write_csv(pa.table({"hum": hum, "percent": 100 * hum, "load": load}), tmp_path / "old.csv")
    text = run("fit", tmp_path / "old.csv", "--target", "load", "--out", tmp_path / "m.json").stdout
    assert text.count("by the penalty") == 2
    assert "too little of hum, percent to rely on their intervals: only the penalty settles it" in text
    csv.write_csv(pa.table({"hum": [1.0, 1.0], "percent": [100.0, 0.0]}), tmp_path / "new.csv")
    for table, said in (("old.csv", None), ("new.csv", "1 of 2 predictions uses combinations that only the penalty")):
        given = ("predict", tmp_path / "m.json", tmp_path / table, "--interval", "--json")
        found = json.loads(run(*given).stdout)["doubtful"]["sentence"]
        assert found is None if said is None else found.startswith(said)


@pytest.mark.parametrize("model", ["logistic", "poisson"])
def test_what_runs_away_without_the_penalty_is_marked(run, tmp_path, model):
    rng = np.random.default_rng(9)
    frame = {"hum": rng.standard_normal(5000), "closed": (np.arange(5000) % 25 == 0) * 1.0}
    frame["sold"] = rng.poisson(1.0, 5000) * (1 - frame["closed"])
    if model == "logistic":
        frame["sold"] = np.minimum(frame["sold"], 1)
    csv.write_csv(pa.table(frame), tmp_path / "shop.csv")
    text = run("fit", tmp_path / "shop.csv", "--target", "sold", "--model", model, "--holdout", 0).stdout
    line = next(line for line in text.splitlines() if line.startswith(" closed "))
    assert "by the penalty" in line
    assert "too little of closed to rely on its interval: only the penalty settles it" in " ".join(text.split())


class Recorder:
    """A console that keeps what it is given."""

    is_terminal = True

    def __init__(self):
        self.printed = []

    def print(self, what, **options):
        self.printed.append(what)


def test_predictions_carry_id_and_time(run, tmp_path):
    rng = np.random.default_rng(11)
    x = rng.standard_normal(400)
    when = [f"2024-01-{1 + i // 40:02d} {i % 20:02d}:00" for i in range(400)]
    series = np.repeat(["a", "b"], 20)[np.arange(400) % 40]
    key = [f"row-{i}" for i in range(400)]
    order = np.lexsort((when, series))
    table = {"key": key, "series": series, "when": when, "x": x, "y": 2 * x + rng.standard_normal(400)}
    csv.write_csv(pa.table(table).take(order), tmp_path / "d.csv")
    given = ("--target", "y", "--time", "when", "--group", "series", "--out", tmp_path / "m.json")
    done = run("fit", tmp_path / "d.csv", *given)
    assert done.exit_code == 0, done.output
    run("predict", tmp_path / "m.json", tmp_path / "d.csv", "--out", tmp_path / "p.csv")
    found = csv.read_csv(tmp_path / "p.csv")
    assert found.column_names == ["series", "when", "key", "prediction"]
    assert found.column("key").to_pylist() == [key[i] for i in order]
    assert found.column("series").to_pylist() == series[order].tolist()


def test_the_page_of_predictions_has_every_class(run, tmp_path, scaled):
    out = tmp_path / "m.json"
    run("fit", scaled, "--target", "size", "--model", "logistic", "--features", "small,large", "--out", out)
    run("predict", out, scaled, "--out", tmp_path / "p.csv", "--report", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for value in np.ravel(json.loads(out.read_text())["coef"]):
        assert f'data-value="{float(value)!r}"' in page


def words_of(section):
    return " ".join(block.text for block in section.blocks if isinstance(block, Text))


def test_the_page_has_the_level_that_was_asked_for(run, tmp_path, scaled, sections):
    given = ("--target", "noisy", "--features", "small,large", "--report", tmp_path / "r.html")
    printed = json.loads(run("fit", scaled, *given, "--level", 0.8, "--json").stdout)
    plot = sections["Fit"].blocks[0]
    assert {"80 % under dependence", "80 % if rows were independent"} <= {trace.name for trace in plot.figure.data}
    rows = printed["inference"]["tables"][0]["coefficients"]
    assert [row["80 % from"] for row in tables(sections["Fit"])[0].rows] == pytest.approx([row["low"] for row in rows])
    narrow = {plot.title: plot for plot in sections["Fit"].plots}["Fitted against actual"]
    assert "with their 80 % intervals" in narrow.caption
    assert "95 %" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    run("fit", scaled, *given, "--force")
    wide = {plot.title: plot for plot in sections["Fit"].plots}["Fitted against actual"]
    halves = [plot.figure.data[-1].error_y.array for plot in (narrow, wide)]
    assert (halves[0] < 0.8 * halves[1]).all()


def test_two_classes_go_by_their_names(run, tmp_path, data, sections):
    page = tmp_path / "r.html"
    given = ("--target", "fails", "--model", "logistic", "--features", "x,z", "--out", tmp_path / "m.json")
    run("fit", data, *given, "--report", page)
    figure = {plot.title: plot for plot in sections["Fit"].plots}["Fitted probabilities by outcome"].figure
    assert [trace.name for trace in figure.data] == ["rows with no", "rows with yes"]
    run("predict", tmp_path / "m.json", data, "--report", page, "--force", "--out", tmp_path / "p.csv")
    assert '"rows with no"' in page.read_text(encoding="utf-8")


def test_a_page_speaks_of_features_where_classes_are_fitted_together(run, tmp_path, columns, sections):
    storm = np.zeros(len(columns["x"]))
    storm[[100, 101, 1500, 1501, 3000, 3001]] = 1.0
    size = np.digitize(columns["x"] + columns["z"] - 5, [-1.0, 1.0])
    csv.write_csv(pa.table({"x": columns["x"], "storm": storm, "size": size}), tmp_path / "d.csv")
    given = ("--target", "size", "--model", "logistic", "--report", tmp_path / "r.html")
    run("fit", tmp_path / "d.csv", *given)
    said = words_of(sections["Fit"])
    assert "too little of storm to rely on its interval" in said
    assert "contrast" not in said


def test_counts_over_an_exposure_are_rates(run, tmp_path, data, columns, sections):
    hours = 1 + np.random.default_rng(2).random(len(columns["x"]))
    table = {"x": columns["x"], "count": columns["count"], "hours": hours}
    csv.write_csv(pa.table(table), tmp_path / "d.csv")
    given = ("--target", "count", "--model", "poisson", "--report", tmp_path / "r.html", "--force", "--features", "x")
    run("fit", tmp_path / "d.csv", *given, "--exposure", "hours")
    assert "Mean rates by group" in {plot.title for plot in sections["Fit"].plots}
    run("fit", tmp_path / "d.csv", *given)
    assert "Mean counts by group" in {plot.title for plot in sections["Fit"].plots}
