"""Where the rows of `watch` come from: a source that is silent, or has less than was taken, or is no table; no room."""

from __future__ import annotations

import json
import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from small_disk import small_disk
from typer.testing import CliRunner

import multireplay as mr
from multireplay.cli import app, told, watching
from multireplay.cli.watched import Watched
from multireplay.errors import InputError

RNG = np.random.default_rng(3)
ROWS = [{"a": a, "y": 2 * a + e} for a, e in RNG.standard_normal((6000, 2)).tolist()]


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def watch(tmp_path):
    def command(text, *more, code=0):
        given = ["watch", "--store", str(tmp_path / "run"), "--target", "y", *map(str, more)]
        result = CliRunner().invoke(app, given, input=text)
        assert result.exit_code == code, result.output
        return " ".join(result.stderr.split())

    return command


@pytest.fixture
def pipe(monkeypatch):
    """The writing end of standard input."""
    reading, writing = os.pipe()
    monkeypatch.setattr(watching, "WAIT", 0.01)
    monkeypatch.setattr(told, "IDLE", 0.02)
    with open(reading, "rb") as source:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
        yield writing


def test_a_silent_source_is_told_and_its_rate_falls_to_nothing(tmp_path, pipe, capsys):
    stream = mr.Stream(mr.GLM(), names=["a", "(intercept)"], store=tmp_path / "run", bad="quarantine")
    reading = watching.RowReading("y", watching.Recipe((watching.Term("a"),)))
    outputs = told.Outputs(stream, 0.0, as_json=True)
    assert "multireplay_rows_total 0.0\n" in outputs.text
    os.write(pipe, as_lines(ROWS[:300]).encode() + b'{"a": 1')
    end = threading.Timer(0.4, os.close, [pipe])
    end.start()
    lines = watching.parsed(watching.rows_from(None, False), Watched("y", "linear"))
    assert watching.watch_rows(watching.Feeding(stream, reading), lines, 0, outputs) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) > 4
    assert answers[0]["position"] == answers[-3]["position"] == 300
    assert (answers[-1]["position"], answers[-1]["quarantined"]) == (301, 1)
    assert answers[0]["rate"] > 0
    assert {answer["rate"] for answer in answers[1:-2]} == {0.0}
    assert "multireplay_quarantined_total 1.0\n" in outputs.text
    assert [one["position"] for one in outputs.history] == [300, 300, 301, 301]  # not every moment of a silent night


def test_a_named_pipe(tmp_path, pipe, monkeypatch):
    os.close(pipe)
    os.mkfifo(tmp_path / "pipe")
    chunks = watching.rows_from(tmp_path / "pipe", True)
    assert next(chunks) == []
    with (tmp_path / "pipe").open("wb", buffering=0) as writer:
        assert next(chunks) == []
        writer.write(b"one\ntwo")
        assert next(chunks) == [b"one"]
    assert [lines for lines in chunks if lines] == [[b"two"]]


def test_a_source_with_less_than_was_taken(watch, tmp_path):
    watch(as_lines(ROWS[:100]))
    said = watch(as_lines(ROWS[:40]), code=3)
    assert "The first 100 rows of the source were taken before, and are skipped." in said
    assert "the source ends after 40 rows, and 100 were taken before: it has nothing new. --new-rows takes" in said
    assert "100 rows were taken" in watch(as_lines(ROWS[:100]))
    assert "100 rows were taken" in watch("")
    said = watch(as_lines(ROWS[:40]), "--new-rows")
    assert "140 rows were taken" in said
    assert "skipped" not in said


def test_a_first_line_that_is_none(watch, tmp_path):
    said = watch("hello\n" + as_lines(ROWS[:20]), code=3)
    assert said == "the first line is 'hello': neither a JSON object nor a header with a column 'y'"
    assert "with a column 'b'" in watch("a,y\n1,2\n", "--features", "a,b", code=3)
    assert "the first line names the column 'a' 2 times" in watch("a;a;y\n1;2;3\n", code=3)
    assert not (tmp_path / "run").exists()
    assert "20 rows were taken;" in watch("\ufeff" + as_lines(ROWS[:20]))


def test_no_room_for_a_snapshot_or_the_page(watch, tmp_path):
    watch(as_lines(ROWS[:400]))
    with small_disk(1000):
        size = (tmp_path / "run" / "history.json").stat().st_size
        said = watch(as_lines(ROWS[:401]), "--new-rows", "--report", tmp_path / "page.html", code=1)
    assert size < 1000
    assert "cannot be written: File too large; 400 rows were taken before, and are kept." in said
    with small_disk(100_000):
        said = watch(as_lines(ROWS[:401]), "--report", tmp_path / "page.html")
    assert "page.html cannot be written now: File too large." in said
    assert "401 rows were taken;" in said


def test_no_room_for_rows(watch, tmp_path):
    """What is in the journal is kept, and the same command goes on where there is room again."""
    with small_disk(80_000):
        said = watch(as_lines(ROWS), code=1)
    taken = mr.Stream.open(tmp_path / "run", read_only=True).position
    assert 100 < taken < 6000
    assert f"cannot be written: File too large; {taken:,} rows were taken before, and are kept." in said
    watch(as_lines(ROWS))
    whole = mr.Stream(mr.GLM())
    whole.observe_many(features=[[row["a"], 1.0] for row in ROWS], targets=[row["y"] for row in ROWS])
    assert mr.Stream.open(tmp_path / "run", read_only=True).x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("new", [0, 3, 300])
def test_a_file_whose_name_another_has(tmp_path, new, monkeypatch):
    """What is still written to the old one is read; the new one is another source."""
    monkeypatch.setattr(watching, "WAIT", 0.01)
    monkeypatch.setattr(watching, "LATE", 0.05)
    path = tmp_path / "rows.ndjson"
    path.write_text(as_lines(ROWS[:20]))
    chunks = watching.rows_from(path, False)
    assert len(next(chunks)) == 20
    path.rename(tmp_path / "old")
    if new:
        path.write_text(as_lines(ROWS[20 : 20 + new]))
    assert next(chunks) == []
    with (tmp_path / "old").open("a") as file:
        file.write(as_lines(ROWS[:1]))
    assert len(next(chunks)) == 1
    with pytest.raises(InputError, match="rows.ndjson is another file now" if new else "rows.ndjson was deleted"):
        list(chunks)


def test_rows_of_another_source_are_not_those_that_were_taken(watch, tmp_path):
    """As after a log was rotated, or from `tail -f`, which begins somewhere."""
    watch(as_lines(ROWS[:100]))
    said = watch(as_lines(ROWS[50:300]), code=3)
    assert "which is not the first row of" in said
    assert "--new-rows takes" in said
    assert "350 rows were taken" in watch(as_lines(ROWS[50:300]), "--new-rows")
    assert "400 rows were taken" in watch(as_lines(ROWS[:400]))


def test_sigterm_ends_it_with_0_also_before_the_first_row(watch, tmp_path, monkeypatch):
    watch(as_lines(ROWS[:100]))

    def ended(*what):
        raise SystemExit(143)

    for place, name, said in (
        (told, "Outputs", "100 rows were taken;"),
        (watching, "open_stream", "No row was taken."),
    ):
        monkeypatch.setattr(place, name, ended)
        assert watch(as_lines(ROWS[:200])).endswith(
            said + " the same command goes on from there." * (name == "Outputs")
        )
    monkeypatch.undo()
    assert "200 rows were taken" in watch(as_lines(ROWS[:200]))
