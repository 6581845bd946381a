"""Running: the same bytes whatever the number of processes, resuming, and the command line."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from multireplay.bench import EXPERIMENTS, reproduce
from multireplay.bench.figures import CurveFigure
from multireplay.bench.reproduction import total_cost
from multireplay.cli import app


@pytest.mark.parametrize("name", ["fig2b", "fig3a", "tracking", "theory"])
def test_the_number_of_jobs_changes_no_byte(everything, by_one_process, name):
    assert (everything / f"{name}.csv").read_bytes() == (by_one_process / f"{name}.csv").read_bytes()


@pytest.mark.parametrize("name", ["fig2a", "fig3a", "tracking", "theory"])
def test_another_seed_changes_the_numbers(everything, tmp_path, name):
    reproduce([EXPERIMENTS[name]], 2, 1, 1, tmp_path, "small")
    assert (everything / f"{name}.csv").read_bytes() != (tmp_path / f"{name}.csv").read_bytes()


def test_instances_differ_and_tuning_has_its_own(everything):
    for folder in (everything / "instances").iterdir():
        contents = [path.read_bytes() for path in folder.iterdir()]
        assert len(set(contents)) == len(contents)


def test_lost_instances_only_are_worked_out_again(everything, copied):
    names = ["fig2a", "theory"]
    lost = [next((copied / "instances").glob(f"{name}-small-*/report-*-0001.npz")) for name in names]
    lost.append(lost[0].with_name("tune-0000.npz"))
    for path in [*lost, *(copied / f"{name}.csv" for name in names)]:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in (copied / "instances").rglob("*.npz")}
    told: list[float] = []
    chosen = [EXPERIMENTS[name] for name in names]
    reproduce(chosen, 2, 0, 1, copied, "small", lambda name, seconds: told.append(seconds))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert all(path.exists() for path in lost)
    for name in names:
        assert (copied / f"{name}.csv").read_bytes() == (everything / f"{name}.csv").read_bytes()
    assert sum(told) == pytest.approx(total_cost(chosen, 2, "small"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_goes_on(everything, tmp_path, monkeypatch, error):
    whole = CurveFigure.report
    worked_out = []

    def fails(self, size, seed, instance, chosen):
        if instance == 1:
            raise error
        return whole(self, size, seed, instance, chosen)

    def counts(self, size, seed, instance, chosen):
        worked_out.append(instance)
        return whole(self, size, seed, instance, chosen)

    monkeypatch.setattr(CurveFigure, "report", fails)
    with pytest.raises(error):
        reproduce([EXPERIMENTS["fig2b"]], 2, 0, 1, tmp_path, "small")
    assert not (tmp_path / "fig2b.csv").exists()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert sorted(before)[1:] == ["tune-0000.npz"]
    assert re.fullmatch(r"report-[0-9a-f]{16}-0000\.npz", min(before))

    monkeypatch.setattr(CurveFigure, "report", counts)
    reproduce([EXPERIMENTS["fig2b"]], 2, 0, 1, tmp_path, "small")
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert worked_out == [1]
    assert {name: after[name] for name in before} == before
    assert (tmp_path / "fig2b.csv").read_bytes() == (everything / "fig2b.csv").read_bytes()


def test_command_line(everything, tmp_path):
    command = ["reproduce", "fig2a", "--size", "small", "--instances", "2", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--report", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    made = {path.name for path in tmp_path.iterdir()}
    kept = {f"fig2a.{ending}" for ending in ("csv", "json", "npz", "png", "svg")}
    kept |= {"fig2a-euclidean.png", "fig2a-euclidean.svg", "claims.json", "claims.md", "instances"}
    assert made == {*kept, "page.html"}
    assert "multireplay reproduce fig2a" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "fig2a.csv").read_bytes() == (everything / "fig2a.csv").read_bytes()
    assert "fig2a" in result.output
    assert "fig2b" not in (tmp_path / "claims.json").read_text().replace("fig2a, fig2b", "")


def test_interrupted_command(tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(CurveFigure, "tune", stop)
    command = ["reproduce", "fig2a", "--size", "small", "--instances", "1", "--jobs", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 130
    assert "Interrupted" in result.output


@pytest.mark.parametrize("wrong", [["fig4"], ["fig2a", "--instances", "0"], ["fig2a", "--size", "huge"]])
def test_wrong_arguments(wrong, tmp_path):
    assert CliRunner().invoke(app, ["reproduce", *wrong, "--out", str(tmp_path)]).exit_code == 2
