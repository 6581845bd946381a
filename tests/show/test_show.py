"""What people see in a terminal: numbers in tables, and rates in progress bars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from multireplay.show.progress import RateColumn
from multireplay.show.text import number_in, plural, rough, seconds, short


def test_texts_that_are_numbers():
    assert [number_in(text) for text in ("1.5 ± 0.1", "12 %", "3×", "met")] == [1.5, 12.0, 3.0, None]


@pytest.mark.parametrize(
    ("done", "seconds", "unit", "words"),
    [(50_000, 2.0, "rows", "25,000 rows/s"), (3, 60.0, "seeds", "3.0 seeds/min"), (0, 1.0, "rows", "")],
)
def test_rates_in_words(done, seconds, unit, words):
    task = SimpleNamespace(fields={}, completed=done, elapsed=seconds)
    assert RateColumn(unit).render(task).plain == words


def test_numbers_are_written_as_a_person_reads_them():
    shown = [short(value) for value in (0.123456, 150000.0, -3.0, 1.5e-7, float("nan"), float("-inf"))]
    assert shown == ["0.1235", "150,000", "−3", "1.5e−7", "–", "−∞"]
    assert [rough(value) for value in (0.0123456, 3.14159, 1234.5, 2.5e-9)] == ["0.012", "3.1", "1,200", "2.5e−9"]
    assert [seconds(value) for value in (0.000123, 0.0456, 12.34, 754)] == ["0.12 ms", "46 ms", "12 s", "12.6 min"]
    assert (plural(1, "row"), plural(150000, "row")) == ("1 row", "150,000 rows")
