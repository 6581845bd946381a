"""Outputs: never over an input, over what is there only if asked, whole or not at all, checked before the work."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from small_disk import small_disk

from multireplay.cli.model import Model, ModelKind
from multireplay.cli.outputs import check_outputs, is_ours
from multireplay.errors import InputError
from multireplay.show.plotting import save_figure

LINEAR = Model(ModelKind.linear, "heat", ("x", "z"), np.array([[3.0, -1.0]]), np.array([7.0]))


@pytest.fixture
def model(tmp_path):
    LINEAR.save(tmp_path / "model.json")
    return tmp_path / "model.json"


@pytest.fixture
def no_work(monkeypatch):
    """Whatever begins to read fails in another way."""

    def fail(*_):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("multireplay.cli.data_file.find_source", fail)
    monkeypatch.setattr(Model, "load", fail)


def same(path, data):
    return path


def linked(path, data):
    (path.parent / "link.csv").symlink_to(path)
    return path.parent / "link.csv"


def hard_linked(path, data):
    os.link(path, path.parent / "hard.csv")
    return path.parent / "hard.csv"


def roundabout(path, data):
    (path.parent / "inner").mkdir()
    return path.parent / "inner" / ".." / path.name


@pytest.mark.parametrize("way", [same, linked, hard_linked, roundabout])
@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "{data}", "--target", "heat", "--out", "{out}"],
        ["fit", "{data}", "--target", "heat", "--report", "{out}"],
        ["predict", "{model}", "{data}", "--out", "{out}"],
        ["predict", "{model}", "{data}", "--out", "{out}", "--memory", "20 MB"],
        ["predict", "{model}", "{data}", "--report", "{out}"],
        ["diagnose", "{data}", "--report", "{out}"],
    ],
)
def test_an_input_is_never_written_over(run, data, model, no_work, way, force, command):
    before = data.read_bytes()
    out = way(data, data)
    result = run(*[part.format(data=data, model=model, out=out) for part in command], *force)
    assert result.exit_code == 3
    assert f"would write over {data}, which the command needs" in result.stderr
    assert data.read_bytes() == before


def test_nor_the_model_that_predicts_nor_a_policy(run, data, model, tmp_path):
    shutil.copy(model, tmp_path / "model.csv")
    before = model.read_bytes()
    for given in (["--out", tmp_path / "model.csv"], ["--report", tmp_path / "model.csv"]):
        assert run("predict", tmp_path / "model.csv", data, *given, "--force").exit_code == 3
    assert (tmp_path / "model.csv").read_bytes() == before
    policy = tmp_path / "mine.py"
    policy.write_text("def act(state): return 0\n")
    result = run("evaluate", "--env", "CartPole-v1", "--policy", f"{policy}:act", "--plot", policy, "--force")
    assert result.exit_code == 3
    assert "would write over" in result.stderr


def test_nor_a_part_of_a_folder_that_is_read(run, tmp_path, columns, model, no_work):
    folder = tmp_path / "parts"
    folder.mkdir()
    parquet.write_table(pa.table({"x": columns["x"], "z": columns["z"]}), folder / "part-0.parquet")
    os.link(folder / "part-0.parquet", tmp_path / "outside.parquet")
    for out in (folder / "part-0.parquet", folder / "part-1.parquet", tmp_path / "outside.parquet"):
        result = run("predict", model, folder, "--out", out, "--force")
        assert result.exit_code == 3
        assert "would write over" in result.stderr
    assert os.listdir(folder) == ["part-0.parquet"]
    check_outputs(False, [folder], out=folder / "model.json")  # which is not read there


def test_what_is_there_needs_force_unless_it_is_ours(run, data, tmp_path):
    given = ("fit", data, "--target", "heat", "--features", "x,z", "--holdout", 0)
    mine = tmp_path / "mine.json"
    mine.write_text('{"a": 1}')
    result = run(*given, "--out", mine)
    assert result.exit_code == 3
    assert f"--out {mine} is there already" in result.stderr
    assert "--force replaces it" in result.stderr
    assert mine.read_text() == '{"a": 1}'
    assert run(*given, "--out", mine, "--force").exit_code == 0
    assert is_ours(mine)
    assert run(*given, "--out", mine).exit_code == 0  # a model of before
    out = tmp_path / "p.csv"
    assert run("predict", mine, data, "--out", out).exit_code == 0
    assert run("predict", mine, data, "--out", out).exit_code == 3  # anybody's table looks like that
    assert run("predict", mine, data, "--out", out, "--force").exit_code == 0


def test_pages_and_pictures_are_known_again(run, data, tmp_path):
    from matplotlib.figure import Figure

    page = tmp_path / "page.html"
    for _ in range(2):
        assert run("diagnose", data, "--columns", "x", "--report", page).exit_code == 0
    page.write_text("<html>mine</html>")
    assert run("diagnose", data, "--columns", "x", "--report", page).exit_code == 3
    for kind in ("png", "svg"):
        save_figure(Figure(), tmp_path / f"a.{kind}")
        assert is_ours(tmp_path / f"a.{kind}")
        Figure().savefig(tmp_path / f"b.{kind}")
        assert not is_ours(tmp_path / f"b.{kind}")


def test_places_that_cannot_be_written_are_said_before_the_work(run, data, model, no_work, tmp_path, monkeypatch):
    fit = ("fit", data, "--target", "heat", "--out")
    assert "is a folder; give the name of a file" in run(*fit, tmp_path).stderr
    assert f"{data} is no folder" in run(*fit, data / "model.json").stderr
    both = run(*fit, tmp_path / "a.html", "--report", tmp_path / "inner" / ".." / "a.html")
    assert "are the same file" in both.stderr
    result = run("predict", model, data, "--out", tmp_path / "p.xlsx")
    assert "ends in .csv or .parquet" in result.stderr
    (tmp_path / "kept.json").write_text("mine")
    monkeypatch.setattr(os, "access", lambda path, how: how == os.R_OK)
    assert "protected" in run(*fit, tmp_path / "kept.json", "--force").stderr
    result = run(*fit, tmp_path / "new" / "model.json")
    assert f"nothing may be written to the folder {tmp_path}" in result.stderr
    assert result.exit_code == 3
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "kept.json", "model.json"]


def test_what_is_no_file_is_written_to(run, data):
    result = run("fit", data, "--target", "heat", "--features", "x,z", "--holdout", 0, "--out", os.devnull)
    assert result.exit_code == 0, result.stderr


def test_the_folders_of_the_bench(run, tmp_path):
    (tmp_path / "compare.csv").write_text("mine")
    result = run("compare", "--out", tmp_path)
    assert result.exit_code == 3
    assert "compare.csv is there already, and not from an earlier run: --force replaces it" in result.stderr
    result = run("demo", "--out", tmp_path / "compare.csv")
    assert result.exit_code == 3
    assert "results are written to a folder" in result.stderr
    assert (tmp_path / "compare.csv").read_text() == "mine"


def test_the_picture_of_an_evaluation_is_checked_first(run, tmp_path):
    result = run("evaluate", "--env", "CartPole-v1", "--plot", tmp_path / "value.docx")
    assert result.exit_code == 3
    assert "a picture's name ends in one of" in result.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_on_a_full_disk(run, tmp_path, data, model, suffix, monkeypatch):
    monkeypatch.setattr("multireplay.cli.data_file.BLOCK", 1000)
    out = tmp_path / f"p.{suffix}"
    assert run("predict", model, data, "--out", out).exit_code == 0
    before, there = out.read_bytes(), sorted(os.listdir(tmp_path))
    with small_disk(8000):
        result = run("predict", model, data, "--out", out, "--force")
        fresh = run("predict", model, data, "--out", tmp_path / f"new.{suffix}")
    for found in (result, fresh):
        assert found.exit_code == 1
        assert "File too large" in found.stderr
    assert f"{out}: " in result.stderr
    assert out.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == there


def test_a_model_and_a_report_on_a_full_disk(run, tmp_path, data):
    out, page = tmp_path / "m.json", tmp_path / "page.html"
    given = ("fit", data, "--target", "heat", "--features", "x,z", "--out", out, "--report", page)
    assert run(*given).exit_code == 0
    before = out.read_bytes(), page.read_bytes()
    for most in (1000, 100_000):
        with small_disk(most):
            result = run(*given)
        assert result.exit_code == 1
        assert "File too large" in result.stderr
    assert page.read_bytes() == before[1]
    assert csv.read_csv(data).num_rows == 4000
    assert Model.load(out)
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "m.json", "page.html"]


def test_two_names_are_compared_though_neither_is_there(tmp_path):
    with pytest.raises(InputError, match="are the same file"):
        check_outputs(False, [], out=tmp_path / "a", report=tmp_path / "b" / ".." / "a")
