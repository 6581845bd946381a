"""The benchmark scripts: each can be loaded, so that none is left behind by a change of the library or of another."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_loads(script, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    loaded = runpy.run_path(str(script))
    sys.modules.pop("speed", None)
    assert loaded["__doc__"].strip()
    assert "python benchmarks/" + script.name in loaded["__doc__"]


def test_the_page_of_the_samplers_has_the_numbers_of_their_runs():
    pytest.importorskip("torchrl")
    script = runpy.run_path(str(FOLDER / "torchrl_samplers.py"))
    runs = list(csv.DictReader((FOLDER / "torchrl_samplers.csv").open(newline="")))
    page = (FOLDER.parent / "docs" / "api" / "torchrl.md").read_text(encoding="utf-8")
    assert script["page_table"](runs) in page
