"""The tables of the README are those of the files that the benchmarks write."""

from __future__ import annotations

import runpy

from pages import ROOT


def test_the_tables_are_those_of_the_benchmarks() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "build_readme.py"))["body"]() in text, "python docs/build_readme.py"
