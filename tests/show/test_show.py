"""What people see in a terminal: numbers in tables, and rates in progress bars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multireplay.show.progress import RateColumn
from multireplay.show.text import number_in


def test_texts_that_are_numbers():
    assert [number_in(text) for text in ("1.5 ± 0.1", "12 %", "3×", "met")] == [1.5, 12.0, 3.0, None]


@pytest.mark.parametrize(
    ("done", "seconds", "unit", "words"),
    [(50_000, 2.0, "rows", "25,000 rows/s"), (3, 60.0, "seeds", "3.0 seeds/min"), (0, 1.0, "rows", "")],
)
def test_rates_in_words(done, seconds, unit, words):
    task = SimpleNamespace(fields={}, completed=done, elapsed=seconds)
    assert RateColumn(unit).render(task).plain == words
