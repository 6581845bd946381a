"""What `watch` does with rows that come, that come again, that cannot be used, and when it is told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from typer.testing import CliRunner

import multireplay as mr
from multireplay.cli import app, told, watching
from multireplay.errors import InputError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 2))
    y = x @ [2.0, -1.0] + 3 + 0.1 * rng.standard_normal(400)
    return [
        {"a": a, "b": b, "y": c, "when": 10.0 * at}
        for at, ((a, b), c) in enumerate(zip(x.tolist(), y.tolist(), strict=True))
    ]


@pytest.fixture
def watch(tmp_path):
    def command(lines, *more, code=0):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n"
        given = ["watch", "--store", str(tmp_path / "run"), "--target", "y", "--json", *map(str, more)]
        result = CliRunner().invoke(app, given, input=text)
        assert result.exit_code == code, result.output
        found = [json.loads(line) for line in result.stdout.splitlines()]
        return found[-1] if found else result.stderr

    return command


def test_rows_that_come_again_are_skipped(watch, rows, tmp_path):
    assert watch(rows[:150], "--features", "a,b")["position"] == 150
    found = watch(rows)
    assert found["position"] == 400
    assert found["names"] == ["a", "b", "(intercept)"]
    assert found["x"] == pytest.approx([2, -1, 3], abs=0.05)
    table = np.array([[row["a"], row["b"], 1.0] for row in rows])
    whole = mr.Stream(mr.GLM(), names=["a", "b", "(intercept)"])
    whole.observe_many(features=table, targets=np.array([row["y"] for row in rows]))
    assert found["x"] == whole.x.tolist()
    assert watch(rows[:10], "--new-rows")["position"] == 410


def test_times_and_columns_by_default(watch, rows):
    found = watch(rows, "--time", "when", "--forget", 300)
    assert found["names"] == ["a", "b", "(intercept)"]
    late = [{**rows[0], "when": 3.0}, {**rows[0], "when": "2031-05-01T12:00:00"}]
    found = watch(late, "--time", "when", "--new-rows")
    assert (found["position"], found["quarantined"]) == (402, 1)


def test_bad_rows_are_put_aside(watch, rows, tmp_path):
    bad = ["{", "[1]", {"a": 1}, {**rows[0], "b": "x"}, '{"a": NaN, "b": 1, "y": 1}', {**rows[0], "y": None}]
    found = watch([*rows[:20], *bad[:3], *rows[20:60], *bad[3:]], "--features", "a,b")
    assert (found["position"], found["quarantined"]) == (66, 6)
    lines = [json.loads(line) for line in (tmp_path / "run" / "quarantine.ndjson").read_text().splitlines()]
    assert [line["position"] for line in lines] == [20, 21, 22, 63, 64, 65]
    assert "it is not JSON" in lines[0]["why"]
    assert lines[3]["why"] == "'b' is 'x', which is no number"
    clean = watch(rows[:60], "--store", tmp_path / "clean", "--features", "a,b")
    assert found["x"] == clean["x"]


def test_bad_rows_are_refused_by_choice(watch, rows, tmp_path):
    text = watch([*rows[:20], "{"], "--bad", "refuse", "--features", "a,b", code=3)
    assert "row 20 (counting from 0): it is not JSON" in text
    assert watch([*rows[:20], rows[20]], "--bad", "refuse")["position"] == 21


def test_another_stream_is_refused(watch, rows):
    watch(rows[:20], "--features", "a,b")
    for more in (("--model", "logistic"), ("--features", "b,a"), ("--time", "when")):
        assert "and not what is asked for" in watch(rows, *more, code=3)
    assert "--forget is auto" in watch(rows, "--forget", "never", code=3)


def test_no_rows(watch):
    assert "no row has come" in watch([], code=3)
    assert "0 rows were taken" in watch([], "--features", "a,b")


def test_columns_that_say_the_same_have_no_intervals(watch, rows):
    found = watch([{**row, "b": 32 + 1.8 * row["a"], "c": row["b"]} for row in rows])
    errors = dict(zip(found["names"], found["standard_error"], strict=True))
    assert {name for name, error in errors.items() if error is None} == {"a", "b", "(intercept)"}


def test_a_growing_table(tmp_path, rows, monkeypatch):
    """A row counts once its line ends; what is added later is taken, and nothing twice."""
    path = tmp_path / "rows.csv"
    lines = ["a,b,y", *(f"{row['a']!r},{row['b']!r},{row['y']!r}" for row in rows)]
    path.write_text("\n".join(lines[:100])[:-3])
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 1:
            path.write_text("\n".join(lines) + "\n")
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.time, "sleep", nap)
    given = ["watch", "--store", str(tmp_path / "run"), "--target", "y", "--follow", str(path), "--json"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 130, result.output
    assert json.loads(result.stdout.splitlines()[-1])["position"] == 400
    assert CliRunner().invoke(app, [*given, "--once"]).exit_code == 0
    assert mr.Stream.open(tmp_path / "run", read_only=True).position == 400


def test_a_file_that_becomes_shorter(tmp_path, rows):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n1,2\n2,4\n")
    chunks = watching.rows_from(path, False)
    next(chunks)
    path.write_text("a,y\n")
    with pytest.raises(InputError, match="has become shorter"):
        next(chunks)
    with pytest.raises(InputError, match="there is no file"):
        watching.rows_from(tmp_path / "none", False)


def test_a_page_and_its_past(watch, rows, tmp_path):
    page = tmp_path / "live.html"
    watch(rows[:200], "--features", "a,b", "--report", page)
    watch(rows[:300], "--report", page)
    watch(rows, "--report", page, "--every", 7)
    text = page.read_text(encoding="utf-8")
    for words in ('http-equiv="refresh" content="7"', "Over time", "Drift and rate", "(intercept)"):
        assert words in text, words
    assert [one["position"] for one in past(tmp_path / "run")] == [200, 300, 400]
    file = tmp_path / "run" / "history.json"
    file.write_text(file.read_text().replace(".", ",", 1))  # one bit of it: all is JSON, and a list is longer
    watch(rows, "--report", page, "--new-rows")
    assert [one["position"] for one in past(tmp_path / "run")] == [800]


def past(folder):
    return json.loads((folder / "history.json").read_text())["answers"]


def test_metrics(tmp_path, rows):
    stream = mr.Stream(mr.GLM(), names=['a "b"'], store=tmp_path / "run")
    stream.observe_many(features=np.arange(1.0, 9.0)[:, None], targets=2 * np.arange(1.0, 9.0))
    outputs = told.Outputs(stream, 0.0, metrics=0)
    outputs.tell()
    port = outputs.server.server_address[1]
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "multireplay_rows_total 8.0\n" in text
    assert 'multireplay_coefficient{name="a \\"b\\""} 2.0' in text
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")
    with pytest.raises(InputError, match="--metrics"):
        told.Outputs(stream, 0.0, metrics=port)
    outputs.every = 1000.0
    stream.observe(features=[9.0], targets=18.0)
    outputs.tell()  # no answer yet, but what is counted is of now
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "multireplay_rows_total 9.0\n" in text
    assert "multireplay_coefficient{" in text
    outputs.tell(last=True)
    outputs.server.server_close()


def test_sigterm_ends_it_and_the_same_command_goes_on(tmp_path, rows):
    path = tmp_path / "rows.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:100]))
    given = ["watch", "--store", str(tmp_path / "run"), "--target", "y", "--follow", str(path), "--every", "0"]
    running = subprocess.Popen(
        [sys.executable, "-m", "multireplay", *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert "100 rows" in running.stdout.readline()
    time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "100 rows were taken; the same command goes on from there." in told
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows[100:])
    result = CliRunner().invoke(app, [*given, "--once", "--json"])
    assert json.loads(result.stdout.splitlines()[-1])["position"] == 400


def test_inspect_shows_and_verifies(run, watch, rows, tmp_path):
    watch([*rows[:200], "x"], "--features", "a,b")
    watch([*rows[:200], "x", *rows[200:]])
    result = run("inspect", tmp_path / "run")
    assert result.exit_code == 0, result.output
    for words in ("A stream of GLM", "Position 401", "1 row put aside", "Nobody writes", "All of it is as it was"):
        assert words in result.stdout, words
    found = json.loads(run("inspect", tmp_path / "run", "--json").stdout)
    assert (found["position"], found["quarantined"], found["wrong"]) == (401, 1, [])
    for name in ("snapshot-*.npy", "journal-*.bin", "quarantine.ndjson"):
        path = max((path for path in (tmp_path / "run").glob(name)), key=lambda path: path.stat().st_size)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
        result = run("inspect", tmp_path / "run", "--all")
        assert result.exit_code == 3, name
        assert "WRONG" in result.stdout
        path.write_bytes(data)
    (tmp_path / "run" / "store.json").unlink()
    result = run("inspect", tmp_path / "run")
    assert (result.exit_code, "it has no store.json" in result.output) == (3, True)
