from __future__ import annotations

import json

import matplotlib.image
from typer.testing import CliRunner

from multireplay.cli import app


def test_demo_writes_a_picture_and_prints_every_method(tmp_path, monkeypatch):
    monkeypatch.setattr("multireplay.bench.demo.LENGTH", 4096)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new"), "--instances", "3"])
    assert result.exit_code == 0, result.output
    for method in ("MER", "serial", "skip 5", "uniform", "shuffle", "i.i.d.", "LSTD", "dyadic"):
        assert method in result.output
    picture = matplotlib.image.imread(tmp_path / "new" / "demo.png")
    assert picture.shape[0] > 500
    assert picture[..., :3].std() > 0.05  # something is drawn


def test_demo_as_json(tmp_path, monkeypatch):
    monkeypatch.setattr("multireplay.bench.demo.LENGTH", 4096)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--instances", "2", "--json"])
    found = json.loads(result.stdout)
    assert found["lstd"] > 0
    assert len(found["methods"]["MER"]["error"]) == 12  # one an epoch
