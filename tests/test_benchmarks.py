"""The benchmark scripts: each can be loaded, so that none is left behind by a change of the library or of another."""

from __future__ import annotations

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
