"""Columns with names that mean something to Rich, to a terminal, or to Python."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import multireplay as mr
from multireplay.cli.data_file import DataFile
from multireplay.cli.options import ModelKind
from multireplay.cli.prepared import Wanted, prepare

NAMES = ["self", "names", "pressure[bar]", "[/]", "[bold]", "esc\x1b[2J\x9b31m\u202eend"]


@pytest.fixture
def odd(tmp_path):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((300, len(NAMES)))
    target = rows @ np.arange(1.0, len(NAMES) + 1) + 0.1 * rng.standard_normal(300)
    with (tmp_path / "odd[red].csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*NAMES, "[y]"])
        writer.writerows([*row, value] for row, value in zip(rows, target, strict=True))
    return tmp_path / "odd[red].csv"


def clean(result):
    """All that is printed, if it has no order to a terminal in it."""
    text = result.stdout + result.stderr
    assert not [letter for letter in text if letter != "\n" and not (letter.isprintable() or letter == " ")], text
    assert "\u202e" not in text
    return text


def test_odd_names_are_printed_as_they_are(run, odd, tmp_path):
    out = tmp_path / "[model].json"
    result = run("fit", odd, "--target", "[y]", "--out", out)
    assert result.exit_code == 0, result.stderr
    text = clean(result)
    assert "[y], linear" in text
    assert f"Model: {out}" in text.replace("\n", "")
    for name in ("self", "pressure[bar]", "[/]", "[bold]", r"esc\x1b[2J\x9b31m\u202eend"):
        assert f" {name} " in text
        assert name in clean(run("diagnose", odd))
    result = run("predict", out, odd, "--out", tmp_path / "p.csv")
    assert "predictions of '[y]'" in clean(result)
    assert result.exit_code == 0


def test_inspect_prints_odd_names_as_they_are(run, odd, tmp_path):
    out = tmp_path / "[model].json"
    assert run("fit", odd, "--target", "[y]", "--holdout", 0, "--out", out).exit_code == 0
    for path, said in ((odd, "A record of 300 rows"), (out, "A linear model of '[y]'")):
        result = run("inspect", path)
        assert result.exit_code == 0, result.stderr
        text = clean(result)
        assert said in text
        for name in ("self", "names", "pressure[bar]", "[/]", "[bold]", r"esc\x1b[2J\x9b31m\u202eend"):
            assert f" {name} " in text
        result = run("inspect", path, "--json")
        clean(result)
        found = json.loads(result.stdout)
        assert [one["name"] for one in found.get("columns" if path == odd else "coefficients")][: len(NAMES)] == NAMES


def test_inspect_prints_odd_cells_as_they_are(run, tmp_path):
    levels = ["[red]a[/red]", "esc\x1b[2J", "self"]
    with (tmp_path / "d.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["[/k]", "y"], *([levels[k % 3], k % 7 + (k % 3)] for k in range(60))])
    assert run("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.json").exit_code == 0
    for name in ("d.csv", "m.json"):
        text = clean(run("inspect", tmp_path / name))
        for said in ("[red]a[/red]", r"esc\x1b[2J", "self", "[/k]"):
            assert said in text


def test_odd_names_in_errors_and_json(run, odd):
    result = run("fit", odd, "--target", "[/]no\x1b[2J")
    assert result.exit_code == 3
    assert r"pressure[bar], [/], [bold], esc\x1b[2J\x9b31m" in clean(result)
    result = run("diagnose", odd, "--json")
    clean(result)
    assert [column["name"] for column in json.loads(result.stdout)["columns"]] == [*NAMES, "[y]"]


def test_a_column_called_self():
    assert mr.Buffer(**{"self": [1.0, 2.0], "a": [3.0, 4.0]})["self"].tolist() == [1.0, 2.0]


def test_tables_of_the_library_print_names_as_they_are():
    from multireplay.show.text import TextTable

    text = str(TextTable([{"name[x]": "[/]", "b": "a\x1b[2Jb"}], title="[red]t"))
    for said in ("[red]t", "name[x]", "[/]", r"a\x1b[2Jb"):
        assert said in text


def test_work_grows_with_the_columns_not_with_their_square(tmp_path, monkeypatch):
    """Names, widths and features of a wide file are listed once, however many of them are asked for."""
    count = 300
    np.savez(tmp_path / "wide.npz", **{f"c{place}": np.arange(3.0) for place in range(count)})
    file, listed = DataFile.open(tmp_path / "wide.npz", "1 GB"), []
    for name in ("fields", "refused"):
        monkeypatch.setattr(file.source, name, Counting(getattr(file.source, name), listed))
    assert prepare(file, Wanted("c7", ModelKind.linear)).matrix.shape == (3, count - 1)
    assert len(listed) < 30


class Counting(dict):
    """A dictionary that notes when it is gone through."""

    def __init__(self, values, listed):
        super().__init__(values)
        self.listed = listed

    def __iter__(self):
        self.listed.append("names")
        return super().__iter__()

    def items(self):
        self.listed.append("items")
        return super().items()
