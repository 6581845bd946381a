"""The demonstration: its two parts, what it prints and writes, and that it leaves alone what others wrote."""

from __future__ import annotations

import json
import re

import matplotlib.image
import numpy as np
import pyarrow.csv
import pytest
from typer.testing import CliRunner

from multireplay.bench import demo
from multireplay.bench.demo_files import DemoFolder, write_log
from multireplay.cli import app
from multireplay.errors import InputError

NAMES = ("power.csv", "demo.png", "demo.html", "demo.json")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(demo, "ROWS", 2000)
    monkeypatch.setattr(demo, "LENGTH", 4096)


def run(out, *more):
    return CliRunner().invoke(app, ["demo", "--out", str(out), "--repetitions", "3", "--trajectories", "2", *more])


def test_it_prints_the_command_and_every_method_and_writes_a_picture_and_a_page(tmp_path, small):
    result = run(tmp_path / "new")
    assert result.exit_code == 0, result.output
    shown = ["multireplay fit", "temperature", "(intercept)", "textbook OLS", *demo.METHODS, *map(str, NAMES[:3])]
    assert not [word for word in shown if word not in result.output]
    assert re.search(r"All of it took [\d.]+ (ms|s|min)\.", result.output)
    picture = matplotlib.image.imread(tmp_path / "new" / "demo.png")
    assert picture.shape[0] > 400
    assert picture[..., :3].std() > 0.05  # something is drawn
    page = (tmp_path / "new" / "demo.html").read_text(encoding="utf-8")
    assert "multireplay fit" in page
    assert "mr.solve" in page
    columns = pyarrow.csv.read_csv(tmp_path / "new" / "power.csv")
    assert columns.column_names == ["hour", "temperature", "wind", "sun", "power"]
    assert columns.num_rows == 2000


def test_as_json(tmp_path, small):
    found = json.loads(run(tmp_path, "--json").stdout)
    assert [row["method"] for row in found["policy_evaluation"]] == list(demo.METHODS)
    assert [row["coefficient"] for row in found["coverage"]] == list(demo.TRUTH)
    assert found["report"] == str(tmp_path / "demo.html")
    assert found["seconds"] > 0


def test_it_overwrites_what_it_wrote_itself(tmp_path, small):
    assert run(tmp_path, "--seed", "1").exit_code == 0
    first = (tmp_path / "power.csv").read_bytes()
    assert run(tmp_path).exit_code == 0
    assert (tmp_path / "power.csv").read_bytes() != first


@pytest.mark.parametrize("name", NAMES)
def test_it_overwrites_nothing_that_others_wrote(tmp_path, name):
    (tmp_path / name).write_text('{"files": {"power.csv": "mine"}}', encoding="utf-8")
    result = run(tmp_path)
    assert result.exit_code == 3
    assert name in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert (tmp_path / name).read_text(encoding="utf-8") == '{"files": {"power.csv": "mine"}}'


@pytest.mark.parametrize("name", ["power.csv", "demo.json"])
def test_it_overwrites_nothing_that_was_changed_since(tmp_path, name):
    write_log(DemoFolder(tmp_path), demo.sensor_log(0, rows=20))
    write_log(DemoFolder(tmp_path), demo.sensor_log(1, rows=20))  # its own may be written again
    with (tmp_path / name).open("a", encoding="utf-8") as file:
        file.write("1,2,3,4,5\n")
    with pytest.raises(InputError, match=f"{re.escape(name)} is there already"):
        DemoFolder(tmp_path)


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path):
    (tmp_path / "demo.png").mkdir()
    with pytest.raises(InputError, match=r"demo\.png is there already"):
        DemoFolder(tmp_path)


def test_textbook_intervals_are_those_of_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    log = demo.sensor_log(0, rows=500)
    rows = np.column_stack([log.weather, np.ones(500)])
    assert demo.textbook_intervals(log) == pytest.approx(api.OLS(log.power, rows).fit().conf_int(0.05))


def test_the_log_is_made_of_its_truth():
    """Between rows far apart all is new, so that a fit of many logs is near the truth in every coefficient."""
    logs = [demo.sensor_log((7, place), rows=2000) for place in range(30)]
    found = np.mean([demo.textbook_intervals(log).mean(axis=1) for log in logs], axis=0)
    spread = np.std([demo.textbook_intervals(log).mean(axis=1) for log in logs], axis=0, ddof=1) / np.sqrt(30)
    assert (np.abs(found - list(demo.TRUTH.values())) < 4 * spread).all()


def test_coverage_is_counted_with_its_binomial_standard_error():
    held = np.array([[[-2.0, -1.0], [0.5, 0.7], [-7, -5], [59, 61]]] * 3 + [[[-2.0, -1.6], [0, 1], [-7, -5], [61, 62]]])
    errors = {name: np.array([0.2, 0.4]) for name in demo.METHODS}
    found = demo.Demo({demo.OURS: held, demo.TEXTBOOK: held}, errors, errors, np.array([0.9, 1.0]))
    assert [row[demo.OURS] for row in found.coverage_table().rows] == [
        "75.0 % ± 21.7",
        "25.0 % ± 21.7",
        "100.0 % ± 0.0",
        "75.0 % ± 21.7",
    ]
    row = found.policy_table().rows[0]
    assert (row["squared error"], row["intervals"]) == ("3.0e-01 ± 1e-01", "95.0 % ± 5.0")
