"""How many threads are the usual number."""

from __future__ import annotations

import joblib
import pytest

from multireplay import _check


@pytest.mark.parametrize(
    ("says", "many"), [("max 100000", 8), ("250000 100000", 3), ("1000 100000", 1), ("900000 100000", 8), ("?", 8)]
)
def test_no_more_than_the_container_is_given(says, many, tmp_path, monkeypatch):
    (tmp_path / "cpu.max").write_text(says)
    monkeypatch.setattr(_check, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert _check.cores.__wrapped__() == many


def test_the_same_as_joblib():
    assert _check.cores() == joblib.cpu_count()
